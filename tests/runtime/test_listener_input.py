"""What arrives at a listener beside good frames: HTTP, bad input, and those that stall."""

import asyncio
import contextlib
import itertools
import logging

import pytest
from tests.runtime.echo import HELLO, LANE, echo_server, raw, rest
from tests.runtime.loops import on_both_loops, until
from tests.runtime.streams import framed, get, last_word, messages

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.copying import LaneBatches
from ithaca.model.errors import (
    ProtocolError,
)
from ithaca.model.limits import FRAME_BYTES_MAX, HELLO_BYTES_MAX, HTTP_REQUEST_BYTES_MAX, KIB, MIB
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import (
    Failure,
    Finished,
    GetStatus,
    StatusIs,
    Welcome,
)
from ithaca.wire.frame import Frame, encode


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
    async with echo_server(hello_timeout_s=3) as server, contextlib.AsyncExitStack() as stack:
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
