"""The ceiling for two replicas: a bare client and two bare servers, plain sockets over loopback.

The client sends each batch to the primary. The primary forwards the same bytes to the backup, then writes
and syncs its own copy while the backup does; it acknowledges when both are synced. At most `window` batches
are in flight; nothing is grouped. Each server has two files, one of each kind.

```
request: the bytes of one batch, all of the same size       acknowledgement: one byte
```
"""

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from ithaca.bench.bare import KINDS, BareFile, CeilingSettings, batches_of
from ithaca.bench.children import start_child
from ithaca.bench.measure import Latency, Sample

ACK = b"\x06"
PEER_TIMEOUT_S = 60.0
"""A peer that says nothing for so long has failed: no disk takes that long over a batch."""


def receive_batch(source: socket.socket, block: memoryview) -> bool:
    """Fill `block`; False when the peer has finished."""
    received = 0
    while received < len(block):
        count = source.recv_into(block[received:])
        if count == 0:
            return False
        received += count
    return True


def _connect(port: int) -> socket.socket:
    peer = socket.create_connection(("127.0.0.1", port), timeout=PEER_TIMEOUT_S)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def serve(parent: Connection, directory: Path, settings: CeilingSettings, backup_ports: dict[str, int] | None) -> None:
    """A server process, the primary if it is told of a backup: one connection and thread per kind of file."""
    directory.mkdir()
    listeners = {kind: socket.create_server(("127.0.0.1", 0)) for kind in KINDS}
    for kind, listener in listeners.items():
        file = BareFile(directory / kind, kind, settings)
        backup = _connect(backup_ports[kind]) if backup_ports else None
        threading.Thread(target=_serve_file, args=(listener, file, backup, settings.batch_bytes), daemon=True).start()
    parent.send({kind: listener.getsockname()[1] for kind, listener in listeners.items()})
    with suppress(EOFError):
        parent.recv()  # nothing is ever sent: this returns when the parent has gone


def _serve_file(listener: socket.socket, file: BareFile, backup: socket.socket | None, batch_bytes: int) -> None:
    client, _ = listener.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    synced = threading.Semaphore(0)
    if backup is not None:
        threading.Thread(target=_acknowledge, args=(client, backup, synced), daemon=True).start()
    block = memoryview(bytearray(batch_bytes))
    with suppress(ConnectionError):  # whoever measures may end in the middle of a batch
        while receive_batch(client, block):
            if backup is not None:
                backup.sendall(block)
            file.write(block)
            if backup is None:
                client.sendall(ACK)
            else:
                synced.release()


def _acknowledge(client: socket.socket, backup: socket.socket, synced: threading.Semaphore) -> None:
    """Both copies are synced: tell the client. Apart, so that the next batch is received meanwhile."""
    backup.settimeout(None)  # between measurements there is nothing to acknowledge
    while backup.recv(1):
        synced.acquire()
        client.sendall(ACK)


@contextmanager
def replicated_contenders(directory: Path, settings: CeilingSettings) -> Iterator[dict[str, Callable[[], Sample]]]:
    """Start the two servers; one contender per kind of file. The servers end with the context."""
    batches = batches_of(settings.batch_bytes)
    with ExitStack() as stack:
        backup_ports = _start(stack, directory / "backup", settings, None)
        ports = _start(stack, directory / "primary", settings, backup_ports)
        yield {kind: _client(stack.enter_context(_connect(port)), batches, settings) for kind, port in ports.items()}


def _start(
    stack: ExitStack, directory: Path, settings: CeilingSettings, backup_ports: dict[str, int] | None
) -> dict[str, int]:
    server = start_child(stack, f"the bare {directory.name}", serve, directory, settings, backup_ports)
    ports: dict[str, int] = server.answer(PEER_TIMEOUT_S)
    return ports


def _client(server: socket.socket, batches: list[memoryview], settings: CeilingSettings) -> Callable[[], Sample]:
    def measure() -> Sample:
        sent_at: deque[float] = deque()
        durations: list[float] = []
        budget, sent = settings.budget, 0
        started = now = time.perf_counter()
        while True:
            while len(sent_at) < settings.window and not (
                sent and budget.spent(now - started, sent * settings.batch_bytes)
            ):
                sent_at.append(time.perf_counter())
                server.sendall(batches[sent % len(batches)])
                sent += 1
            if not sent_at:
                break
            acks = server.recv(settings.window)
            if not acks:
                raise ConnectionError("the bare primary closed the connection")
            now = time.perf_counter()
            durations.extend(now - sent_at.popleft() for _ in acks)
        count = len(durations) * settings.batch
        return Sample(count, count * settings.record_bytes, now - started, Latency.of(durations))

    return measure
