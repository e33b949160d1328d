"""The one port of a server: greetings, HTTP, and whatever else may arrive there."""

import asyncio
import contextlib
import socket
from uuid import UUID

import pytest
import uvloop
from msgspec.structs import replace
from tests.runtime.echo import HELLO, LANE, LOG, EchoServer, Recorder, echo_server, raw, rest
from tests.runtime.loops import TIMEOUT_S, fails, on_both_loops, until
from tests.runtime.streams import framed, get, last_word

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.copying import LaneBatches
from ithaca.model.errors import (
    ConfigError,
    EngineMismatch,
    InvalidInput,
    IthacaError,
    Overloaded,
    ProtocolError,
    Unavailable,
)
from ithaca.model.errors import VersionMismatch as Mismatch
from ithaca.model.limits import KIB, MIB
from ithaca.model.view import Address
from ithaca.protocol.greeting import (
    ANY_ENGINE,
    VERSION_MAX,
    VERSION_MIN,
    GetStatus,
    Hello,
    Welcome,
)
from ithaca.runtime.admission import Capacity, limited
from ithaca.runtime.dialling import dial
from ithaca.runtime.frame_budget import FrameBudget
from ithaca.runtime.listener import listen

# Greeting


@on_both_loops
async def test_a_hello_is_answered_with_the_version_that_both_speak() -> None:
    async with echo_server() as server:
        connection = await dial(server.address, Hello(0, 9, "client", log=LOG), Recorder())
        assert connection.welcome == Welcome(2, "replica", name="echo", log=LOG)
        connection.close()
        older = await dial(server.address, Hello(1, 1, "client", log=LOG), Recorder())
        assert older.welcome == Welcome(1, "replica", name="echo", log=LOG)
        older.close()


@pytest.mark.parametrize(
    ("hello", "kind", "match"),
    [
        (Hello(3, 4, "client"), Mismatch, r"speaks versions 3\.\.4 .* speaks 1\.\.2"),
        (Hello(0, 0, "client"), Mismatch, r"speaks versions 0\.\.0 .* speaks 1\.\.2"),
        (Hello(1, 1, "client", log=UUID(int=8)), ProtocolError, f"log {UUID(int=8)}, .* serves {LOG}"),
        (Hello(1, 1, "client", name="stranger"), InvalidInput, "no strangers here"),
        (Hello(1, 1, "client", name="trip"), Unavailable, "ended|broke"),
    ],
)
@on_both_loops
async def test_a_hello_may_be_refused(hello: Hello, kind: type[IthacaError], match: str) -> None:
    async with echo_server() as server:
        other = await server.dial()
        await fails(dial(server.address, hello, Recorder()), kind, match)
        await until(lambda: server.listener.connection_count == 1)
        assert await server.works(other)


@on_both_loops
async def test_a_hello_for_another_engine_is_refused_and_says_both() -> None:
    async with echo_server() as server:
        both = "has the engine corfu, and .* has scalog"
        with pytest.raises(EngineMismatch, match=both) as refused:
            await dial(server.address, replace(HELLO, engine="corfu"), Recorder())
        assert refused.value.engine == "scalog"
        curious = await dial(server.address, replace(HELLO, engine=ANY_ENGINE), Recorder())
        assert curious.welcome is not None
        assert curious.welcome.engine == "scalog"
        assert await server.works(curious)


@on_both_loops
async def test_a_server_that_does_not_know_of_engines_is_refused_by_those_of_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It takes everybody, and says nothing of an engine: whoever dials has to look."""

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.write(framed(Welcome(1, "orderer", "1")))
        await reader.read()
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as older:
        address = Address(*older.sockets[0].getsockname())
        ours = Hello(VERSION_MIN, VERSION_MAX, "orderer", "2", engine="raft")
        await fails(dial(address, ours, Recorder()), EngineMismatch, f"has the engine raft, and {address} has scalog")
    assert "is no server of this cluster" in caplog.text


@on_both_loops
async def test_a_server_without_a_log_yet_takes_everybody() -> None:
    listener = await listen(
        Address("127.0.0.1", 0),
        accept=lambda connection, hello: Recorder(),
        welcome=lambda: Welcome(1, "orderer"),
        http=lambda path: None,
    )
    connection = await dial(listener.address, replace(HELLO, log=LOG), Recorder())
    await listener.close()
    await connection.wait_lost()


# Listening and closing


@on_both_loops
async def test_a_port_that_is_taken_is_named() -> None:
    async with echo_server() as server:
        other = EchoServer()
        starting = listen(server.address, accept=other.accept, welcome=lambda: Welcome(1, "replica"), http=other.http)
        await fails(starting, Unavailable, f"{server.address}: another process listens there")


@on_both_loops
async def test_an_address_that_is_not_here_is_named() -> None:
    other = EchoServer()
    address = Address("192.0.2.1", 7600)
    starting = listen(address, accept=other.accept, welcome=lambda: Welcome(1, "replica"), http=other.http)
    await fails(starting, ConfigError, f"cannot listen at {address}")


@on_both_loops
async def test_closing_ends_every_connection_and_frees_the_port() -> None:
    async with echo_server() as server:
        peers = [Recorder() for _ in range(3)]
        connections = [await server.dial(peer) for peer in peers]
        async with raw(server.address) as (reader, writer):
            writer.write(b"GE")
            await until(lambda: server.listener.connection_count == 4)
            await server.listener.close()
            await server.listener.close()
            assert await rest(reader) == b""
        assert server.listener.connection_count == 0
        assert [peer.lost for peer in server.peers] == [[None]] * 3
        for connection in connections:
            await connection.wait_lost()
        await fails(dial(server.address, HELLO, Recorder()), Unavailable, "nobody answers")
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((server.address.host, server.address.port))


@on_both_loops
async def test_closing_does_not_wait_for_a_peer_that_never_reads() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.pause_reading()
        sender = server.connections[0]
        while sender.is_writable:
            sender.send(LaneBatches(LANE), payload=[bytes(MIB)])
            await asyncio.sleep(0)
        await server.listener.close()
        assert len(server.peers[0].lost) == 1


def test_a_connection_that_arrives_while_closing_is_closed_too() -> None:
    """On uvloop, where servers run; asyncio's own server forgets such a connection before it tells anybody."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for turns in range(8):
            async with echo_server(hello_timeout_s=1000.0) as server:
                with socket.create_connection((server.address.host, server.address.port)) as arriving:
                    arriving.setblocking(False)
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    await server.listener.close()
                    with contextlib.suppress(ConnectionError):
                        assert await loop.sock_recv(arriving, 1) == b""

    uvloop.run(asyncio.wait_for(main(), TIMEOUT_S))


@on_both_loops
async def test_connections_beyond_the_bound_are_told() -> None:
    async with echo_server(capacity=limited(2, 64, 64)) as server:
        first, second = await server.dial(), await server.dial()
        await fails(server.dial(), Overloaded, "holds 2 connections of clients already, and no more than 2")
        assert await server.works(first)
        second.close()
        await until(lambda: server.listener.connection_count == 1)
        assert await server.works(await server.dial())
        assert [type(error) for error in server.refused] == [Overloaded]


@on_both_loops
async def test_far_beyond_the_bound_connections_are_dropped() -> None:
    async with echo_server(capacity=limited(1, 64, 4)) as server, contextlib.AsyncExitStack() as stack:
        first = await server.dial()
        said = []
        for _ in range(8):
            reader, writer = await stack.enter_async_context(raw(server.address))
            writer.write(framed(HELLO))
            said.append(reader)
        answers = [await rest(reader) for reader in said]
        assert await server.works(first)
        assert [bool(answer) for answer in answers] == [True] * 4 + [False] * 4
        assert isinstance(last_word(answers[0]), Overloaded)
        assert [type(error) for error in server.refused] == [Overloaded] * 8


@on_both_loops
async def test_clients_leave_room_for_servers() -> None:
    """However many clients there are, replicas, orderers and aggregators get in, up to the bound of all."""
    async with echo_server(capacity=Capacity(6, 4, 8, 8)) as server:
        clients = [await server.dial(), await server.dial()]
        await fails(server.dial(), Overloaded, "no more than 2")
        for role in ("replica", "orderer", "aggregator", "replica"):
            server.dialled.append(await dial(server.address, replace(HELLO, role=role), Recorder()))
        await fails(
            dial(server.address, replace(HELLO, role="replica"), Recorder()), Overloaded, "holds 6 connections already"
        )
        assert (server.listener.admission.clients, server.listener.admission.servers) == (2, 4)
        for connection in (*clients, *server.dialled[2:]):
            assert await server.works(connection)
        clients[0].close()
        await until(lambda: server.listener.admission.clients == 1)
        assert await server.works(await server.dial())


@on_both_loops
async def test_servers_may_have_what_clients_have_not_taken() -> None:
    async with echo_server(capacity=Capacity(4, 1, 8, 8)) as server:
        for _ in range(4):
            server.dialled.append(await dial(server.address, replace(HELLO, role="replica"), Recorder()))
        await fails(server.dial(), Overloaded, "holds 0 connections of clients already")


@on_both_loops
async def test_of_those_that_say_nothing_the_oldest_goes_first() -> None:
    async with echo_server(capacity=limited(9, 3, 64), hello_timeout_s=1000.0) as server:
        async with contextlib.AsyncExitStack() as stack:
            silent = [await stack.enter_async_context(raw(server.address)) for _ in range(5)]
            assert await rest(silent[0][0]) == await rest(silent[1][0]) == b""
            assert server.listener.connection_count == 3
            said = await server.dial()
            assert await rest(silent[2][0]) == b"", "and one more went for the one that said hello"
            assert await server.works(said)
            silent[3][1].write(framed(HELLO) + framed(GetStatus()))
            await until(lambda: len(server.peers) == 2 and len(server.peers[1].received) == 1)
            assert (await get(server.address, b"GET /health HTTP/1.0\r\n\r\n")).endswith(b"fine\n")
        assert {type(error) for error in server.refused} == {Overloaded}
        assert "said no hello" in str(server.refused[0])


@on_both_loops
async def test_unfinished_frames_of_all_connections_are_bounded() -> None:
    """Who finds no room waits with what it has received, and goes on when there is some."""
    async with echo_server() as server:
        server.listener.frames = budget = FrameBudget(MIB, 0, MIB)
        slow = [await server.dial() for _ in range(3)]
        frame = framed(Append(LANE), bytes(700 * KIB))
        async with raw(server.address) as (_, holder):
            holder.write(framed(HELLO))
            await until(lambda: len(server.peers) == 4)
            holder.write(frame[: 100 * KIB])
            await until(lambda: budget.bytes == len(frame))
            asking = [asyncio.ensure_future(each.request(Append(LANE), [bytes(700 * KIB)])) for each in slow]
            await until(lambda: budget.waiting == 3)
            assert budget.bytes == len(frame)
            holder.write(frame[100 * KIB :])
            for each in asking:
                assert len((await each).payload) == 700 * KIB
        await until(lambda: (budget.bytes, budget.waiting) == (0, 0))
        assert server.refused == []


@on_both_loops
async def test_who_cannot_even_wait_is_told() -> None:
    async with echo_server() as server:
        server.listener.frames = budget = FrameBudget(MIB, 0, 0)
        connection = await server.dial()
        async with raw(server.address) as (_, holder):
            holder.write(framed(HELLO))
            await until(lambda: len(server.peers) == 2)
            holder.write(framed(Append(LANE), bytes(MIB))[: 100 * KIB])
            await until(lambda: budget.bytes > MIB)
            await fails(connection.request(Append(LANE), [bytes(MIB)]), Overloaded, "unfinished frames hold")
        await until(lambda: budget.bytes == 0)
