"""Every message of every engine from whoever has no certificate that counts, or repeats what it has heard."""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest
from tests.protocol.examples import EXAMPLES
from tests.protocol.made import MADE
from tests.runtime.echo import HELLO, EchoServer, Recorder, echo_server, raw, rest
from tests.security.conftest import CLUSTER, Papers
from tests.security.expired import moved

from ithaca.engines.scalog.messages.order import GetTail, GetView
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message, is_for_servers
from ithaca.protocol.greeting import Failure, Finished, GetStatus, Hello
from ithaca.runtime.dialling import Introduction, dial
from ithaca.runtime.listener import Guard
from ithaca.runtime.tls.contexts import contexts_of

SAID = tuple({type(each): each for each in (*MADE, *EXAMPLES) if not isinstance(each, Hello | Failure)}.values())
"""One of each message of every engine."""

Strangers = dict[str, TLS]


@pytest.fixture(scope="module")
def strangers(papers: Papers, foreign: Papers) -> Strangers:
    with pytest.MonkeyPatch.context() as patch:
        return {
            "nobody": papers.nobody,
            "a user of another cluster": papers.user("alice", cluster="shop"),
            "a server of another cluster": papers.server("orderer-1", cluster="shop"),
            "a user of another authority": foreign.user("alice", trusts=papers),
            "a server of another authority": foreign.server("orderer-1", trusts=papers),
            "an expired server": moved(papers, "orderer-7", timedelta(days=-10), patch),
            "a server that is not valid yet": moved(papers, "orderer-8", timedelta(days=10), patch),
        }


def framed(*messages: msgspec.Struct) -> bytes:
    return b"".join(bytes(buffer) for each in messages for buffer in encode_message(each))


async def say(server: EchoServer, tls: TLS, data: bytes) -> bytes:
    """Whatever a server answers, or nothing when it ends the handshake."""
    try:
        context = contexts_of(tls).dialling
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port, ssl=context)
    except (ConnectionError, ssl.SSLError):
        return b""
    try:
        writer.write(data)
        return await asyncio.wait_for(rest(reader), 10)
    except (ConnectionError, ssl.SSLError):
        return b""
    finally:
        writer.transport.abort()


def hello_of(number: int) -> Hello:
    """As a client, or as a server that there is."""
    role, name = (("client", ""), ("orderer", "1"), ("replica", "0/1"), ("aggregator", "1"))[number % 4]
    return msgspec.structs.replace(HELLO, role=role, name=name)


async def try_all(papers: Papers, strangers: Strangers, is_meant: Callable[[int, int], bool]) -> None:
    guard = Guard(papers.server("shard-0-replica-0"), CLUSTER, True, True)
    async with echo_server(welcome_name="0/0", guard=guard) as server:
        alice = await dial(server.address, Introduction(HELLO, papers.user("alice")), Recorder())
        server.dialled.append(alice)
        for place, tls in enumerate(strangers.values()):
            for number, message in enumerate(SAID):
                if is_meant(place, number):
                    said = await say(server, tls, framed(hello_of(number // 7), message))
                    assert said == b"" or b"AuthenticationFailed" in said
        assert [len(peer.received) for peer in server.peers] == [0], "alice is here, and nobody else was"
        assert await server.works(alice)


async def test_whose_certificate_does_not_count_is_not_heard(papers: Papers, strangers: Strangers) -> None:
    """Each message from one of them."""
    await try_all(papers, strangers, lambda place, number: number % len(strangers) == place)


@pytest.mark.campaign
async def test_whose_certificate_does_not_count_is_not_heard_whatever_it_says(
    papers: Papers, strangers: Strangers
) -> None:
    """Each message from each of them."""
    await try_all(papers, strangers, lambda place, number: True)


class Relay:
    """Between a client and a server: hears all, and understands nothing."""

    def __init__(self, server: EchoServer) -> None:
        self._server = server
        self._has_ended = asyncio.Event()
        self.heard: list[bytes] = []
        """What the client sent, piece by piece."""

    async def __aenter__(self) -> "Relay":
        self._listening = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.address = Address("127.0.0.1", self._listening.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._has_ended.wait()
        self._listening.close()
        await self._listening.wait_closed()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server.address.port)

        async def back() -> None:
            while data := await from_server.read(65_536):
                writer.write(data)

        answering = asyncio.create_task(back())
        try:
            with suppress(ConnectionError):
                while data := await reader.read(65_536):
                    self.heard.append(data)
                    to_server.write(data)
        finally:
            to_server.transport.abort()
            await asyncio.wait([answering])
            writer.transport.abort()
            self._has_ended.set()


async def test_what_was_recorded_is_not_taken_again(papers: Papers) -> None:
    """Every message of a client, as it went over the wire: sent again as it was, and behind a handshake of another."""
    guard = Guard(papers.server("shard-0-replica-0"), CLUSTER, True, True)
    told = [each for each in SAID if not is_for_servers(each) and not isinstance(each, GetTail | GetView | Finished)]
    async with echo_server(welcome_name="0/0", guard=guard) as server, Relay(server) as relay:
        alice = await dial(relay.address, Introduction(HELLO, papers.user("alice")), Recorder())
        handshake_bytes = sum(map(len, relay.heard))
        for message in told:
            alice.send(message)
        await _heard(server, len(told))
        alice.close()
        await alice.wait_lost()
        recorded = b"".join(relay.heard)
        async with raw(server.address) as (reader, writer):
            writer.write(recorded)
            await asyncio.wait_for(rest(reader), 10)
        bob = await dial(server.address, Introduction(HELLO, papers.user("bob")), Recorder())
        server.dialled.append(bob)
        transport = bob._transport
        assert transport is not None
        transport.write(recorded[handshake_bytes:])
        await asyncio.wait_for(bob.wait_lost(), 10)
        assert [len(peer.received) > 0 for peer in server.peers] == [True, False]


async def _heard(server: EchoServer, count: int) -> None:
    for _ in range(500):
        if len(server.peers[0].received) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(server.peers[0].received)} messages came of {count}")


async def test_somebody_is_still_heard(papers: Papers) -> None:
    """The same way of asking works for whoever is known, so that the others were refused for what they are."""
    guard = Guard(papers.server("shard-0-replica-0"), CLUSTER, True, True)
    async with echo_server(welcome_name="0/0", guard=guard) as server:
        context = contexts_of(papers.user("alice")).dialling
        reader, writer = await asyncio.open_connection("127.0.0.1", server.address.port, ssl=context)
        writer.write(framed(HELLO, GetStatus()))
        while len(server.peers) < 1 or not server.peers[0].received:
            assert await asyncio.wait_for(reader.read(65_536), 10)
        writer.transport.abort()
        assert len(server.connections) == 1
