"""The one port of a server: greetings, HTTP, and whatever else may arrive there."""

import asyncio
import contextlib
import itertools
import logging
import socket
from uuid import UUID

import msgspec
import pytest
import uvloop
from msgspec.structs import replace
from tests.runtime.echo import HELLO, LANE, LOG, EchoServer, Recorder, echo_server, raw, rest
from tests.runtime.loops import TIMEOUT_S, fails, on_both_loops, until

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
from ithaca.model.limits import FRAME_BYTES_MAX, HELLO_BYTES_MAX, HTTP_REQUEST_BYTES_MAX, KIB, MIB
from ithaca.model.view import Address
from ithaca.protocol.codec import decode_message, encode_message
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import (
    ANY_ENGINE,
    VERSION_MAX,
    VERSION_MIN,
    Failure,
    Finished,
    GetStatus,
    Hello,
    StatusIs,
    Welcome,
)
from ithaca.runtime.admission import Capacity, limited
from ithaca.runtime.connection import dial
from ithaca.runtime.frame_budget import FrameBudget
from ithaca.runtime.listener import listen
from ithaca.wire.frame import Frame, FrameDecoder, encode


def framed(message: msgspec.Struct, payload: bytes = b"") -> bytes:
    return b"".join(map(bytes, encode_message(message, payload=[payload] if payload else ())))


def messages(stream: bytes) -> list[msgspec.Struct]:
    return [decode_message(frame).message for frame in FrameDecoder().feed(stream)]


def last_word(stream: bytes) -> IthacaError:
    """The reason that a server gave before it ended a connection."""
    failure = messages(stream)[-1]
    assert isinstance(failure, Failure)
    return error_of(failure)


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


# HTTP


async def get(address: Address, *parts: bytes) -> bytes:
    async with raw(address) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.005)
        return await rest(reader)


@on_both_loops
async def test_plain_http_on_the_same_port() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        answer = await get(server.address, b"GET /health?verbose HTTP/1.1\r\nHost: here\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"HTTP/1.1 200 OK",
            b"Content-Type: text/plain",
            b"Content-Length: 5",
            b"Connection: close",
        ]
        assert body == b"fine\n"
        assert (await get(server.address, b"GET /nothing HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert (await get(server.address, b"GET \r\n\r\n")).startswith(b"HTTP/1.1 404 ")
        assert (await get(server.address, b"GET /bug HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 500 ")
        assert server.refused == []
        assert await server.works(connection)


@on_both_loops
async def test_a_request_split_over_packets() -> None:
    request = b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n"
    async with echo_server() as server:
        for places in ((1,), (2, 3), (4,), (5, 20), (len(request) - 1,), tuple(range(1, len(request), 6))):
            bounds = [0, *places, len(request)]
            parts = [request[low:high] for low, high in itertools.pairwise(bounds)]
            assert (await get(server.address, *parts)).endswith(b"fine\n")


@on_both_loops
async def test_whoever_stays_after_the_answer_is_not_waited_for() -> None:
    async with echo_server(hello_timeout_s=0.05) as server, raw(server.address) as (reader, writer):
        writer.write(b"GET /health HTTP/1.1\r\n\r\n")
        assert (await rest(reader)).endswith(b"fine\n")
        await until(lambda: server.listener.connection_count == 0)
        assert server.refused == []


@on_both_loops
async def test_a_request_without_an_end_is_cut_off_at_a_bound() -> None:
    async with echo_server() as server:
        answer = await get(server.address, b"GET /health HTTP/1.1\r\nCookie: " + b"x" * HTTP_REQUEST_BYTES_MAX)
        assert answer.startswith(b"HTTP/1.1 431 ")
        await until(lambda: server.listener.connection_count == 0)
        assert str(HTTP_REQUEST_BYTES_MAX) in str(server.refused[0])


@pytest.mark.parametrize("opening", [b"", b"G", b"GET /hea", framed(HELLO)[:1], framed(HELLO)[:-1]])
@on_both_loops
async def test_whoever_dawdles_at_the_beginning_is_closed(opening: bytes) -> None:
    """Nothing at all, half a request, half a hello: after the time-out the connection is gone."""
    async with echo_server(hello_timeout_s=0.05) as server:
        other = await server.dial()
        async with raw(server.address) as (reader, writer):
            writer.write(opening)
            assert await rest(reader) == b""
        await until(lambda: server.listener.connection_count == 1)
        assert "within 0.05 s" in str(server.refused[0])
        assert await server.works(other)


# Bad input


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\x00" * 64, "length of 0"),
        (b"\xff" * 300_000, "exceeds"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "exceeds"),
        (b"POST / HTTP/1.1\r\nHost: here\r\n\r\n", "exceeds"),
        (b"GEX" + bytes(40), "exceeds|multiple"),
        (framed(LaneBatches(LANE), bytes(HELLO_BYTES_MAX)), f"exceeds the {HELLO_BYTES_MAX}"),
        (framed(GetStatus()), "began with GetStatus: a connection begins with Hello"),
        (framed(Welcome(1, "client")), "began with Welcome"),
        (b"".join(map(bytes, encode(Frame(250, 0, 0, b"\x90")))), "type 250 is not known"),
        (b"".join(map(bytes, encode(Frame(1, 0, 0, b"\xc1")))), "Hello cannot be decoded"),
        (b"".join(map(bytes, encode(Frame(1, 0, 0, b"")))), "Hello cannot be decoded"),
    ],
)
@on_both_loops
async def test_bad_beginnings(sent: bytes, reason: str) -> None:
    """Each is answered with the reason, logged, and concerns nobody else."""
    async with echo_server() as server:
        other = await server.dial()
        async with raw(server.address) as (reader, writer):
            writer.write(sent)
            error = last_word(await rest(reader))
        assert isinstance(error, ProtocolError)
        with pytest.raises(ProtocolError, match=reason):
            raise error
        await until(lambda: server.listener.connection_count == 1)
        assert [str(refused) for refused in server.refused] == [str(error)]
        assert len(server.peers) == 1
        assert await server.works(other)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\xff" * 300_000, "exceeds"),
        ((FRAME_BYTES_MAX // 8 * 8 + 8).to_bytes(4, "little") + bytes(12), f"exceeds the {FRAME_BYTES_MAX}"),
        (b"".join(map(bytes, encode(Frame(250, 0, 0, b"\x90")))), "type 250 is not known"),
        (b"".join(map(bytes, encode(Frame(6, 0, 0, b"\xc1")))), "GetStatus cannot be decoded"),
        (b"".join(map(bytes, encode(Frame(6, 1, 0, b"\x09")))), "is not in a payload of 0"),
    ],
)
@on_both_loops
async def test_bad_input_after_the_hello(sent: bytes, reason: str) -> None:
    async with echo_server() as server:
        other = await server.dial()
        async with raw(server.address) as (reader, writer):
            writer.write(framed(HELLO) + framed(GetStatus()))
            await until(lambda: len(server.peers) == 2 and len(server.peers[1].received) == 1)
            writer.write(framed(GetStatus()) + sent + framed(GetStatus()))
            said = messages(await rest(reader))
        assert [type(each) for each in said] == [Welcome, StatusIs, StatusIs, Failure]
        assert isinstance(said[-1], Failure)
        with pytest.raises(ProtocolError, match=reason):
            raise error_of(said[-1])
        await until(lambda: bool(server.peers[1].lost))
        assert isinstance(server.peers[1].lost[0], ProtocolError)
        assert await server.works(other)


@on_both_loops
async def test_a_frame_that_stalls_in_the_middle_is_given_up() -> None:
    """One byte now and then does not help: the whole frame has a deadline. Idle connections have none."""
    async with echo_server(hello_timeout_s=0.05, frame_timeout_s=0.1) as server:
        idle = await server.dial()
        frame = framed(Append(LANE), bytes(64 * KIB))
        async with raw(server.address) as (reader, writer):
            writer.write(framed(HELLO))
            await until(lambda: len(server.peers) == 2)
            writer.write(frame + frame[:100])
            await until(lambda: len(server.peers[1].received) == 1)
            reading = asyncio.ensure_future(rest(reader))
            while not reading.done():
                with contextlib.suppress(ConnectionError):
                    writer.write(b"\x00")
                await asyncio.sleep(0.01)
        await until(lambda: server.listener.connection_count == 1)
        assert "did not complete a frame within 0.1 s" in str(server.refused[0])
        assert await server.works(idle)


@on_both_loops
async def test_frames_that_arrive_in_parts_all_the_time_do_not_stall() -> None:
    async with echo_server(hello_timeout_s=0.2, frame_timeout_s=0.2) as server:
        frame = framed(GetStatus())
        async with raw(server.address) as (_, writer):
            writer.write(framed(HELLO) + frame[:10])
            for _ in range(60):
                writer.write(frame[10:] + frame[:10])
                await asyncio.sleep(0.01)
            await until(lambda: bool(server.peers) and len(server.peers[0].received) == 60)
            assert server.refused == []


@on_both_loops
async def test_a_frame_does_not_stall_while_this_side_does_not_read() -> None:
    async with echo_server(hello_timeout_s=0.3, frame_timeout_s=0.3) as server:
        connection = await server.dial()
        receiver = server.connections[0]
        asking = asyncio.ensure_future(connection.request(Append(LANE), [bytes(8 * MIB)]))
        await until(lambda: receiver._inside_since is not None)
        receiver.pause_reading()
        await asyncio.sleep(0.8)
        receiver.resume_reading()
        assert len((await asking).payload) == 8 * MIB


@on_both_loops
async def test_many_idle_connections_disturb_nobody() -> None:
    """500 that said hello and 200 that said nothing, while another one works."""
    async with echo_server(hello_timeout_s=0.5) as server, contextlib.AsyncExitStack() as stack:
        working = await server.dial()
        for _ in range(500):
            await server.dial()
        for _ in range(200):
            await stack.enter_async_context(raw(server.address))
        payload = bytes(16 * KIB)
        for _ in range(50):
            assert len((await working.request(Append(LANE), [payload])).payload) == len(payload)
        await until(lambda: server.listener.connection_count == 501)
        assert len(server.refused) == 200
        assert await server.works(server.dialled[250])


@on_both_loops
async def test_connections_that_come_and_go_leave_nothing() -> None:
    async with echo_server() as server:
        openings = (b"", b"\xff" * 99, framed(HELLO), framed(HELLO)[:20], b"GET /health HTTP/1.0\r\n\r\n")
        for opening in openings * 30:
            async with raw(server.address) as (_, writer):
                writer.write(opening)
        await until(lambda: server.listener.connection_count == 0)
        assert all(len(peer.lost) == 1 for peer in server.peers)


def test_reasons_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with echo_server(hello_timeout_s=0.02) as server:
            for sent in (b"", b"\xff" * 16, framed(Finished())):
                async with raw(server.address) as (reader, writer):
                    writer.write(sent)
                    await rest(reader)

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    texts = [record.getMessage() for record in caplog.records if record.name.startswith("ithaca.")]
    assert len(texts) == 3
    for text, reason in zip(texts, ("no hello within", "exceeds", "began with Finished"), strict=True):
        assert text.startswith("127.0.0.1:")
        assert " is closed: " in text
        assert reason in text
