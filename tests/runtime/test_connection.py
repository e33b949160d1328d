"""Connections over real sockets, on both event loops: requests, streams, and every way to end."""

import asyncio
import contextlib
import functools
import gc
import socket
from typing import Any

import pytest
from tests.runtime.echo import HELLO, LANE, LOG, Recorder, echo_server
from tests.runtime.loops import fails, on_both_loops, until

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.copying import LaneBatches
from ithaca.engines.scalog.messages.order import GetTail, GetView
from ithaca.engines.scalog.messages.reading import Elsewhere, Found, Read
from ithaca.model.errors import (
    DeadlineExceeded,
    InvalidInput,
    IthacaError,
    NotWritten,
    ProtocolError,
    Unavailable,
    VersionMismatch,
)
from ithaca.model.limits import MIB, SEND_BACKLOG_BYTES_MAX, SEND_HIGH_WATER_BYTES
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message
from ithaca.protocol.failures import failure_of
from ithaca.protocol.greeting import Finished, GetStatus, Hello, StatusIs, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial


@contextlib.asynccontextmanager
async def answering(reply: bytes, *, close: bool = False) -> Any:
    """A server that answers whatever comes with these bytes; yields its address and its connections' ends."""
    ended: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(reply)
        if close:
            writer.close()
        with contextlib.suppress(ConnectionError):
            ended.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1]), ended
    finally:
        server.close()
        await server.wait_closed()


def open_connections() -> list[Connection]:
    """All of this process, those of servers that other tests share among them included."""
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Connection and each.is_open]


def framed(*messages: Any) -> bytes:
    return b"".join(bytes(buffer) for message in messages for buffer in encode_message(message))


@on_both_loops
async def test_requests_and_answers() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        assert connection.welcome is not None
        assert connection.welcome.log == LOG
        assert server.connections[0].hello == HELLO
        assert connection.name == str(server.address)
        for size in (0, 8, 20_000, 5 * MIB):
            answer = await connection.request(Append(LANE), [bytes(size)])
            assert isinstance(answer.message, Found)
            assert bytes(answer.payload) == bytes(size)
        answers = await asyncio.gather(*[connection.request(GetStatus()) for _ in range(100)])
        assert {answer.message for answer in answers} == {StatusIs(b"{}")}


@on_both_loops
async def test_a_failure_is_raised_as_what_it_says() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        asking = asyncio.ensure_future(connection.request(Read(9)))
        await until(lambda: bool(server.peers and server.peers[0].received))
        server.connections[0].fail(server.peers[0].received[0], NotWritten("not yet", tail=5))
        with pytest.raises(NotWritten, match="not yet") as caught:
            await asking
        assert caught.value.tail == 5
        assert await server.works(connection)


@on_both_loops
async def test_what_is_not_awaited_is_handed_to_the_peer() -> None:
    async with echo_server() as server:
        peer = Recorder()
        connection = await server.dial(peer)
        number = connection.next_correlation()
        connection.send(GetStatus(), correlation=number)
        await until(lambda: bool(peer.received))
        assert (peer.received[0].message, peer.received[0].correlation) == (StatusIs(b"{}"), number)
        server.connections[0].send(Finished())
        await until(lambda: len(peer.received) == 2)
        assert peer.received[1].message == Finished()


@on_both_loops
async def test_an_answer_after_the_deadline_reaches_nobody() -> None:
    async with echo_server() as server:
        peer = Recorder()
        connection = await server.dial(peer)
        with pytest.raises(DeadlineExceeded, match=r"did not answer within 0\.01 s") as caught:
            await connection.request(Read(1), timeout=0.01)
        assert caught.value.outcome_unknown
        await until(lambda: bool(server.peers[0].received))
        server.connections[0].answer(server.peers[0].received[0], Elsewhere())
        assert await server.works(connection)
        assert peer.received == []
        assert connection._waiting == {}


@on_both_loops
async def test_a_cancelled_request_is_forgotten() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        asking = asyncio.ensure_future(connection.request(Read(1)))
        await until(lambda: bool(server.peers and server.peers[0].received))
        asking.cancel()
        await asyncio.wait([asking])
        assert connection._waiting == {}
        assert await server.works(connection)


@on_both_loops
async def test_numbers_wrap_around_and_stay_apart() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection._last_request, connection._last_correlation = 0xFFFF_FFFC, 0xFFFF_FFFD
        assert [connection.next_correlation() for _ in range(3)] == [0xFFFF_FFFF, 1, 3]
        for _ in range(3):
            assert await server.works(connection)
        assert [each.correlation for each in server.peers[0].received] == [0xFFFF_FFFE, 2, 4]


@pytest.mark.parametrize("way", ["close", "abort", "refuse"])
@on_both_loops
async def test_requests_fail_when_the_server_ends_the_connection(way: str) -> None:
    async with echo_server() as server:
        peer = Recorder()
        connection = await server.dial(peer)
        asking = [asyncio.ensure_future(connection.request(Read(1))) for _ in range(3)]
        await until(lambda: bool(server.peers and len(server.peers[0].received) == 3))
        other = server.connections[0]
        if way == "refuse":
            other.refuse(VersionMismatch("enough"))
        else:
            getattr(other, way)()
        errors = await asyncio.gather(*asking, return_exceptions=True)
        kind, match = (VersionMismatch, "enough") if way == "refuse" else (Unavailable, str(server.address))
        for error in errors:
            assert isinstance(error, kind)
            assert match in str(error)
            assert error.outcome_unknown
        assert len({id(error) for error in errors}) == 3
        assert not connection.is_open
        await fails(connection.request(GetStatus()), kind, match)
        await until(lambda: bool(peer.lost and server.peers[0].lost))
        assert len(peer.lost) == len(server.peers[0].lost) == 1


@on_both_loops
async def test_before_it_was_sent_a_request_has_no_unknown_outcome() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.close()
        connection.close()
        with pytest.raises(Unavailable, match="has ended") as caught:
            await connection.request(GetStatus())
        assert not caught.value.outcome_unknown
        connection.send(GetStatus())
        connection.pause_reading()
        connection.resume_reading()
        connection.abort()
        connection.refuse(InvalidInput("late"))
        await connection.wait_lost()
        connection.send(GetStatus())
        await fails(connection.drained(), Unavailable, "has ended")


@on_both_loops
async def test_what_was_sent_before_a_close_arrives() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.send(LaneBatches(LANE), payload=[bytes(5 * MIB)])
        connection.close()
        await connection.wait_lost()
        await until(lambda: bool(server.peers[0].lost))
        assert len(server.peers[0].received[0].payload) == 5 * MIB
        assert server.peers[0].lost == [None]


@on_both_loops
async def test_an_error_of_the_peer_object_ends_its_connection_alone() -> None:
    async with echo_server() as server:
        fine, refused, tripped = [await server.dial() for _ in range(3)]
        await fails(refused.request(GetTail()), InvalidInput, "nobody may ask for the tail")
        await fails(tripped.request(GetView()), Unavailable, "the connection to")
        await until(lambda: bool(server.peers[1].lost and server.peers[2].lost))
        assert isinstance(server.peers[1].lost[0], InvalidInput)
        assert "a bug" in str(server.peers[2].lost[0])
        assert await server.works(fine)


@on_both_loops
async def test_messages_behind_the_one_that_ended_a_connection_are_dropped() -> None:
    """Whether it ended with an error or was just closed."""
    async with echo_server() as server:
        connection = await server.dial()
        connection.send(GetStatus())
        connection.send(GetTail())
        connection.send(GetStatus())
        await connection.wait_lost()
        assert [type(each.message) for each in server.peers[0].received] == [GetStatus, GetTail]
        other = await server.dial()
        for message in (Finished(), GetStatus(), Finished(), GetStatus()):
            other.send(message)
        await other.wait_lost()
        assert [type(each.message) for each in server.peers[1].received] == [Finished]


@on_both_loops
async def test_a_stream_waits_for_its_reader() -> None:
    async with echo_server() as server:
        peer = Recorder()
        connection = await server.dial(peer)
        connection.pause_reading()
        sender = server.connections[0]
        sent = 0
        while sender.is_writable:
            sender.send(LaneBatches(LANE), payload=[bytes(MIB)])
            sent += 1
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(sender.drained())
        await asyncio.sleep(0)
        assert not waiting.done()
        connection.resume_reading()
        await waiting
        await until(lambda: len(peer.received) == sent)


@on_both_loops
async def test_waiting_for_a_reader_ends_with_the_connection() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.pause_reading()
        sender = server.connections[0]
        while sender.is_writable:
            sender.send(LaneBatches(LANE), payload=[bytes(SEND_HIGH_WATER_BYTES)])
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(sender.drained())
        await asyncio.sleep(0)
        connection.abort()
        await fails(waiting, Unavailable, "connection")


@on_both_loops
async def test_a_peer_that_never_reads_is_cut_off_at_a_bound() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.pause_reading()
        sender = server.connections[0]
        block = bytes(16 * MIB)
        for _ in range(2 * SEND_BACKLOG_BYTES_MAX // len(block)):
            sender.send(LaneBatches(LANE), payload=[block])
        assert not sender.is_open
        await sender.wait_lost()
        assert "does not read" in str(server.peers[0].lost[0])


@on_both_loops
async def test_closing_on_a_peer_that_never_reads_ends_all_the_same() -> None:
    async with echo_server() as server:
        connection = await server.dial()
        connection.pause_reading()
        sender = server.connections[0]
        while sender.is_writable:
            sender.send(LaneBatches(LANE), payload=[bytes(MIB)])
            await asyncio.sleep(0)
        sender.close()
        await sender.wait_lost()


@on_both_loops
async def test_sockets_notice_a_silent_peer_unless_it_may_be_slow() -> None:
    async with echo_server() as server:
        for connection in (await server.dial(), server.connections[0]):
            transport = connection._transport
            assert transport is not None
            option = functools.partial(transport.get_extra_info("socket").getsockopt, socket.IPPROTO_TCP)
            assert transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert option(socket.TCP_NODELAY) == 1
            assert (option(socket.TCP_KEEPIDLE), option(socket.TCP_KEEPINTVL), option(socket.TCP_KEEPCNT)) == (5, 5, 3)
            assert option(socket.TCP_USER_TIMEOUT) == 20_000
            connection.allow_slow_reader()
            assert option(socket.TCP_USER_TIMEOUT) == 0


# Dialling


@on_both_loops
async def test_nobody_there() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", closed.getsockname()[1])
        await fails(dial(address, HELLO, Recorder()), Unavailable, f"nobody answers at {address}")
    await fails(dial(Address("no.such.host.invalid", 1), HELLO, Recorder()), Unavailable, "no.such.host.invalid")


@on_both_loops
async def test_a_server_that_refuses_is_named_by_its_error() -> None:
    peer = Recorder()
    async with answering(framed(failure_of(NotWritten("not yet", tail=5))), close=True) as (address, _):
        with pytest.raises(NotWritten, match="not yet") as caught:
            await dial(address, HELLO, peer)
    assert caught.value.tail == 5
    assert peer.lost == []


@on_both_loops
async def test_servers_that_are_not_ours() -> None:
    for reply, kind, match in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "exceeds"),
        (framed(Finished()), ProtocolError, "answered a hello with Finished: it is no Ithaca server"),
        (framed(HELLO), ProtocolError, "answered a hello with Hello"),
        (framed(Welcome(9, "replica")), VersionMismatch, r"speaks version 9, this side 1\.\.2"),
    ):
        async with answering(reply) as (address, ended):
            await fails(dial(address, HELLO, Recorder()), kind, match)
            await until(lambda ended=ended: len(ended) == 1)  # type: ignore[misc]


@on_both_loops
async def test_a_server_that_hangs_up() -> None:
    async with answering(b"", close=True) as (address, _):
        await fails(dial(address, HELLO, Recorder()), Unavailable, "ended|broke")


@on_both_loops
async def test_a_server_that_never_answers_is_given_up() -> None:
    async with answering(b"") as (address, ended):
        await fails(dial(address, HELLO, Recorder(), timeout=0.05), Unavailable, r"did not answer within 0\.05 s")
        await until(lambda: len(ended) == 1)


@on_both_loops
async def test_a_cancelled_dial_leaves_no_connection() -> None:
    before = open_connections()
    async with answering(b"") as (address, ended):
        for turns in range(12):
            dialling = asyncio.ensure_future(dial(address, HELLO, Recorder()))
            for _ in range(turns):
                await asyncio.sleep(0)
            dialling.cancel()
            await asyncio.wait([dialling])
            assert dialling.cancelled()
        dialling = asyncio.ensure_future(dial(address, HELLO, Recorder()))
        await asyncio.sleep(0.05)
        ended.clear()
        dialling.cancel()
        await asyncio.wait([dialling])
        await until(lambda: len(ended) == 1)
    assert [each for each in open_connections() if each not in before] == []


def test_a_connection_to_itself_is_nobody() -> None:
    """The kernel may pick, as the dialler's own port, the one that it dials."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            place = taken.getsockname()
        create = loop.create_connection
        loop.create_connection = functools.partial(create, local_addr=place)  # type: ignore[method-assign]
        await fails(dial(Address(*place), HELLO, Recorder()), Unavailable, "came back to its own side")

    asyncio.run(main())


@on_both_loops
async def test_a_failure_outside_of_requests_ends_the_connection_on_both_sides() -> None:
    async with echo_server() as server:
        peer = Recorder()
        connection = await server.dial(peer)
        server.connections[0].refuse(InvalidInput("go away"))
        await connection.wait_lost()
        await server.connections[0].wait_lost()
        error = peer.lost[0]
        assert isinstance(error, InvalidInput)
        assert str(error) == "go away"
        assert isinstance(connection.lost_error(), InvalidInput)


@on_both_loops
async def test_a_hello_with_more_than_fits_is_not_sent() -> None:
    async with echo_server() as server:
        with pytest.raises(IthacaError):
            await dial(server.address, Hello(1, 1, "client", name="x" * 70_000), Recorder())
