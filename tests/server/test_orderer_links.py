"""Links between orderers: they come back by themselves, and lose what cannot be sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.server.orderers import free_addresses, until
from tests.server.raft_members import nowhere, raft_member

from ithaca.model.errors import IthacaError, NoSuchOrderer
from ithaca.model.records import Buffer
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.protocol.members import RaftMessage
from ithaca.raft.messages import AppendEntries, Entry, EntryKind, TimeoutNow
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import Listener, listen
from ithaca.server.raft_host import links as orderer_links
from ithaca.server.raft_host.links import RaftLinks


class Other:
    """Another orderer, as far as links can tell."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.connections: list[Connection] = []

    async def listen(self, address: Address, name: str) -> Listener:
        return await listen(
            address, accept=self._accept, welcome=lambda: Welcome(VERSION_MAX, "orderer", name), http=lambda _: None
        )

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        self.connections.append(connection)
        return self

    def on_message(self, connection: Connection, received: Received) -> None:
        assert isinstance(received.message, RaftMessage)
        self.heard.append(received.message.message.term)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass


class One:
    """The orderer whose links these are."""

    def __init__(self) -> None:
        self.unreachable: list[int] = []
        self.removed_by: list[int] = []
        self.heard: list[RaftMessage] = []
        self.link_lost = self.unreachable.append
        self.told_removed = self.removed_by.append

    def hear(self, says: RaftMessage, payload: Buffer) -> None:
        assert not len(payload)
        self.heard.append(says)

    def hello(self) -> Hello:
        return Hello(VERSION_MIN, VERSION_MAX, "orderer", "1")


@asynccontextmanager
async def linked(address: Address) -> AsyncIterator[tuple[RaftLinks, list[int]]]:
    """Links to server 2 at this address, and what was said to be unreachable."""
    one = One()
    links = RaftLinks(raft_member(1, nowhere(1)), one)
    links.follow({2: address})
    try:
        yield links, one.unreachable
    finally:
        await links.close()


async def say_until(links: RaftLinks, other: Other, term: int) -> None:
    """Say it again until it was heard, as Raft does."""
    async with asyncio.timeout(20):
        while term not in other.heard:
            links.send(2, RaftMessage(TimeoutNow(1, term)))
            await asyncio.sleep(0.005)


async def test_a_link_is_renewed_and_says_when_it_was_lost() -> None:
    (address,) = free_addresses(1)
    async with linked(address) as (links, unreachable):
        links.send(2, RaftMessage(TimeoutNow(1, 1)))
        links.send(9, RaftMessage(TimeoutNow(1, 1)))
        other = Other()
        listener = await other.listen(address, "2")
        await say_until(links, other, 2)
        await listener.close()
        await until(lambda: unreachable == [2])
        links.send(2, RaftMessage(TimeoutNow(1, 3)))
        again = Other()
        listener = await again.listen(address, "2")
        await say_until(links, again, 4)
        assert 1 not in other.heard, "what was said while nobody listened is lost"
        assert set(again.heard) == {4}
        await listener.close()


async def test_a_server_that_is_back_is_dialled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderer_links, "RECONNECT_PAUSE_S_MIN", 3600)
    monkeypatch.setattr(orderer_links, "RECONNECT_PAUSE_S_MAX", 3600)
    (address,) = free_addresses(1)
    async with linked(address) as (links, _):
        await asyncio.sleep(0.05)  # nobody listens, and the next attempt is in an hour
        other = Other()
        listener = await other.listen(address, "2")
        links.is_back(9)
        links.is_back(2)
        await say_until(links, other, 1)
    await listener.close()


async def test_nothing_is_said_to_another_server_at_the_same_address() -> None:
    (address,) = free_addresses(1)
    stranger = Other()
    listener = await stranger.listen(address, "3")
    async with linked(address) as (links, unreachable):
        await until(lambda: bool(stranger.connections))
        for _ in range(20):
            links.send(2, RaftMessage(TimeoutNow(1, 1)))
            await asyncio.sleep(0.001)
        assert stranger.heard == []
        assert unreachable == []
    await listener.close()


async def test_a_server_that_does_not_read_loses_messages_not_memory() -> None:
    (address,) = free_addresses(1)
    other = Other()
    listener = await other.listen(address, "2")
    async with linked(address) as (links, _):
        await say_until(links, other, 1)
        other.connections[0].pause_reading()
        large = (Entry(1, 1, EntryKind.PAYLOAD, bytes(1 << 20)),)
        for term in range(2, 102):
            links.send(2, RaftMessage(AppendEntries(1, term, 0, 0, large, 0)))
        other.connections[0].resume_reading()
        await say_until(links, other, 200)
        assert len(set(other.heard)) < 50, "most were dropped, since more than the high water mark was unsent"
    await listener.close()


async def test_links_follow_the_members_and_hear_answers() -> None:
    addresses = free_addresses(2)
    one, others = One(), [Other(), Other()]
    links = RaftLinks(raft_member(1, nowhere(1)), one)
    listeners = [await other.listen(at, name) for other, at, name in zip(others, addresses, "23", strict=True)]
    try:
        links.follow({2: addresses[0]})
        await say_until(links, others[0], 1)
        assert not links.send(3, RaftMessage(TimeoutNow(1, 1)))
        links.follow(dict(zip((2, 3), addresses, strict=True)))
        async with asyncio.timeout(20):
            while not others[1].heard:
                assert links.send(3, RaftMessage(TimeoutNow(1, 7)))
                await asyncio.sleep(0.005)
        others[1].connections[0].send(RaftMessage(TimeoutNow(3, 8)))
        await until(lambda: one.heard == [RaftMessage(TimeoutNow(3, 8))])
        others[1].connections[0].send(RaftMessage(TimeoutNow(2, 9)))
        await until(lambda: one.unreachable == [3])
        links.follow({3: addresses[1]})
        await until(lambda: not others[0].connections[0].is_open)
        assert not links.send(2, RaftMessage(TimeoutNow(1, 1)))
        assert one.heard == [RaftMessage(TimeoutNow(3, 8))], "nobody speaks for another"
    finally:
        await links.close()
        for listener in listeners:
            await listener.close()


async def test_an_orderer_that_was_removed_is_told() -> None:
    (address,) = free_addresses(1)

    def refuse(connection: Connection, hello: Hello) -> Peer:
        raise NoSuchOrderer("orderer 1 was removed")

    listener = await listen(
        address, accept=refuse, welcome=lambda: Welcome(VERSION_MAX, "orderer", "2"), http=lambda _: None
    )
    one = One()
    links = RaftLinks(raft_member(1, nowhere(1)), one)
    links.follow({2: address})
    try:
        await until(lambda: 2 in one.removed_by)
    finally:
        await links.close()
        await listener.close()
