"""Lanes, a leader and a client around one order of slots: the real cores, with drawn steps and naive judges."""

from collections import deque
from random import Random

from ithaca.engines.belfast.speculation.delivery import Speculator
from ithaca.engines.belfast.speculation.delivery_events import (
    AttemptFailed,
    Confirmed,
    Delivered,
    Failed,
    FetchWindow,
    LaneEnds,
    LaneRecords,
    LaneWatermark,
    OrderedRange,
    OrderedRecords,
    OrderReached,
    SpeculatorEvent,
    WindowFetched,
)
from ithaca.engines.belfast.speculation.disks import Disks
from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, FailLane, OpenWindow, SlotEntry
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import (
    FreeEnding,
    LaneEnded,
    PublicationOrdered,
    SlotsOrdered,
    SpeculationFailed,
    VoidEntry,
    WindowOpened,
)
from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.placing_events import (
    Acked,
    AskedToPass,
    FreeEnds,
    GroupHanded,
    Offered,
    Ordered,
    Place,
    PlacingEvent,
    Speculators,
    Ticked,
    Watermark,
    WindowTold,
)
from ithaca.engines.belfast.speculation.planning import Planner
from ithaca.engines.belfast.speculation.progress import Progress
from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.belfast.speculation.takeover import (
    CloseTaken,
    Copied,
    CopyLane,
    Moved,
    OrderPlaces,
    Promised,
    Takeover,
    TakeoverEffect,
)
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.model.config.slots import SlotQuotas
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard

INTERVAL_US = 1000
REPLICAS = (0, 1, 2)
DISKS = dict.fromkeys(REPLICAS, 1)


class Batch:
    """Records that were placed together."""

    def __init__(self, lane: LaneId, number: int, lsn: int, records: int, position: int) -> None:
        self.name = (lane, number)
        self.lsn, self.records, self.position = lsn, records, position

    @property
    def stop(self) -> int:
        return self.lsn + self.records


class Primary:
    """A lane at its primary, with the copies of its shard."""

    def __init__(self, lane: LaneId) -> None:
        self.lane = lane
        self.core = Placement(lane, 1, DISKS, 2)
        self.core.step(Speculators(1))
        self.log: list[Batch] = []
        self.synced = dict.fromkeys(REPLICAS, 0)
        self.streamed = 0
        self.stream: deque[SpeculatorEvent] = deque()
        self.inbox: deque[PlacingEvent] = deque()
        self.is_up = True
        self.takeover: Takeover | None = None
        self.offered = 0

    def step(self, event: PlacingEvent) -> None:
        for effect in self.core.step(event):
            if isinstance(effect, Place):
                assert isinstance(effect.batch, tuple)
                number, records = effect.batch
                self.log.append(Batch(self.lane, number, effect.lsn, records, effect.position))
            elif isinstance(effect, Watermark):
                self.tell(effect.durable, effect.position)

    def tell(self, length: int, watermark: int) -> None:
        """Send what is not sent up to this length, then the watermark."""
        for batch in self.log:
            if self.streamed < batch.stop <= length:
                self.streamed = batch.stop
                if batch.position:
                    self.stream.append(LaneRecords(self.lane, batch.position, batch.records, batch.name))
        self.stream.append(LaneWatermark(self.lane, watermark))


class Client:
    """A speculator, and what an application would have of it."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.core = Speculator()
        self.records: list[tuple[int, int, object, int]] = []
        """Position, records, name and attempt of what was delivered and not undone."""
        self.confirmed = 0
        self.failed = 0
        self.attempt = 1
        self.news: deque[SpeculatorEvent] = deque()
        self.wanted: int | None = None
        self.step(OrderReached(1, 1))

    def step(self, event: SpeculatorEvent) -> None:
        for effect in self.core.step(event):
            match effect:
                case Delivered():
                    last = self.records[-1] if self.records else (0, 1, None, 1)
                    assert effect.position >= last[0] + last[1], "delivered out of order"
                    assert effect.attempt == self.attempt
                    self.records.append((effect.position, effect.records, effect.batch, effect.attempt))
                case Confirmed():
                    assert effect.up_to > self.confirmed
                    self.check(effect.up_to, effect.attempt)
                    self.confirmed = effect.up_to
                case Failed():
                    assert effect.after == self.confirmed, "all before it is confirmed first"
                    self.records = [each for each in self.records if each[0] <= effect.after]
                    self.failed += 1
                    self.attempt = effect.attempt
                case FetchWindow():
                    self.wanted = effect.position
        lanes = (*self.core._lanes.values(), self.core._read)
        assert self.core.held == sum(piece.records for lane in lanes for piece in lane.pieces)

    def check(self, up_to: int, attempt: int) -> None:
        """What is confirmed was delivered, at its place and under the attempt that confirms it."""
        ordered = {position: name for position, name in self._world.ordered.items() if position <= up_to}
        delivered = {position: name for position, _, name, _ in self.records if position <= up_to}
        assert delivered == ordered, "confirmed before it was delivered, or delivered elsewhere"
        for position, _, _, under in self.records:
            assert not self.confirmed < position <= up_to or under == attempt, f"{position} counts under {under}"

    def fetch(self) -> None:
        """An orderer answers what the client asked for, once it knows."""
        if self.wanted is None:
            return
        for window in self._world.windows:
            if window.base <= self.wanted < window.end:
                self.wanted = None
                self.step(WindowFetched(window))
                return
        for base, count in self._world.published:
            if base <= self.wanted < base + count:
                self.wanted = None
                self.step(OrderedRange(base, base + count))
                self.step(OrderedRecords(base, count, ("publication", base)))
                return


class World:
    """Everything together; `random` draws what happens next."""

    def __init__(self, random: Random, shards: int, quotas: SlotQuotas = "wide", rounds: int = 4) -> None:
        self.random = random
        self.table = LaneTable()
        self.order = SlotOrder(self.table)
        replicas = tuple(Replica(number, Address("h", number), 1) for number in REPLICAS)
        self.shards = {number: Shard(number, 1, True, replicas, 2) for number in range(shards)}
        self.disks = Disks((shard, replica, disk) for shard in self.shards for replica, disk in DISKS.items())
        self.primaries: dict[LaneId, Primary] = {}
        self.windows: list[Window] = []
        self.ordered: dict[int, object] = {}
        self.published: list[tuple[int, int]] = []
        self._quotas: SlotQuotas = quotas
        self._rounds = rounds
        self.raft: deque[SlotEntry] = deque()
        self.now_us = 0
        self.lost: set[object] = set()
        for shard in range(shards):
            self._open(LaneId(shard, 0, 1))
        self.lead()
        self.client = Client(self)

    def _open(self, lane: LaneId) -> None:
        self.table.open(lane, 0)
        self.primaries[lane] = Primary(lane)
        if self.order.mode != "fixed":
            self.primaries[lane].step(FreeEnds())

    def lead(self) -> None:
        """A new leader knows what is applied, and nothing else; what the old one proposed may be lost."""
        keep = self.random.randint(0, len(self.raft))
        while len(self.raft) > keep:
            self.raft.pop()
        self.progress = Progress(self.order, self.table, self.shards, self.disks)
        self.planner = Planner(self.order, self.progress, quotas=self._quotas, rounds=self._rounds)
        for primary in self.primaries.values():
            if primary.takeover is not None:
                self.take_over(primary)
            elif not primary.is_up:
                self.fail(primary)

    # Steps

    def up(self) -> list[Primary]:
        return [primary for primary in self.primaries.values() if primary.is_up]

    def offer(self, primary: Primary, records: int) -> None:
        primary.offered += 1
        primary.step(Offered((primary.offered, records), records, records))

    def hand(self, primary: Primary) -> None:
        primary.step(GroupHanded())

    def sync(self, primary: Primary, replica: int) -> None:
        later = [batch.stop for batch in primary.log if batch.stop > primary.synced[replica]]
        if later:
            primary.synced[replica] = self.random.choice(later)
            primary.step(Acked(primary.lane, Ack(replica, 1, primary.synced[replica])))

    def report(self, primary: Primary) -> None:
        self.progress.receive(primary.core.report())

    def decide(self) -> None:
        """The leader looks at what it knows."""
        lanes = [primary.lane for primary in self.up()]
        written = {primary.lane: primary.core.length for primary in self.up()}
        plan = self.planner.plan(lanes, written, "fixed", self.now_us, INTERVAL_US)
        if plan.entry is not None:
            self.raft.append(plan.entry)
        entry = self.progress.propose(self.now_us)
        if entry is not None:
            self.raft.append(entry)
        for ask in (*self.progress.asks(plan.pass_to), *self.progress.asks_again()):
            if ask.lane in self.primaries:
                self.primaries[ask.lane].inbox.append(AskedToPass(ask.cut))

    def hear(self, primary: Primary) -> None:
        if primary.inbox and primary.is_up:
            primary.step(primary.inbox.popleft())

    def tick(self) -> None:
        self.now_us += INTERVAL_US
        for primary in self.up():
            primary.step(Ticked(self.now_us, INTERVAL_US))

    def publish(self, records: int) -> None:
        if self.order.mode == "fixed":
            self._told(self.order.reserve(records))

    def fail(self, primary: Primary) -> None:
        primary.is_up = False
        self.raft.append(FailLane(primary.lane))

    def take_over(self, primary: Primary) -> None:
        """Two of the three replicas promise; the primary's own may be one."""
        primary.is_up = False
        primary.takeover = Takeover(primary.lane, DISKS, 2, self.order)
        primary.takeover.begin()
        for replica in self.random.sample(REPLICAS, 2):
            self._taken(
                primary,
                primary.takeover.step(
                    Promised(replica, primary.synced[replica], DISKS[replica]), self._length(primary)
                ),
            )

    def _length(self, primary: Primary) -> int | None:
        return self.table.ordered_length(primary.lane) if self.table.is_open(primary.lane) else None

    def _taken(self, primary: Primary, effects: list[TakeoverEffect]) -> None:
        takeover = primary.takeover
        assert takeover is not None
        for effect in effects:
            match effect:
                case CopyLane():
                    target = effect.target
                    primary.synced[target] = max(effect.length, primary.synced[target])
                    placed = tuple(
                        PlacedRun(batch.stop - batch.records, batch.position, batch.records) for batch in primary.log
                    )
                    copied = Copied(target, primary.synced[target], placed)
                    self._taken(primary, takeover.step(copied, self._length(primary)))
                case OrderPlaces():
                    self.progress.taken_over(effect.lane, dict(effect.ends), effect.length)
                case CloseTaken():
                    self.raft.append(effect.entry)

    def commit(self) -> None:
        """The next entry is applied."""
        if not self.raft:
            return
        entry = self.raft.popleft()
        outcomes = self.order.apply(entry)
        if isinstance(outcomes[0], VoidEntry) and isinstance(entry, CutRange):
            self.progress.refused()
        self._told(outcomes)
        if isinstance(entry, OpenWindow | EndFree | FailLane):
            self.planner.applied()
        self.progress.applied()
        for primary in list(self.primaries.values()):
            if primary.takeover is not None:
                self._taken(primary, primary.takeover.step(Moved(), self._length(primary)))

    def _told(self, outcomes: list) -> None:  # type: ignore[type-arg]
        news = self.client.news
        for outcome in outcomes:
            match outcome:
                case WindowOpened(window=window):
                    self.windows.append(window)
                    for primary in self.primaries.values():
                        share = window.share(primary.lane)
                        if share is not None:
                            primary.inbox.append(WindowTold(share))
                case FreeEnding():
                    for primary in self.primaries.values():
                        primary.inbox.append(FreeEnds())
                case SlotsOrdered(tail=tail):
                    for run in outcome.lane_runs():
                        self._see_run(run.lane, run.lsn, run.position, run.count)
                    for primary in self.primaries.values():
                        primary.inbox.append(Ordered(self._length(primary) or 0))
                    news.append(OrderReached(tail, self.order.attempt))
                case PublicationOrdered(base=base, count=count):
                    self.published.append((base, count))
                    self.ordered[base] = ("publication", base)
                    news.append(OrderReached(base + count, self.order.attempt))
                case LaneEnded():
                    self._ended(outcome)
                case SpeculationFailed(lane=lane, after=after, attempt=attempt):
                    news.append(AttemptFailed(lane, after, attempt))

    def _see_run(self, lane: LaneId, lsn: int, position: int, count: int) -> None:
        """Every record is ordered where its batch was placed."""
        batches = [batch for batch in self.primaries[lane].log if lsn <= batch.lsn < lsn + count]
        assert sum(batch.records for batch in batches) == count, "a run ends inside a batch"
        for batch in batches:
            assert batch.position == position + batch.lsn - lsn, "ordered elsewhere than predicted"
            self.ordered[batch.position] = batch.name

    def _ended(self, ended: LaneEnded) -> None:
        primary = self.primaries.pop(ended.lane)
        self.lost |= {batch.name for batch in primary.log if batch.stop > ended.length}
        # What is ordered of it can be read from any replica, whatever its primary had sent.
        primary.tell(ended.length, ended.last)
        self.client.news.extend(primary.stream)
        self.client.news.append(LaneEnds(ended.lane, ended.last, ended.end))
        self._open(ended.lane._replace(incarnation=ended.lane.incarnation + 1))

    def consume(self) -> None:
        """The client hears one thing, or gets what it asked for."""
        streams = [primary.stream for primary in self.primaries.values() if primary.stream]
        if self.client.news:
            streams.append(self.client.news)
        if streams:
            self.client.step(self.random.choice(streams).popleft())
        self.client.fetch()

    def drain(self) -> None:
        """No more faults: all that was offered is ordered, delivered and confirmed."""
        for _ in range(400):
            if self._is_quiet():
                return
            for primary in list(self.primaries.values()):
                while primary.inbox and primary.is_up:
                    self.hear(primary)
                if primary.is_up:
                    self.hand(primary)
                    for replica in REPLICAS:
                        while primary.synced[replica] < primary.core.length:
                            self.sync(primary, replica)
                    self.report(primary)
            self.decide()
            while self.raft:
                self.commit()
            while any(primary.stream for primary in self.primaries.values()) or self.client.news:
                self.consume()
            self.consume()
        raise AssertionError("it does not come to rest")

    def _is_quiet(self) -> bool:
        """Whether all is ordered and confirmed, and nobody has anything to say."""
        waiting = [p for p in self.primaries.values() if not p.is_up or p.core.wanted or p.inbox or p.stream]
        unordered = [p for p in self.primaries.values() if self.table.ordered_length(p.lane) != p.core.length]
        last = max(self.ordered, default=0)
        is_busy = waiting or unordered or self.raft or self.order.reserved or self.client.news
        return not is_busy and self.client.confirmed >= last
