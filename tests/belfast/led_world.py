"""A leader, the replicas of some shards and the whole state: the real cores, with drawn steps and naive judges.

Lanes come and go as the leader says; nothing is told to anybody but what the servers tell each other.
"""

from collections import deque
from random import Random

from tests.belfast.states import CONFIGURATION
from tests.ordering.building import address

from ithaca.engines.belfast.leading.keeping import Here, StartAgain
from ithaca.engines.belfast.leading.lane_slots import LaneSlots, lane_slots, placement_of, tell
from ithaca.engines.belfast.leading.leader import LeaderSettings, Propose, SlotLeader
from ithaca.engines.belfast.speculation.entries import BelfastEntry, decode_entry, encode_entry
from ithaca.engines.belfast.speculation.outcomes import LaneEnded, SlotsOrdered, SpeculationFailed
from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.engines.belfast.speculation.places import PlacedRun, Places
from ithaca.engines.belfast.speculation.placing_events import (
    Acked,
    AskedToPass,
    GroupHanded,
    Offered,
    Ordered,
    Place,
    PlacingEvent,
    Watermark,
)
from ithaca.engines.belfast.speculation.progress import AskPass
from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.belfast.speculation.takeover import AskPromise, Copied, CopyLane, Promised
from ithaca.engines.scalog.ordering.entries import Configure, Finalize, RegisterShard
from ithaca.engines.scalog.ordering.outcomes import LaneOpened, OrderedCut
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.cut import lane_of
from ithaca.model.positions import LaneId

DETECTION_US = 100_000


class Replica:
    """A server: its disk outlives its starts."""

    def __init__(self, shard: int, number: int) -> None:
        self.shard, self.number = shard, number
        self.boot = self.disk = 1
        self.is_up = True
        self.synced: dict[LaneId, int] = {}
        self.promised: set[LaneId] = set()
        self.is_cut_off = False
        """From the orderers alone."""

    def wipe(self) -> None:
        self.synced.clear()
        self.promised.clear()
        self.disk = self.boot + 1


class Lane:
    """A lane at its primary."""

    def __init__(self, lane: LaneId, told: LaneSlots) -> None:
        self.lane = lane
        self.core: Placement = placement_of(told)
        self.log: list[tuple[int, int, int]] = []
        """LSN, records and position of each batch that was written."""
        self.delivered = 0
        """So much of it speculators may have."""

    def step(self, event: PlacingEvent | LaneSlots) -> None:
        effects = tell(self.core, event) if isinstance(event, LaneSlots) else self.core.step(event)
        for effect in effects:
            if isinstance(effect, Place):
                assert isinstance(effect.batch, int)
                self.log.append((effect.lsn, effect.batch, effect.position))
            elif isinstance(effect, Watermark):
                self.delivered = effect.durable


class LedWorld:
    """Everything together; `random` draws what is lost."""

    def __init__(self, random: Random, shards: int, rounds: int) -> None:
        self.random = random
        self.state = BelfastState()
        self.settings = LeaderSettings(rounds=rounds, detection_us=DETECTION_US)
        self.replicas = {(shard, number): Replica(shard, number) for shard in range(shards) for number in range(3)}
        self.lanes: dict[LaneId, Lane] = {}
        self.all_lanes: dict[LaneId, Lane] = {}
        self.asked: deque[AskPromise | CopyLane] = deque()
        self.inbox: deque[tuple[LaneId, PlacingEvent | LaneSlots]] = deque()
        self.raft: deque[tuple[int, BelfastEntry]] = deque()
        self.term = 1
        self.now_us = 0
        self.index = 0
        self.ordered: dict[int, tuple[LaneId, int]] = {}
        self.failed: set[LaneId] = set()
        self.taken = 0
        self.faults = 0
        self.wanted: Finalize | None = None
        self._apply(Configure(CONFIGURATION))
        for shard in range(shards):
            members = tuple((number, address(10 * shard + number)) for number in range(3))
            self._apply(RegisterShard(shard, 1, True, members))
        self.lead()

    # The leader

    def lead(self) -> None:
        """Another leader: of what was proposed some may be lost."""
        while self.raft and self.random.random() < 0.5:
            self.raft.pop()
        self.term += 1
        self.leader = SlotLeader(self.state, self.settings)
        self.leader.changes = int(self.wanted is not None)
        for replica in self.replicas.values():
            if replica.is_up and not replica.is_cut_off:
                self._join(replica)

    def _join(self, replica: Replica) -> None:
        self.leader.came(replica.shard, replica.number, Here(replica.boot, replica.disk))
        for lane in self.lanes:
            if (lane.shard, lane.replica) == (replica.shard, replica.number):
                self._tell(lane)

    def _tell(self, lane: LaneId) -> None:
        told = lane_slots(self.state, lane)
        if told is not None:
            self.inbox.append((lane, told))
            self.inbox.append((lane, Ordered(self.state.lanes.ordered_length(lane) or 0)))

    def decide(self) -> int:
        """Says how much there was to do."""
        effects = self.leader.decide(self.now_us, self.now_us)
        for effect in effects:
            match effect:
                case Propose(entry=entry):
                    self.raft.append((self.term, entry))
                case AskPass(lane=lane, cut=cut):
                    self.inbox.append((lane, AskedToPass(cut)))
                case AskPromise() | CopyLane():
                    self.asked.append(effect)
                case StartAgain(shard=shard, replica=number):
                    self.restart(self.replicas[shard, number])
        if self.wanted is not None and self.leader.is_free:
            self.raft.append((self.term, self.wanted))
        return len(effects)

    def commit(self) -> None:
        if self.raft:
            term, entry = self.raft.popleft()
            self._apply(entry, own=term == self.term)

    def _apply(self, entry: BelfastEntry, *, own: bool = False) -> None:
        self.index += 1
        tail = self.state.tail
        outcomes = self.state.apply(self.index, decode_entry(encode_entry(entry)))
        if isinstance(entry, Finalize) and self.state.shards.by_number[entry.shard].phase == "finalized":
            self.wanted, self.leader.changes = None, 0
        is_range = any(isinstance(outcome, SlotsOrdered) for outcome in outcomes)
        for outcome in outcomes:
            match outcome:
                case OrderedCut():
                    self._see(outcome, tail, is_range=is_range)
                case LaneOpened(lane=lane, boot=boot):
                    self._opened(lane, boot)
                case SpeculationFailed(lane=lane):
                    self.failed.add(lane)
                case LaneEnded():
                    self.taken += 1
        for shard in self.state.shards.by_number.values():
            assert len(shard.open_lanes()) <= 1, "a shard has one lane"
        if self.index > 1 + len(self.state.shards.by_number) and hasattr(self, "leader"):
            self.leader.applied(outcomes, own=own)
            if own:
                self.leader.done(entry, outcomes)
        for lane in list(self.lanes):
            if self.state.lanes.is_open(lane):
                self._tell(lane)
            else:
                del self.lanes[lane]

    def _opened(self, lane: LaneId, boot: int) -> None:
        replica = self.replicas[lane.shard, lane.replica]
        told = lane_slots(self.state, lane)
        assert told is not None
        if replica.is_up and replica.boot == boot and lane not in self.lanes:
            self.lanes[lane] = self.all_lanes[lane] = Lane(lane, told)

    def _see(self, cut: OrderedCut, tail: int, *, is_range: bool) -> None:
        """What is ordered is durable, and where it was placed."""
        for key, lsn, position, count, _ in cut.columns():
            lane = lane_of(key)
            holders = [each for each in self.replicas.values() if each.shard == lane.shard]
            has = sum(each.synced.get(lane, 0) >= lsn + count for each in holders)
            assert has >= 2 or self.faults, f"{lane} is ordered to {lsn + count} on {has} disks"
            assert position >= tail, "positions rise"
            if is_range:
                batches = [each for each in self.all_lanes[lane].log if lsn <= each[0] < lsn + count]
                assert sum(records for _, records, _ in batches) == count
                assert all(at == position + start - lsn for start, _, at in batches), "ordered where it was placed"
            for offset in range(count):
                assert position + offset not in self.ordered
                self.ordered[position + offset] = (lane, lsn + offset)

    # Replicas and lanes

    def up(self) -> list[Lane]:
        return [lane for name, lane in self.lanes.items() if self.replicas[name.shard, name.replica].is_up]

    def offer(self, lane: Lane, records: int) -> None:
        if not self.is_promised(lane.lane):
            lane.step(Offered(records, records, records))

    def hand(self, lane: Lane) -> None:
        if not self.is_promised(lane.lane):
            lane.step(GroupHanded())

    def sync(self, lane: Lane, replica: Replica) -> None:
        """A copy of the lane grows, and its primary hears of it."""
        if not replica.is_up or replica.shard != lane.lane.shard or lane.lane in replica.promised:
            return
        later = [lsn + records for lsn, records, _ in lane.log if lsn + records > replica.synced.get(lane.lane, 0)]
        if later:
            replica.synced[lane.lane] = self.random.choice(later)
            ack = Ack(replica.number, replica.disk, replica.synced[lane.lane])
            self.inbox.append((lane.lane, Acked(lane.lane, ack)))

    def is_promised(self, lane: LaneId) -> bool:
        return lane in self.replicas[lane.shard, lane.replica].promised

    def answer(self) -> None:
        """A replica does what a takeover asks of it."""
        if not self.asked:
            return
        ask = self.asked.popleft()
        replica = self.replicas[ask.lane.shard, ask.replica if isinstance(ask, AskPromise) else ask.target]
        if not replica.is_up or replica.is_cut_off or not self.state.lanes.is_open(ask.lane):
            return
        if isinstance(ask, AskPromise):
            replica.promised.add(ask.lane)
            promise = Promised(replica.number, replica.synced.get(ask.lane, 0), replica.disk)
            self.leader.takeovers.promised(ask.lane, promise)
            return
        source = self.replicas[ask.lane.shard, ask.source]
        if source.is_up and source.synced.get(ask.lane, 0) >= ask.length:
            replica.synced[ask.lane] = max(ask.length, replica.synced.get(ask.lane, 0))
            log = self.all_lanes[ask.lane].log if ask.lane in self.all_lanes else []
            placed = [
                PlacedRun(lsn, at, count) for lsn, count, at in log if at and lsn + count <= replica.synced[ask.lane]
            ]
            copied = Copied(replica.number, replica.synced[ask.lane], Places(placed).all())
            self.leader.takeovers.copied(ask.lane, replica.disk, copied)

    def report(self, lane: Lane) -> None:
        if self.is_promised(lane.lane) or self.replicas[lane.lane.shard, lane.lane.replica].is_cut_off:
            return
        self.leader.lane_reported(lane.core.report())
        shard = self.state.shards.by_number[lane.lane.shard]
        for replica in self.replicas.values():
            if replica.shard == shard.shard and replica.is_up and not replica.is_cut_off:
                is_said = lane.lane not in replica.promised
                lengths = ((lane.lane, replica.synced.get(lane.lane, 0)),) if is_said else ()
                self.leader.receive(Report(shard.shard, shard.epoch, replica.number, replica.boot, 1 << 40, lengths))

    def hear(self) -> None:
        if self.inbox:
            name, event = self.inbox.popleft()
            if self.replicas[name.shard, name.replica].is_cut_off and not isinstance(event, Acked):
                return
            if name in self.lanes and self.replicas[name.shard, name.replica].is_up and not self.is_promised(name):
                self.lanes[name].step(event)

    def kill(self, replica: Replica) -> None:
        self.faults += 1
        replica.is_up = False
        for lane in [each for each in self.lanes if (each.shard, each.replica) == (replica.shard, replica.number)]:
            del self.lanes[lane]
        self.leader.supervisor.went(replica.shard, replica.number)

    def cut_off(self, replica: Replica) -> None:
        replica.is_cut_off = True
        self.leader.supervisor.went(replica.shard, replica.number)

    def heal(self, replica: Replica) -> None:
        replica.is_cut_off = False
        self._join(replica)

    def restart(self, replica: Replica) -> None:
        if replica.is_up:
            self.kill(replica)
        replica.boot += 1
        replica.is_up = True
        self._join(replica)

    def finalize(self, shard: int) -> None:
        if self.wanted is None:
            self.wanted, self.leader.changes = Finalize(shard), 1

    # The end

    def settle(self) -> None:
        """No more faults: all that open lanes have is ordered, and then it is silent."""
        for replica in self.replicas.values():
            if not replica.is_up:
                self.restart(replica)
        for _ in range(300):
            if self._is_over():
                self._judge()
                return
            self.round()
        raise AssertionError("it does not come to rest")

    def _judge(self) -> None:
        """What was delivered is where it was, unless its lane has failed."""
        for lane in self.all_lanes.values():
            for lsn, records, position in lane.log:
                if position and lsn + records <= lane.delivered and lane.lane not in self.failed:
                    for offset in range(records):
                        assert self.ordered.get(position + offset) == (lane.lane, lsn + offset)

    def round(self) -> None:
        self.now_us += DETECTION_US
        for lane in self.up():
            self.hand(lane)
            for replica in self.replicas.values():
                while lane.log and replica.shard == lane.lane.shard and replica.is_up:
                    if replica.synced.get(lane.lane, 0) >= lane.core.length or lane.lane in replica.promised:
                        break
                    self.sync(lane, replica)
        while self.inbox:
            self.hear()
        for lane in self.up():
            self.report(lane)
        self.decide()
        while self.asked:
            self.answer()
        while self.raft:
            self.commit()

    def _is_over(self) -> bool:
        live = [shard for shard in self.state.shards.by_number.values() if shard.phase == "live"]
        if self.raft or self.inbox or self.asked or self.wanted or any(not shard.open_lanes() for shard in live):
            return False
        if live and self.state.slots.mode != "fixed":
            return False
        done = all(self.state.lanes.ordered_length(lane.lane) == lane.core.length for lane in self.up())
        return done and not any(lane.core.wanted for lane in self.up()) and not self.decide()
