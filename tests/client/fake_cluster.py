"""A tiny cluster in memory that speaks the protocol over real sockets: the order is kept by the real core, everything
is ordered as soon as it is accepted, and tests can make it fail in all the ways that a client must stand.
"""

import asyncio
import json
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from ithaca.client.bootstrap import parse_bootstrap
from ithaca.client.settings import ClientSettings
from ithaca.engines.scalog.client.log import AsyncClusterLog, open_log
from ithaca.engines.scalog.messages import appending, listing, order, reading
from ithaca.engines.scalog.messages.appending import Acks
from ithaca.engines.scalog.messages.reading import Deliver, Delivered
from ithaca.engines.scalog.messages.requests import Request, entry_of
from ithaca.engines.scalog.ordering.entries import (
    CloseLane,
    Configure,
    OpenLane,
    OrderingEntry,
    RegisterShard,
    cut,
    decode_entry,
)
from ithaca.engines.scalog.ordering.outcomes import (
    EngineOutcome,
    ExpiredSession,
    LaneClosed,
    OrderedCut,
    Outcome,
    SessionMoved,
    SessionOpened,
)
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.appends import position_gone
from ithaca.engines.scalog.replica.sessions import HomeSessions
from ithaca.model.cut import LaneLengths
from ithaca.model.errors import IthacaError, ProtocolError, Trimmed, Unavailable, WrongLane
from ithaca.model.limits import DELIVER_BYTES_MAX, SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter
from ithaca.model.view import Address, ClusterConfiguration
from ithaca.protocol import greeting
from ithaca.protocol.codec import Received
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Failure, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import Listener, listen
from ithaca.wire.batch import Batch, lane_seed, parse
from ithaca.wire.selection import selected

LOOPBACK = Address("127.0.0.1", 0)


class Entry(NamedTuple):
    """A batch at its position."""

    position: int
    lane: LaneId
    batch: Batch


class Server(ABC):
    """A listener whose connections can be ended."""

    def __init__(self, cluster: "FakeCluster", role: greeting.Role) -> None:
        self.cluster = cluster
        self.role: greeting.Role = role
        self.address = LOOPBACK
        self.connections: set[Connection] = set()
        self.dialled = 0
        self._listener: Listener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        def accept(connection: Connection, hello: greeting.Hello) -> "Server":
            self.connections.add(connection)
            self.dialled += 1
            return self

        def welcome() -> Welcome:
            return Welcome(1, self.role, log=self.cluster.log)

        self._listener = await listen(self.address, accept=accept, welcome=welcome, http=lambda path: None)
        self.address = self._listener.address

    async def stop(self) -> None:
        """Nobody answers any more."""
        self.drop_connections()
        if self._listener is not None:
            await self._listener.close()
        self._listener = None

    def drop_connections(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    @abstractmethod
    def on_message(self, connection: Connection, received: Received) -> None: ...

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self.connections.discard(connection)

    def run(self, connection: Connection, received: Received, work: Awaitable[None]) -> None:
        async def answer() -> None:
            try:
                await work
            except IthacaError as error:
                connection.fail(received, error)

        task = asyncio.ensure_future(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @abstractmethod
    def status(self) -> dict[str, Any]: ...


class FakeOrderer(Server):
    """Answers from the cluster's one state if it leads; else says who does."""

    def __init__(self, cluster: "FakeCluster", server: int) -> None:
        super().__init__(cluster, "orderer")
        self.server = server
        self.refusals: deque[IthacaError] = deque()
        """What the next requests to a leader are answered with."""
        self.losing_answers = 0
        """So many proposals are applied, and the connection ends before the answer."""
        self.asked: list[type] = []

    def on_message(self, connection: Connection, received: Received) -> None:
        message, state = received.message, self.cluster.state
        self.asked.append(type(message))
        if isinstance(message, order.GetView):
            self.run(connection, received, self._view(connection, received, message.at_least))
            return
        if isinstance(message, greeting.GetStatus):
            connection.answer(received, greeting.StatusIs(json.dumps(self.status()).encode()))
            return
        if self.cluster.leader is not self:
            leader = self.cluster.leader
            connection.answer(received, greeting.Redirect(None if leader is None else leader.address))
            return
        if self.refusals:
            connection.fail(received, self.refusals.popleft())
            return
        match message:
            case order.GetTail():
                answer = order.TailReply(state.tail, state.first, state.time_us, state.view.version)
                connection.answer(received, answer)
            case order.GetSession(producer_id):
                connection.answer(received, order.SessionIs(state.sessions.by_id.get(producer_id)))
            case listing.GetSessions(after):
                named = [each for each in state.sessions.by_id.values() if not each.is_anonymous]
                found = tuple(listing.listed(each) for each in named if each.producer_id > after)
                connection.answer(received, listing.SessionsAre(state.time_us, found))
            case _ if isinstance(message, Request | order.Propose):
                entry = decode_entry(message.entry) if isinstance(message, order.Propose) else entry_of(message)
                outcomes = self.cluster.apply(entry)
                if self.losing_answers:
                    self.losing_answers -= 1
                    connection.abort()
                applied = tuple(outcome for outcome in outcomes if not isinstance(outcome, OrderedCut | EngineOutcome))
                connection.answer(received, order.Applied(applied))
            case _:
                raise ProtocolError(f"an orderer does not take {type(message).__name__}")

    async def _view(self, connection: Connection, received: Received, at_least: int) -> None:
        cluster = self.cluster
        await cluster.when(lambda: cluster.state.view.version >= at_least)
        assert cluster.state.configuration is not None
        leader = cluster.leader.address if cluster.leader is not None else None
        orderers = tuple(orderer.address for orderer in cluster.orderers)
        answer = order.ViewIs(cluster.state.view, cluster.state.configuration, orderers, leader)
        connection.answer(received, answer)

    def status(self) -> dict[str, Any]:
        state = self.cluster.state
        return {
            "role": "orderer",
            "server": self.server,
            "state": "leader" if self.cluster.leader is self else "follower",
            "tail": state.tail,
            "first": state.first,
            "configured": True,
            "shards": [
                {
                    "shard": shard.shard,
                    "phase": shard.phase,
                    "copies": shard.copies,
                    "replicas": [
                        {"replica": each.replica, "address": str(each.address), "open": each.is_open}
                        for each in shard.replicas
                    ],
                }
                for shard in state.view.shards
            ],
            "log": str(self.cluster.log),
        }


class FakeReplica(Server):
    """Writes one lane, and reads all of its shard."""

    def __init__(self, cluster: "FakeCluster", shard: int, replica: int) -> None:
        super().__init__(cluster, "replica")
        self.shard = shard
        self.replica = replica
        self.boot = 0
        self.lane = LaneId(shard, replica, 0)
        self.sessions = HomeSessions()
        self.refusals: deque[IthacaError] = deque()
        """What the next appends are answered with; they are not accepted."""
        self.losing_acks = 0
        """So many appends are accepted, and the connection ends before the answer."""
        self.is_mute = False
        """Whether everything is taken, and nothing answered."""
        self.is_corrupt = False
        """Whether what is read here has a bit flipped."""
        self.appended: list[Batch] = []
        """Every batch that came, in order, repeats included."""
        self.before_deliver: Callable[[], Awaitable[None]] | None = None
        self.readable_max: int | None = None
        """This replica's order ends here, though the log goes on."""
        self.is_missing_from: int | None = None
        """This replica knows the order, and lacks the records from here on."""
        self.streams = 0
        self.asked_to: list[int | None] = []
        """Where each stream that was asked for is to end."""
        self.delivered_bytes = 0

    def open_lane(self) -> None:
        """A start of the replica."""
        self.boot += 1
        self.sessions = HomeSessions()
        self.cluster.apply(OpenLane(self.shard, self.replica, self.boot))
        shard = self.cluster.state.shards.by_number[self.shard]
        member = shard.find(self.replica)
        assert member is not None
        self.lane = LaneId(self.shard, self.replica, member.incarnation)
        self.cluster.batches[self.lane] = []

    @property
    def tail(self) -> int:
        tail = self.cluster.state.tail
        return tail if self.readable_max is None else min(tail, self.readable_max)

    def on_message(self, connection: Connection, received: Received) -> None:
        if self.is_mute:
            return
        try:
            self._answer(connection, received)
        except ProtocolError:
            raise
        except IthacaError as error:
            connection.fail(received, error)

    def _answer(self, connection: Connection, received: Received) -> None:
        match received.message:
            case appending.Append(lane):
                self._append(connection, received, lane)
            case appending.GetNextSeq(lane, producer_id, epoch):
                self._check_lane(lane)
                next_seq = self.sessions.next_seq(producer_id, epoch)
                connection.answer(received, appending.NextSeqIs(next_seq))
            case appending.GetSessionTail(lane, producer_id):
                connection.answer(received, appending.SessionTailReply(self.cluster.placed(lane, producer_id)))
            case reading.Read() as message:
                self.run(connection, received, self._read(connection, received, message))
            case reading.SeekTime(time_us, _):
                found = [entry.position for entry in self.entries if self.cluster.times[entry.position] >= time_us]
                connection.answer(received, reading.TimeIs(min(found, default=None)))
            case reading.Subscribe() as message:
                self.streams += 1
                self.asked_to.append(message.stop)
                self.run(connection, received, self._stream(connection, message))
            case greeting.GetStatus():
                connection.answer(received, greeting.StatusIs(json.dumps(self.status()).encode()))
            case message:
                raise ProtocolError(f"a replica does not take {type(message).__name__}")

    @property
    def entries(self) -> list[Entry]:
        return self.cluster.stores[self.shard]

    def _check_lane(self, lane: LaneId) -> None:
        if lane != self.lane or not self.cluster.state.lanes.is_open(lane):
            raise WrongLane(f"lane {lane} is not open here")

    def _append(self, connection: Connection, received: Received, lane: LaneId) -> None:
        batch = parse(bytes(received.payload))
        self.appended.append(batch)
        if self.refusals:
            raise self.refusals.popleft()
        self._check_lane(lane)
        placed = self.sessions.place_of(batch)
        request = (connection, received.correlation)
        if placed is None:
            batches = self.cluster.batches[lane]
            base_lsn = batches[-1].end_lsn if batches else 0
            batch = batch.placed(base_lsn, lane_seed(lane))
            batches.append(batch)
            self.sessions.accepted(batch)
            self.cluster.pending[(lane, base_lsn)] = [request]
        elif placed.lsn < 0 and not placed.position:
            raise position_gone()
        elif placed.lsn < 0:
            connection.send(Acks(((received.correlation, placed.position),)))
            return
        else:
            self.cluster.pending.setdefault((lane, placed.lsn), []).append(request)
        if self.losing_acks:
            self.losing_acks -= 1
            connection.abort()
        self.cluster.order()

    async def _read(self, connection: Connection, received: Received, message: reading.Read) -> None:
        cluster = self.cluster
        try:
            async with asyncio.timeout(message.wait_ms / 1000):
                await cluster.when(lambda: self.tail > message.position)
        except TimeoutError:
            connection.answer(received, reading.Behind(self.tail))
            return
        if self.is_missing_from is not None and message.position >= self.is_missing_from:
            connection.answer(received, reading.Behind(self.tail))
            return
        if message.position < cluster.state.first:
            raise Trimmed("trimmed", first=cluster.state.first)
        entry = next((each for each in self._overlapping(message.position, message.position + 1)), None)
        if entry is None:
            connection.answer(received, reading.Elsewhere())
            return
        head, body = entry.batch.buffers()
        if self.is_corrupt:
            body = bytes([body[0] ^ 1]) + bytes(body[1:])
        connection.answer(received, reading.Found(entry.lane, entry.position), [head, body])

    def _overlapping(self, start: int, stop: int) -> list[Entry]:
        entries = self.entries
        place = bisect_left(entries, start, key=lambda entry: entry.position + entry.batch.count - 1)
        found = []
        while place < len(entries) and entries[place].position < stop:
            found.append(entries[place])
            place += 1
        return found

    async def _stream(self, connection: Connection, message: reading.Subscribe) -> None:
        cluster, position, told = self.cluster, message.start, (0, 0)
        where = None if message.where is None else key_filter(message.where)
        while connection.is_open:
            if position < cluster.state.first:
                raise Trimmed("trimmed", first=cluster.state.first)
            view = cluster.state.view.version
            limit = self.tail if message.stop is None else min(self.tail, message.stop)
            items, payload, position = self._chunk(position, max(position, limit), where)
            if items or (position, view) != told:
                if self.before_deliver is not None:
                    await self.before_deliver()
                told = (position, view)
                self.delivered_bytes += sum(map(len, payload))
                connection.send(Deliver(tuple(items), position, view), payload=payload)
                await connection.drained()
            if position == message.stop:
                connection.send(greeting.Finished())
                return
            if position >= limit:
                at, known = position, told[1]
                await cluster.when(partial(self._has_news, at, known))

    def _has_news(self, position: int, view: int) -> bool:
        return self.tail > position or self.cluster.state.view.version != view

    def _chunk(self, start: int, stop: int, where: KeyFilter | None) -> tuple[list[Delivered], list[Any], int]:
        items: list[Delivered] = []
        payload: list[Any] = []
        size = 0
        for position, lane, batch in self._overlapping(start, stop):
            low, high = max(0, start - position), min(batch.count, stop - position)
            found: tuple[Batch, Any] | None = (batch, None)
            if where is not None:
                found = selected(batch, low, high, where)
            if found is None:
                continue
            chosen, rows = found
            if rows is None:
                items.append(Delivered(lane, position, low, high))
            else:
                items.append(Delivered(lane, position, 0, chosen.count, rows.astype("<u4").tobytes()))
            payload += chosen.buffers()
            size += chosen.total_bytes
            if size >= DELIVER_BYTES_MAX:
                return items, payload, position + high
        return items, payload, stop

    def status(self) -> dict[str, Any]:
        return {
            "role": "replica",
            "shard": self.shard,
            "replica": self.replica,
            "state": "serving",
            "tail": self.tail,
            "first": self.cluster.state.first,
            "lanes": [{"lane": str(self.lane), "open": True, "durable": 1, "ordered": 1}],
            "log": str(self.cluster.log),
        }


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


def key_filter(sent: Filter) -> KeyFilter:
    if sent.kind == "hash":
        return KeyFilter.hash_range(sent.low, max(sent.low, sent.last + 1))
    return KeyFilter(sent.kind, key=sent.key)


async def until(condition: Callable[[], bool], timeout_s: float = 10) -> None:
    """Poll where there is no event to wait for."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
