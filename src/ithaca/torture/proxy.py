"""A network that can be broken: TCP proxies between servers, and between servers and their clients.

Others reach a server at the address of its proxy, which says in the cluster's file; the server itself listens
elsewhere. Who dialled is known from its hello, the first frame of every connection. So there is a *way* from each
party to each other party, whoever dialled, and every way can be cut or slowed on its own: partitions may be partial,
and may be in one direction only.

Bytes on a way that is cut are held back, and arrive when it is mended, as TCP's retransmissions would. Loss is what it
is to users of TCP: now and then, bytes come later by the time of a retransmission.
"""

import asyncio
import math
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from random import Random

from ithaca.model.errors import ProtocolError
from ithaca.model.limits import HELLO_BYTES_MAX
from ithaca.model.view import Address
from ithaca.protocol.codec import decode_message
from ithaca.protocol.greeting import Hello
from ithaca.wire.frame import FrameDecoder

CLIENTS = "clients"
"""The party of everybody who is no server."""
PIECE_BYTES = 64 << 10
RETRANSMIT_S = 0.2
"""By how much lost bytes come later."""
IN_USE_S = 5.0
"""A way is in use if bytes came over it within this time."""
_PREFIX_BYTES = 4
_AT_ONCE = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing resets the connection."""


class Way:
    """What happens to bytes from one party to another."""

    def __init__(self, chance: Random) -> None:
        self.affected = 0
        """Pieces that were held back or came later."""
        self._passed_at_s = -math.inf
        self._chance = chance
        self._open = asyncio.Event()
        self._open.set()
        self._delay_s = (0.0, 0.0)
        self._loss = 0.0
        self._seconds_per_byte = 0.0

    def cut(self) -> None:
        self._open.clear()

    def slow(self, delay_s: tuple[float, float], *, loss: float = 0.0, bytes_per_s: float = 0.0) -> None:
        """Have every piece come later, and at most so many bytes in a second; 0: as many as there are."""
        self._delay_s, self._loss = delay_s, loss
        self._seconds_per_byte = 1 / bytes_per_s if bytes_per_s else 0.0

    def mend(self) -> None:
        self._delay_s, self._loss, self._seconds_per_byte = (0.0, 0.0), 0.0, 0.0
        self._open.set()

    def in_use(self) -> bool:
        """Whether bytes have come over this way lately."""
        return time.monotonic() - self._passed_at_s < IN_USE_S

    async def passed(self, count: int) -> None:
        """Returns when `count` more bytes have come over this way."""
        self._passed_at_s = time.monotonic()
        late_s = self._chance.uniform(*self._delay_s) + count * self._seconds_per_byte
        if self._loss and self._chance.random() < self._loss:
            late_s += RETRANSMIT_S
        if late_s > 0:
            self.affected += 1
            await asyncio.sleep(late_s)
        if not self._open.is_set():
            self.affected += 1
            await self._open.wait()


class Network:
    """The proxies of all servers, and the ways between all parties."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(f"network {seed}")
        self._ways: dict[tuple[str, str], Way] = {}
        self._also: dict[str, list[str]] = {}
        self._servers: list[asyncio.Server] = []
        self._connections: dict[asyncio.Task[None], frozenset[str]] = {}

    async def start(self, routes: Mapping[str, tuple[Address, Address]]) -> None:
        """Listen for each server at the first address, and pass on to the second."""
        for name, (public, private) in routes.items():

            async def connected(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name, at: Address = private
            ) -> None:
                await self._serve(reader, writer, name, at)

            server = await asyncio.start_server(connected, public.host, public.port, limit=PIECE_BYTES)
            self._servers.append(server)

    async def close(self) -> None:
        """End every connection."""
        for server in self._servers:
            server.close()
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def calls_itself(self, name: str, other: str) -> None:
        """A server has become another party: a spare says that it is a replica."""
        self._also.setdefault(name, [name]).append(other)

    def _parties(self, names: Iterable[str]) -> list[str]:
        return [party for name in names for party in self._also.get(name, [name])]

    def way(self, source: str, target: str) -> Way:
        """Between two parties, by their names."""
        return self._ways.setdefault((source, target), Way(self._chance))

    def ways(self, sources: Iterable[str], targets: Iterable[str]) -> list[Way]:
        """From each of some parties to each of some others."""
        sources, targets = self._parties(sources), self._parties(targets)
        return [self.way(source, target) for source in sources for target in targets if source != target]

    def reset(self, name: str) -> int:
        """Break every connection to or from a server; returns how many there were."""
        known = self._parties([name])
        broken = [task for task, parties in self._connections.items() if not parties.isdisjoint(known)]
        for task in broken:
            task.cancel()
        return len(broken)

    # Connections

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str, at: Address
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = frozenset((CLIENTS, target))
        upstream: asyncio.StreamWriter | None = None
        end = _reset
        try:
            hello, source = await _hello(reader)
            self._connections[task] = frozenset((source, target))
            forth, back = self.way(source, target), self.way(target, source)
            await forth.passed(len(hello))
            if reader.at_eof():  # whoever dialled has given up meanwhile
                return
            answers, upstream = await asyncio.open_connection(at.host, at.port, limit=PIECE_BYTES)
            upstream.write(hello)
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, upstream, forth))
                both.create_task(_pump(answers, writer, back))
            end = _close
        except (OSError, asyncio.IncompleteReadError, ProtocolError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side is gone, or was never there: the other side learns of it below
        finally:
            del self._connections[task]
            for each in (writer, upstream):
                if each is not None:
                    end(each)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
    """Pass on what comes, until it ends."""
    while piece := await reader.read(PIECE_BYTES):
        await way.passed(len(piece))
        writer.write(piece)
        await writer.drain()
    await way.passed(0)
    writer.write_eof()


def _close(writer: asyncio.StreamWriter) -> None:
    """What was written still goes out."""
    writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Nothing goes out any more, but that the connection is broken."""
    connection = writer.get_extra_info("socket")
    if connection is not None:  # it may be gone already
        with suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()


async def _hello(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """The first frame of a connection, and the party that it names."""
    prefix = await reader.readexactly(_PREFIX_BYTES)
    length = int.from_bytes(prefix, "little")
    if not _PREFIX_BYTES < length <= HELLO_BYTES_MAX:  # a request over HTTP, say
        return prefix, CLIENTS
    frame = prefix + await reader.readexactly(length - _PREFIX_BYTES)
    message = decode_message(FrameDecoder().feed(frame)[0]).message
    if not isinstance(message, Hello) or message.role == "client":
        return frame, CLIENTS
    return frame, party(message.role, message.name)


def party(role: str, name: str) -> str:
    """What a server is called here that calls itself so in its hello.

    >>> party("orderer", "2"), party("replica", "0/1")
    ('orderer-2', 'shard-0-replica-1')
    """
    if role == "orderer":
        return f"orderer-{name}"
    shard, _, replica = name.partition("/")
    return f"shard-{shard}-replica-{replica}"
