"""What a connection on this machine can carry at all: a bare sender in a process of its own, plain sockets.

Two services, each on a port of its own: *stream* sends all bytes to whoever connects, in large writes;
*answers* sends one record for every request.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count as count_from
from multiprocessing.connection import Connection

from ithaca.bench.children import start_child
from ithaca.bench.measure import Budget, Latency, Sample, repeat
from ithaca.bench.place import payload
from ithaca.model.limits import MIB
from ithaca.model.records import Record

WRITE_BYTES = MIB
REQUEST = bytes(16)
_LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Loopback:
    """Where the bare sender listens, and what it sends."""

    stream_port: int
    answers_port: int
    total_bytes: int
    record_bytes: int


def start_loopback(stack: ExitStack, total_bytes: int, record_bytes: int) -> Loopback:
    """A bare sender of whole records, until the stack is left."""
    total_bytes -= total_bytes % record_bytes
    sender = start_child(stack, "the bare sender", serve, total_bytes, record_bytes)
    stream_port, answers_port = sender.answer()
    return Loopback(stream_port, answers_port, total_bytes, record_bytes)


def serve(parent: Connection, total_bytes: int, record_bytes: int) -> None:
    """The sender's process."""
    block = memoryview(payload(WRITE_BYTES))
    record = payload(record_bytes)

    def stream(client: socket.socket) -> None:
        for sent in range(0, total_bytes, WRITE_BYTES):
            client.sendall(block[: total_bytes - sent])

    def answer(client: socket.socket) -> None:
        while client.recv(len(REQUEST)):
            client.sendall(record)

    parent.send((_listen(stream), _listen(answer)))
    parent.recv()  # nothing is ever sent: this ends when the parent has gone


def _listen(service: Callable[[socket.socket], None]) -> int:
    listener = socket.create_server((_LOCAL, 0))

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with client, suppress(ConnectionError):
                service(client)

    threading.Thread(target=accept, daemon=True).start()
    return int(listener.getsockname()[1])


def receive_bytes(loopback: Loopback) -> Sample:
    """All bytes of the stream, into one buffer again and again."""
    return _receive(loopback, lambda received: None)


def receive_records(loopback: Loopback) -> Sample:
    """All bytes of the stream, cut into records as a reader has them in its hands."""
    positions = count_from(1)

    def cut(received: memoryview) -> None:
        for offset in range(0, len(received), loopback.record_bytes):
            value = bytes(received[offset : offset + loopback.record_bytes])
            Record(next(positions), value, None, 0, 0)

    return _receive(loopback, cut)


def _receive(loopback: Loopback, use: Callable[[memoryview], None]) -> Sample:
    size = max(1, WRITE_BYTES // loopback.record_bytes) * loopback.record_bytes
    buffer = memoryview(bytearray(size))
    durations: list[float] = []
    total = 0
    with socket.create_connection((_LOCAL, loopback.stream_port)) as source:
        started = now = time.perf_counter()
        while total < loopback.total_bytes:
            wanted = min(size, loopback.total_bytes - total)
            filled = 0
            while filled < wanted:
                count = source.recv_into(buffer[filled:wanted])
                if not count:
                    raise ConnectionError("the bare sender closed the connection")
                filled += count
            use(buffer[:filled])
            total += filled
            then, now = now, time.perf_counter()
            durations.append(now - then)
    return Sample(total // loopback.record_bytes, total, now - started, Latency.of(durations))


def round_trips(loopback: Loopback, seconds: float) -> Sample:
    """A small request and one record for it, again and again."""
    buffer = memoryview(bytearray(loopback.record_bytes))
    with socket.create_connection((_LOCAL, loopback.answers_port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(turn: int) -> None:
            server.sendall(REQUEST)
            filled = 0
            while filled < len(buffer):
                count = server.recv_into(buffer[filled:])
                if not count:
                    raise ConnectionError("the bare sender closed the connection")
                filled += count

        return repeat(ask, 1, loopback.record_bytes, Budget(seconds))
