"""Those who mean no good, over real sockets: nothing of what they say is taken, and others go on."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from tests.protocol.examples import EXAMPLES
from tests.protocol.made import MADE
from tests.runtime.echo import HELLO, EchoServer, Recorder, echo_server, raw, rest
from tests.security.conftest import CLUSTER, Papers

from ithaca.model.errors import AuthenticationFailed, IthacaError
from ithaca.model.limits import GREETINGS_MAX
from ithaca.model.security.tls import TLS
from ithaca.protocol.codec import encode_message, is_for_servers
from ithaca.protocol.greeting import Failure, Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Introduction, dial
from ithaca.runtime.listener import Guard
from ithaca.runtime.tls.contexts import contexts_of

SAID = tuple({type(example): example for example in (*MADE, *EXAMPLES)}.values())
"""One of each message of every engine."""


def closed_server(papers: Papers, **options: Any) -> AbstractAsyncContextManager[EchoServer]:
    own = Guard(papers.server("shard-0-replica-0"), CLUSTER, True, True)
    return echo_server(welcome_name="0/0", guard=own, **options)


async def known(server: EchoServer, tls: TLS) -> Connection:
    connection = await dial(server.address, Introduction(HELLO, tls), Recorder())
    server.dialled.append(connection)
    return connection


def framed(message: msgspec.Struct) -> bytes:
    return b"".join(encode_message(message))


async def test_in_the_open_no_message_is_taken(papers: Papers) -> None:
    async with closed_server(papers) as server:
        for message in SAID:
            async with raw(server.address) as (reader, writer):
                writer.write(framed(message))
                assert b"AuthenticationFailed" in await asyncio.wait_for(rest(reader), 5)
        assert server.connections == []


@pytest.mark.parametrize("has_said_hello", [False, True])
async def test_from_nobody_no_message_is_taken(papers: Papers, has_said_hello: bool) -> None:
    """Whoever has no certificate is not even let in; whoever has one begins with a hello."""
    async with closed_server(papers) as server:
        for message in SAID:
            if isinstance(message, Hello | Failure):
                continue
            context = contexts_of(papers.nobody).dialling
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port, ssl=context)
            writer.write((framed(HELLO) if has_said_hello else b"") + framed(message))
            said = await asyncio.wait_for(rest(reader), 5)
            assert (b"AuthenticationFailed" if has_said_hello else b"begins with Hello") in said
            writer.close()
        assert server.connections == []


def for_servers() -> Iterator[msgspec.Struct]:
    return (message for message in SAID if is_for_servers(message))


async def test_from_a_user_nothing_is_taken_that_servers_say(papers: Papers) -> None:
    alice, messages = papers.user("alice"), list(for_servers())
    assert len(messages) >= 15
    async with closed_server(papers) as server:
        other = await known(server, papers.user("bob"))
        for message in messages:
            connection = await known(server, alice)
            with pytest.raises(AuthenticationFailed, match="said by servers alone"):
                await connection.request(message)
            await asyncio.wait_for(connection.wait_lost(), 5)
        assert [peer.received for peer in server.peers[1:]] == [[]] * len(messages)
        assert await server.works(other)


async def test_many_who_begin_and_do_not_go_on_keep_nobody_out(papers: Papers) -> None:
    """A thousand connections that say half of a hello of TLS: the oldest go as more come, the rest in time."""
    async with closed_server(papers, hello_timeout_s=0.5) as server:
        connected = await known(server, papers.user("alice"))
        idle = []
        for number in range(1000):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port)
            writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[: number % 10])
            idle.append((reader, writer))
            if number % 250 == 249:
                assert await server.works(connected)
                assert server.listener.connection_count <= GREETINGS_MAX + 2
        newcomer = await known(server, papers.user("bob"))
        assert await server.works(newcomer)
        for reader, writer in idle:
            await asyncio.wait_for(rest(reader), 10)
            writer.close()
        assert await server.works(connected)
        assert len(server.connections) == 2


async def test_a_handshake_byte_by_byte_has_no_more_time_than_others(papers: Papers) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    half = contexts_of(papers.nobody).dialling.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        half.do_handshake()
    async with closed_server(papers, hello_timeout_s=0.3) as server:
        async with raw(server.address) as (reader, writer):
            try:
                for byte in outgoing.read():
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.002)
            except ConnectionError:
                pass  # the server has ended it
            await asyncio.wait_for(rest(reader), 5)
        assert server.connections == []
        assert len(server.refused) == 1


async def test_a_path_in_a_name_opens_nothing(papers: Papers) -> None:
    """What certificates and hellos say is compared, and never used as a path."""
    async with closed_server(papers) as server:
        for name in ("../../etc/passwd", "0/1/../../2", "/", "~", "\0", "a" * 200):
            hello = msgspec.structs.replace(HELLO, role="replica", name=name)
            with pytest.raises(IthacaError):
                await dial(server.address, Introduction(hello, papers.server("shard-0-replica-1")), Recorder())
        assert server.connections == []
