"""Which engine a cluster has is asked of its servers, and whoever answers first decides."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.engines import toy

from ithaca.cluster.ports import free_ports
from ithaca.engines.connecting import connect, connect_awaited, engine_at
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


async def test_who_waits_is_told_for_what(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr("ithaca.engines.connecting.WAITING_TOLD_S", 0.05)
    with pytest.raises(Unavailable):
        await connect_awaited(f"127.0.0.1:{port}", timeout="300ms")
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith(f"waiting for the cluster at 127.0.0.1:{port}, for up to 0.3 s: nobody answers at")


async def test_a_name_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    asked: list[object] = []

    async def unknown(host: object, port: object, **options: object) -> list[object]:
        asked.append(host)
        if len(asked) > 1:  # the second question is never answered
            await asyncio.sleep(3600)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "getaddrinfo", unknown)
    with pytest.raises(Unavailable, match=r"within 0.3 s: the host nosuch.invalid of nosuch.invalid:7600 is not known"):
        await connect_awaited("nosuch.invalid:7600", timeout=0.3)
    assert len(asked) > 1


async def test_a_name_stands_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    async with server("scalog") as one:

        async def known(host: object, port: int, **options: object) -> list[tuple[object, ...]]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]

        monkeypatch.setattr(loop, "getaddrinfo", known)
        assert (await engine_at([Address("somebody", one.address.port)], PATIENCE_S)).name == "scalog"


def test_a_look_up_that_was_given_up_leaves_no_complaint() -> None:
    """At the end of the process, when the loop is collected."""
    code = "import ithaca\ntry: ithaca.connect('nosuchhost.invalid:7600', timeout=0.001)\nexcept Exception: pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
