"""Which engine a cluster has is asked of its servers, and whoever answers first decides."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.engines import toy

from ithaca.cluster.ports import free_ports
from ithaca.engines.connecting import connect, engine_at
from ithaca.model.errors import EngineMismatch, ProtocolError, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.greeting import VERSION_MAX, Welcome
from ithaca.runtime.connection import OnlyAnswers
from ithaca.runtime.listener import Listener, listen

PATIENCE_S = 30


@asynccontextmanager
async def server(engine: str) -> AsyncIterator[Listener]:
    """One that says hello, and nothing else."""
    listener = await listen(
        Address("127.0.0.1", 0),
        accept=lambda connection, hello: OnlyAnswers(),
        welcome=lambda: Welcome(VERSION_MAX, "orderer", "1", engine=engine),
        http=lambda path: None,
    )
    try:
        yield listener
    finally:
        await listener.close()


async def test_the_servers_say_which_engine_it_is() -> None:
    async with server("scalog") as one, server("toy") as other:
        assert (await engine_at([one.address], PATIENCE_S)).name == "scalog"
        assert (await engine_at([other.address], PATIENCE_S)).name == toy.Toy.name


async def test_an_engine_that_is_not_known_is_named_with_those_that_are() -> None:
    async with server("paxos") as one:
        with pytest.raises(
            EngineMismatch, match=f"the cluster at {one.address} has the engine 'paxos'.*scalog"
        ) as caught:
            await engine_at([one.address], PATIENCE_S)
    assert caught.value.engine == "paxos"


async def test_one_that_hangs_holds_up_nobody() -> None:
    """Nor does one that is not there, or one that speaks something else."""
    is_asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_asked.set()
        await reader.read()  # until the other side gives up
        writer.close()

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with (
        await asyncio.start_server(hang, "127.0.0.1", 0) as hanging,
        await asyncio.start_server(speak, "127.0.0.1", 0) as other,
        server("scalog") as good,
    ):
        addresses = [Address(*each.sockets[0].getsockname()) for each in (hanging, other)]
        nobody = Address("127.0.0.1", free_ports(1)[0])
        found = await engine_at([*addresses, nobody, good.address], 3600)
        await is_asked.wait()
    assert found.name == "scalog"


async def test_a_server_that_comes_later_is_found() -> None:
    (port,) = free_ports(1)
    address = Address("127.0.0.1", port)
    asking = asyncio.create_task(engine_at([address], PATIENCE_S))
    with pytest.raises(Unavailable, match=f"nobody answers at {address} within"):
        await engine_at([address], PATIENCE_S, patient=False)
    listener = await listen(
        address,
        accept=lambda connection, hello: OnlyAnswers(),
        welcome=lambda: Welcome(VERSION_MAX, "orderer", "1"),
        http=lambda path: None,
    )
    assert (await asking).name == "scalog"
    await listener.close()


async def test_where_nobody_is_of_ithaca_nobody_is_waited_for() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(16)
        writer.write(b"\xff" * 64)
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as other:
        address = Address(*other.sockets[0].getsockname())
        with pytest.raises(ProtocolError, match=f"no server of Ithaca is at {address}"):
            await engine_at([address], 3600)


def test_the_time_is_bounded() -> None:
    (port,) = free_ports(1)
    with pytest.raises(Unavailable, match=rf"nobody answers at 127.0.0.1:{port} within 0.1 s"):
        connect(f"127.0.0.1:{port}", timeout=0.1)
