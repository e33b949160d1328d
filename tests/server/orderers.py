"""Orderers in one event loop, on real sockets and files, and peers that speak to them as clients and replicas do."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from tests.runtime.raft_calls import propose as proposed

from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.engines.scalog.messages.order import Applied, AppliedOutcome, GetTail, GetView, TailReply, ViewIs
from ithaca.engines.scalog.messages.reporting import Join, Joined, News, ReportIs, ShardNews
from ithaca.engines.scalog.messages.requests import request_of
from ithaca.engines.scalog.ordering.entries import OrderingEntry, encode_entry
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.model.config.cluster import AggregatorPlace, ClusterFile, OrdererPlace, ReplicaPlace, ShardPlace
from ithaca.model.cut import ShardCut
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Redirect, Role
from ithaca.raft.events import Settings
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.server.options import ServerOptions

SETTINGS = Settings(election_timeout_ms=300, heartbeat_ms=50)
DEADLINE_S = 20.0
_M = TypeVar("_M", bound=msgspec.Struct)


def free_addresses(count: int) -> list[Address]:
    """Loopback addresses with ports that are free, all different."""
    return [Address(LOOPBACK, port) for port in free_ports(count)]


def cluster_file(
    orderers: int = 3,
    shards: int = 1,
    replicas: int = 2,
    *,
    order_interval_us: int = 0,
    aggregators: Sequence[int] = (),
) -> ClusterFile:
    """A cluster whose replicas are never dialled, so that their addresses need not be free; `aggregators` has the
    level of each."""
    addresses = free_addresses(orderers + len(aggregators))
    places = tuple(OrdererPlace(number, address) for number, address in enumerate(addresses[:orderers], 1))
    return ClusterFile(
        "test",
        "fsync",
        order_interval_us,
        1 << 20,
        places,
        tuple(
            ShardPlace(
                shard,
                replicas - 1,
                False,
                tuple(
                    ReplicaPlace(replica, Address("127.0.0.1", 20 + 100 * shard + replica))
                    for replica in range(replicas)
                ),
            )
            for shard in range(shards)
        ),
        tuple(
            AggregatorPlace(number, address, level)
            for number, (address, level) in enumerate(zip(addresses[orderers:], aggregators, strict=True), 1)
        ),
    )


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds for which there is no event."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - there is no event for any condition
            await asyncio.sleep(0.002)


class Orderers:
    """The orderers of one cluster; each may be stopped and started again."""

    def __init__(self, file: ClusterFile, directory: Path, settings: Settings = SETTINGS) -> None:
        self.file = file
        self.directory = directory
        self.settings = settings
        self.up: dict[int, OrdererServer] = {}

    async def start(self, *numbers: int) -> None:
        for number in numbers or [place.server for place in self.file.orderers]:
            server = OrdererServer(
                self.file, number, str(self.directory / str(number)), ServerOptions(settings=self.settings)
            )
            await server.start()
            self.up[number] = server

    async def stop(self, *numbers: int) -> None:
        await asyncio.gather(*(self.up.pop(number).stop() for number in numbers or list(self.up)))

    def address(self, number: int) -> Address:
        return next(place.address for place in self.file.orderers if place.server == number)

    def leading(self) -> list[int]:
        return [number for number, server in self.up.items() if server.status()["state"] == "leader"]

    async def leader(self) -> int:
        """The leader, once it is ready: asked through its port, as a client would."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                for number in self.leading():
                    with suppress(IthacaError):
                        async with client(self.address(number)) as asking:
                            if isinstance((await asking.request(GetTail())).message, TailReply):
                                return number
                await asyncio.sleep(0.01)


@asynccontextmanager
async def orderers(file: ClusterFile, directory: Path, settings: Settings = SETTINGS) -> AsyncIterator[Orderers]:
    """All orderers of the file, running."""
    group = Orderers(file, directory, settings)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


class Mailbox:
    """Keeps what comes unasked."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.lost: asyncio.Future[IthacaError | None] = asyncio.get_running_loop().create_future()
        self._arrived = asyncio.Event()

    def on_message(self, connection: Connection, received: Received) -> None:
        self.messages.append(received.message)
        self._arrived.set()

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self.lost.set_result(error)
        self._arrived.set()

    async def next(self, kind: type[_M]) -> _M:
        """The next message, which is of this kind."""
        async with asyncio.timeout(DEADLINE_S):
            while not self.messages:
                assert not self.lost.done(), f"the connection ended before a {kind.__name__}: {self.lost.result()}"
                self._arrived.clear()
                await self._arrived.wait()
        message = self.messages.popleft()
        assert isinstance(message, kind), message
        return message


@asynccontextmanager
async def client(address: Address, role: Role = "client", name: str = "") -> AsyncIterator[Connection]:
    async with speaking(address, role, name) as (connection, _):
        yield connection


@asynccontextmanager
async def speaking(
    address: Address, role: Role = "client", name: str = ""
) -> AsyncIterator[tuple[Connection, Mailbox]]:
    mailbox = Mailbox()
    connection = await dial(address, Hello(VERSION_MIN, VERSION_MAX, role, name), mailbox)
    try:
        yield connection, mailbox
    finally:
        connection.abort()
        await connection.wait_lost()


async def ask(address: Address, message: Message, kind: type[_M]) -> _M:
    """One request over a connection of its own; its answer must be of this kind."""
    async with client(address) as connection:
        answer = (await connection.request(message)).message
    assert isinstance(answer, kind), answer
    return answer


async def propose(address: Address, entry: OrderingEntry) -> tuple[AppliedOutcome, ...]:
    """Ask for an entry, as clients do."""
    return (await ask(address, request_of(entry), Applied)).outcomes


async def agree(server: OrdererServer, entry: OrderingEntry) -> list[Outcome]:
    """Have the leader agree on an entry of its own, which no client can ask for."""
    assert server._driver is not None
    outcomes: list[Outcome] = await proposed(server._driver, encode_entry(entry))
    return outcomes


async def view(address: Address, at_least: int = 0) -> ViewIs:
    return await ask(address, GetView(at_least), ViewIs)


async def tail(address: Address) -> int:
    return (await ask(address, GetTail(), TailReply)).tail


class FakeReplica:
    """Joins as a replica, reports what it is told to, and keeps the news."""

    def __init__(self, shard: int, replica: int, boot: int = 1) -> None:
        self.shard = shard
        self.replica = replica
        self.boot = boot
        self.news: list[ShardNews] = []
        self.mailbox: Mailbox | None = None

    async def join(self, address: Address) -> Joined:
        self.mailbox = Mailbox()
        hello = Hello(VERSION_MIN, VERSION_MAX, "replica", f"{self.shard}/{self.replica}")
        self.connection = await dial(address, hello, self.mailbox)
        join = Join(self.shard, self.replica, self.boot)
        self.connection.send(join, correlation=self.connection.next_correlation())
        self.joined = await self.mailbox.next(Joined)
        return self.joined

    @property
    def lane(self) -> LaneId:
        assert self.joined.lane is not None
        return self.joined.lane

    def report(self, lengths: dict[LaneId, int], *, runs_cut: int = 0, epoch: int = 1) -> None:
        report = Report(self.shard, epoch, self.replica, self.boot, runs_cut, tuple(lengths.items()))
        self.connection.send(ReportIs(report))

    async def hear(self, kind: type[_M]) -> _M:
        """Wait for the next news of this kind; what comes before it is kept in `news`, and so is it."""
        assert self.mailbox is not None
        while True:
            items = (await self.mailbox.next(News)).items
            self.news += items
            for item in items:
                if isinstance(item, kind):
                    return item

    async def hear_cut(self, number: int) -> ShardCut:
        while True:
            for item in self.news:
                if isinstance(item, ShardCut) and item.number >= number:
                    return item
            assert self.mailbox is not None
            self.news += (await self.mailbox.next(News)).items

    async def leave(self) -> None:
        self.connection.abort()
        await self.connection.wait_lost()


@asynccontextmanager
async def joined(address: Address, replicas: Sequence[FakeReplica]) -> AsyncIterator[None]:
    """These replicas, joined one after the other; who came before its shard could order joins again for its lane."""
    try:
        for replica in replicas:
            await replica.join(address)
        for replica in replicas:
            if replica.joined.lane is None and replica.joined.summary.shard.phase == "live":
                await replica.leave()
                await replica.join(address)
        yield
    finally:
        for replica in replicas:
            if replica.mailbox is not None:
                await replica.leave()


async def redirected(address: Address, message: Message) -> Address | None:
    return (await ask(address, message, Redirect)).leader
