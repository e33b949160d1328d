"""A tiny cluster in memory that speaks the protocol over real sockets: the order is kept by the real core, everything
is ordered as soon as it is accepted, and tests can make it fail in all the ways that a client must stand.
"""

import asyncio
import random
import time
from bisect import bisect_left
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

from tests.client.fake_servers import Entry, FakeOrderer, FakeReplica

from ithaca.client.bootstrap import parse_bootstrap
from ithaca.client.settings import ClientSettings
from ithaca.engines.scalog.client.log import AsyncClusterLog, open_log
from ithaca.engines.scalog.messages.appending import Acks
from ithaca.engines.scalog.ordering.entries import (
    CloseLane,
    Configure,
    OrderingEntry,
    RegisterShard,
    cut,
)
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    LaneClosed,
    OrderedCut,
    Outcome,
    SessionMoved,
    SessionOpened,
)
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.cut import LaneLengths
from ithaca.model.errors import Unavailable
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration
from ithaca.protocol.greeting import Failure
from ithaca.runtime.connection import Connection
from ithaca.wire.batch import Batch


class FakeCluster:
    """One log; `connect` gives handles on it, and leaving the context closes them first."""

    def __init__(self, shards: int = 1, replicas: int = 2, orderers: int = 1) -> None:
        self.log: UUID = uuid4()
        self.state = OrderingState()
        self.orderers = [FakeOrderer(self, server) for server in range(1, orderers + 1)]
        self.leader: FakeOrderer | None = self.orderers[0]
        self.replicas = [[FakeReplica(self, shard, number) for number in range(replicas)] for shard in range(shards)]
        self.stores: dict[int, list[Entry]] = {shard: [] for shard in range(shards)}
        self.batches: dict[LaneId, list[Batch]] = {}
        self.pending: dict[tuple[LaneId, int], list[tuple[Connection, int]]] = {}
        self.times: dict[int, int] = {}
        self.is_holding = False
        """Whether what is accepted waits to be ordered."""
        self.forgets_positions = False
        """Whether closed lanes have trimmed where their batches were."""
        self._index = 0
        self._changed: list[asyncio.Future[None]] = []
        self._handles: list[AsyncClusterLog] = []

    async def __aenter__(self) -> "FakeCluster":
        for orderer in self.orderers:
            await orderer.start()
        self.apply(Configure(ClusterConfiguration(self.log, "scalog")))
        for shard in range(len(self.replicas)):
            await self._start_shard(shard)
        return self

    async def __aexit__(self, *failure: object) -> None:
        for handle in self._handles:
            await handle.close()
        for server in (*self.orderers, *(each for shard in self.replicas for each in shard)):
            await server.stop()

    async def _start_shard(self, shard: int) -> None:
        members = self.replicas[shard]
        for replica in members:
            await replica.start()
        places = tuple((replica.replica, replica.address) for replica in members)
        self.apply(RegisterShard(shard, len(members) - 1, False, places))
        for replica in members:
            replica.open_lane()

    @property
    def bootstrap(self) -> str:
        return str(self.orderers[0].address)

    async def connect(self, **arguments: Any) -> AsyncClusterLog:
        """A handle whose settings (`ClientSettings`) are these."""
        settings = ClientSettings(**{"timeout_s": arguments.pop("timeout", 10), **arguments})
        handle = await open_log(parse_bootstrap(self.bootstrap), settings)
        self._handles.append(handle)
        return handle

    async def add_shard(self, replicas: int = 2) -> None:
        shard = len(self.replicas)
        self.replicas.append([FakeReplica(self, shard, number) for number in range(replicas)])
        self.stores[shard] = []
        await self._start_shard(shard)

    def replica_of(self, lane: LaneId) -> FakeReplica:
        return self.replicas[lane.shard][lane.replica]

    def close_lane(self, lane: LaneId) -> None:
        self.apply(CloseLane(lane))

    # The order

    def apply(self, entry: OrderingEntry) -> list[Outcome]:
        self._index += 1
        outcomes = self.state.apply(self._index, entry)
        for outcome in outcomes:
            self._tell(outcome)
        changed, self._changed = self._changed, []
        for future in changed:
            if not future.done():
                future.set_result(None)
        return outcomes

    def _tell(self, outcome: Outcome) -> None:
        match outcome:
            case SessionOpened(session):
                replica = self.replica_of(session.home)
                if replica.lane == session.home:
                    replica.sessions.arrived(session)
            case SessionMoved(session, source):
                self.replica_of(source).sessions.left(session)
                self.replica_of(session.home).sessions.arrived(session)
            case ExpiredSession(session):
                self.replica_of(session.home).sessions.expired(session)
            case LaneClosed(lane, length):
                self._close(lane, length)
            case OrderedCut():
                self._place(outcome)

    def _close(self, lane: LaneId, length: int) -> None:
        self.batches[lane] = [batch for batch in self.batches[lane] if batch.end_lsn <= length]
        for key in [key for key in self.pending if key[0] == lane and key[1] >= length]:
            for connection, correlation in self.pending.pop(key):
                failure = Failure("WrongLane", f"lane {lane} was closed")
                connection.send(failure, correlation=correlation, answer=True)

    def order(self) -> None:
        """Order everything that was accepted, unless the order is held."""
        if self.is_holding:
            return
        lengths = {
            lane: batches[-1].end_lsn
            for lane, batches in self.batches.items()
            if batches and self.state.lanes.is_open(lane)
        }
        version = self.state.view.version
        self.apply(cut(LaneLengths.of(lengths), time_us=time.time_ns() // 1000, view=version))
        self._acknowledge()

    def release(self) -> None:
        self.is_holding = False
        self.order()

    def _place(self, ordered: OrderedCut) -> None:
        for shard in ordered.shards:
            for run in ordered.of_shard(shard).runs:
                batches = self.batches[run.lane]
                for batch in batches[bisect_left(batches, run.lsn, key=lambda each: each.base_lsn) :]:
                    position = run.position + batch.base_lsn - run.lsn
                    self.stores[shard].append(Entry(position, run.lane, batch))
                    self.times[position] = ordered.time_us

    def _acknowledge(self) -> None:
        acks: dict[Connection, list[tuple[int, int]]] = {}
        for key, position in [(key, self.position_of(*key)) for key in self.pending]:
            if position is not None:
                for connection, correlation in self.pending.pop(key):
                    acks.setdefault(connection, []).append((correlation, position))
        leaving = any(shard.phase != "live" for shard in self.state.view.shards)
        for connection, items in acks.items():
            connection.send(Acks(tuple(items), self.state.view.version if leaving else 0))

    def position_of(self, lane: LaneId, lsn: int) -> int | None:
        for entry in reversed(self.stores[lane.shard]):
            if entry.lane == lane and entry.batch.base_lsn == lsn:
                return entry.position
        return None

    def placed(self, lane: LaneId, producer_id: int) -> tuple[tuple[int, int, int], ...]:
        if self.state.lanes.is_open(lane):
            raise Unavailable(f"lane {lane} is not closed")
        found = [
            (entry.batch.first_seq, entry.batch.count, 0 if self.forgets_positions else entry.position)
            for entry in self.stores[lane.shard]
            if entry.lane == lane and entry.batch.producer_id == producer_id
        ]
        return tuple(found[-SESSION_BATCHES_MAX:])

    async def when(self, condition: Callable[[], bool]) -> None:
        """Wait until it holds; it may begin to hold whenever something is applied."""
        while not condition():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.append(future)
            await future

    def values(self) -> list[bytes]:
        """Every record in the order of the log."""
        entries = sorted((entry for store in self.stores.values() for entry in store), key=lambda each: each.position)
        return [record.value for entry in entries for record in entry.batch.records(entry.position, 0)]


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    """Poll where there is no event to wait for."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def home_of(cluster: FakeCluster, log: AsyncClusterLog) -> FakeReplica:
    """The replica whose lane the handle uses, which has one record then."""
    await log.append(b"first")
    return next(replica for shard in cluster.replicas for replica in shard if replica.appended)


async def fill(log: AsyncClusterLog, count: int) -> list[bytes]:
    """Batches of one to three records in turn over all lanes; their values in the order of the log."""
    chance = random.Random(count)
    values = []
    for n in range(count):
        batch = [b"%d.%d" % (n, m) for m in range(chance.randint(1, 3))]
        await log.append_many(batch, keys=[b"k%d" % (n % 5)] * len(batch))
        values += batch
    return values
