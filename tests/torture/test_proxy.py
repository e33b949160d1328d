"""The network between servers, over real sockets: who speaks is known, and each way can be broken on its own."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ithaca.cluster.ports import free_ports
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Role
from ithaca.torture.proxy import CLIENTS, Network, party

SERVER = "shard-0-replica-1"
SOON_S = 10.0
QUIET_S = 0.2


def hello(role: Role, name: str = "") -> bytes:
    return b"".join(bytes(part) for part in encode_message(Hello(VERSION_MIN, VERSION_MAX, role, name, FEATURES)))


class World:
    """A server that sends everything back, and the way to it."""

    def __init__(self) -> None:
        self.network = Network(seed=1)
        public, private = (Address("127.0.0.1", port) for port in free_ports(2))
        self.public, self.private = public, private
        self.received = bytearray()
        self.server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        await self.network.start({SERVER: (self.public, self.private)})
        self.server = await asyncio.start_server(self._echo, self.private.host, self.private.port)

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while piece := await reader.read(1 << 16):
                self.received += piece
                writer.write(piece)
        finally:
            writer.close()

    async def dial(self, greeting: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.public.host, self.public.port)
        self._writers.append(writer)
        writer.write(greeting)
        return reader, writer

    async def stop(self) -> None:
        for writer in self._writers:
            writer.close()
        await self.network.close()
        if self.server is not None:
            self.server.close()
            await self.server.wait_closed()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.start()
    yield world
    await world.stop()


async def heard(reader: asyncio.StreamReader, expected: bytes) -> None:
    assert await asyncio.wait_for(reader.readexactly(len(expected)), SOON_S) == expected


async def quiet(reader: asyncio.StreamReader) -> None:
    """Nothing arrives, for long enough to have arrived otherwise."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readexactly(1), QUIET_S)


async def test_bytes_pass_both_ways(world: World) -> None:
    greeting = hello("orderer", "2")
    reader, writer = await world.dial(greeting)
    await heard(reader, greeting)
    many = bytes(range(256)) * 4096
    writer.write(many)
    await heard(reader, many)
    assert bytes(world.received) == greeting + many
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), SOON_S) == b""


@pytest.mark.parametrize(
    ("greeting", "name"),
    [
        (hello("orderer", "2"), "orderer-2"),
        (hello("replica", "0/0"), "shard-0-replica-0"),
        (hello("client", "status"), CLIENTS),
        (b"GET /health HTTP/1.1\r\n\r\n", CLIENTS),
    ],
)
async def test_who_dialled_is_known(world: World, greeting: bytes, name: str) -> None:
    world.network.way(name, SERVER).cut()
    reader, _ = await world.dial(greeting)
    await quiet(reader)
    assert world.network.way(name, SERVER).affected == 1
    other, _ = await world.dial(hello("replica", "7/7"))
    await heard(other, hello("replica", "7/7"))


async def test_a_cut_in_one_direction_holds_back_that_direction(world: World) -> None:
    greeting = hello("orderer", "1")
    reader, writer = await world.dial(greeting)
    await heard(reader, greeting)
    back = world.network.way(SERVER, "orderer-1")
    back.cut()
    writer.write(b"question")
    await quiet(reader)
    assert bytes(world.received) == greeting + b"question", "the other direction works"
    assert back.affected
    back.mend()
    await heard(reader, b"question")


async def test_what_was_cut_arrives_late_and_whole(world: World) -> None:
    greeting = hello("orderer", "1")
    reader, writer = await world.dial(greeting)
    await heard(reader, greeting)
    forth = world.network.way("orderer-1", SERVER)
    forth.cut()
    writer.write(b"a" * 300_000)
    await quiet(reader)
    assert bytes(world.received) == greeting
    forth.mend()
    await heard(reader, b"a" * 300_000)


async def test_a_slow_way_is_late_and_loses_nothing(world: World) -> None:
    greeting = hello("client")
    reader, writer = await world.dial(greeting)
    await heard(reader, greeting)
    forth = world.network.way(CLIENTS, SERVER)
    forth.slow((0.001, 0.002), loss=1.0, bytes_per_s=1e7)
    writer.write(b"b" * 100_000)
    await heard(reader, b"b" * 100_000)
    assert forth.affected
    affected = forth.affected
    forth.mend()
    writer.write(b"c")
    await heard(reader, b"c")
    assert forth.affected == affected


async def test_a_reset_breaks_the_connections_of_one_server(world: World) -> None:
    reader, _ = await world.dial(hello("orderer", "1"))
    await heard(reader, hello("orderer", "1"))
    assert world.network.reset("orderer-3") == 0
    assert world.network.reset("orderer-1") == 1
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), SOON_S)


async def test_a_server_that_is_down_is_told_by_the_end_of_the_connection(world: World) -> None:
    assert world.server is not None
    world.server.close()
    await world.server.wait_closed()
    reader, _ = await world.dial(hello("client"))
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), SOON_S)


async def test_a_hello_that_is_none_ends_the_connection(world: World) -> None:
    reader, _ = await world.dial((16).to_bytes(4, "little") + bytes(12))
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), SOON_S)
    assert not world.received


def test_ways_are_between_different_parties() -> None:
    async def count() -> int:
        return len(Network(1).ways(["a", "b"], ["b", "c"]))

    assert asyncio.run(count()) == 3


def test_names() -> None:
    assert party("replica", "12/3") == "shard-12-replica-3"
