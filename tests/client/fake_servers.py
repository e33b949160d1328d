"""The servers of a `FakeCluster`: they speak the protocol over real sockets, and fail as tests want."""

import asyncio
import json
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ithaca.engines.scalog.messages import appending, listing, order, reading
from ithaca.engines.scalog.messages.appending import Acks
from ithaca.engines.scalog.messages.reading import Deliver, Delivered
from ithaca.engines.scalog.messages.requests import Request, entry_of
from ithaca.engines.scalog.ordering.entries import (
    OpenLane,
    decode_entry,
)
from ithaca.engines.scalog.ordering.outcomes import (
    ConsumersTold,
    EngineOutcome,
    OrderedCut,
    UsersTold,
)
from ithaca.engines.scalog.replica.appends import position_gone
from ithaca.engines.scalog.replica.sessions import HomeSessions
from ithaca.model.errors import IthacaError, ProtocolError, Trimmed, WrongLane
from ithaca.model.limits import DELIVER_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter
from ithaca.model.view import Address
from ithaca.protocol import greeting
from ithaca.protocol.codec import Received
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import Listener, listen
from ithaca.wire.batch import Batch, lane_seed, parse
from ithaca.wire.selection import selected

if TYPE_CHECKING:
    from tests.client.fake_cluster import FakeCluster

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
                unsaid = OrderedCut | ConsumersTold | UsersTold | EngineOutcome
                applied = tuple(outcome for outcome in outcomes if not isinstance(outcome, unsaid))
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


def key_filter(sent: Filter) -> KeyFilter:
    if sent.kind == "hash":
        return KeyFilter.hash_range(sent.low, max(sent.low, sent.last + 1))
    return KeyFilter(sent.kind, key=sent.key)
