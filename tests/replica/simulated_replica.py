"""A replica of the world: a real core, a disk of which a crash loses the unsynced part, and what is under way."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.replica.appends import position_gone
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    AcknowledgeAt,
    Advanced,
    Created,
    CreateLane,
    DropLane,
    Effect,
    Event,
    Fetch,
    FetchRuns,
    Follow,
    ForgetSession,
    Held,
    ListSessions,
    NoteRuns,
    OrderJoined,
    OrderLost,
    Refuse,
    Rejoin,
    Replicated,
    RunsSynced,
    SendReport,
    Settle,
    SkipRuns,
    Synced,
    SyncRuns,
    Truncate,
    Truncated,
    Unfollow,
    Write,
)
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.wire.batch import NOOPS, SNAPSHOT, Batch

if TYPE_CHECKING:
    from tests.replica.replica_world import World

LINK_LOST = object()
"""At this point of a link the connection ends."""


class Violation(AssertionError):
    """Something that must hold did not."""


def check(number: int, holds: bool, what: str) -> None:
    """`number` is that of the invariant in `ithaca.engines.scalog.replica`; 0 is what promises to users say."""
    if not holds:
        raise Violation(f"{number}: {what}")


def again(batch: Batch) -> Batch:
    """The same bytes, as they arrive somewhere else."""
    return Batch(batch.head, batch.data, batch.start)


def end_of(run: LaneRun) -> int:
    return run.lsn + run.count


@dataclass
class DiskLane:
    """A lane on a disk; a crash loses what is not synced."""

    batches: list[Batch] = field(default_factory=list)
    synced: int = 0
    """Records."""
    runs: list[tuple[LaneRun, int]] = field(default_factory=list)
    """Behind a gap in them all that is before counts no more, but for a crash that takes back what is behind."""
    runs_synced: int = 0
    trim_lsn: int = 0
    """Batches below are not served any more."""
    told: tuple[int, tuple[Batch, ...]] = (0, ())
    """An LSN, and all the batches that were before it, by the word of a peer."""

    @property
    def length(self) -> int:
        return self.batches[-1].end_lsn if self.batches else 0

    @property
    def runs_end(self) -> int:
        return self.runs[-1][0].lsn + self.runs[-1][0].count if self.runs else 0

    @property
    def runs_durable(self) -> int:
        return max((end_of(run) for run, _ in self.runs[: self.runs_synced]), default=0)

    @property
    def has_holes(self) -> bool:
        return self.has_holes_before(self.length)

    def has_holes_before(self, lsn: int) -> bool:
        return any(batch.kind == NOOPS and self.told[0] < batch.end_lsn <= lsn for batch in self.batches)

    def known(self, lsn: int) -> tuple[Batch, ...]:
        """The batches that were before an LSN, here or by the word of a peer."""
        first, told = self.told
        batches = (*told, *(batch for batch in self.batches if batch.base_lsn >= first))
        return tuple(batch for batch in batches if batch.end_lsn <= lsn)

    def came_back(self) -> None:
        """What was behind its end is gone, and what was said of it."""
        if self.told[0] > self.length:
            self.told = (0, ())

    def runs_known(self) -> list[tuple[LaneRun, int]]:
        start = len(self.runs)
        while start > 1 and self.runs[start - 1][0].lsn == end_of(self.runs[start - 2][0]):
            start -= 1
        return self.runs[max(0, start - 1) :]

    def trim(self, first: int, pages: int) -> None:
        """Give up batches that were trimmed, and some of the runs: one trimmed record stays known."""
        for batch in self.batches:
            position = self.position_of(batch.end_lsn - 1)
            if position is not None and position < first:
                self.trim_lsn = batch.end_lsn
        known = self.runs_known()
        trimmed = sum(run.position < first for run, _ in known)
        dead = min(len(self.runs) - len(known) + trimmed, self.runs_synced, pages) - 1
        if trimmed and dead > 0:
            del self.runs[:dead]
            self.runs_synced -= dead

    def truncate(self, length: int) -> None:
        while self.batches and self.batches[-1].end_lsn > length:
            self.batches.pop()
        check(4, self.length == min(length, self.synced), "a lane was cut inside a batch")
        self.synced = self.length
        self.came_back()

    def position_of(self, lsn: int) -> int | None:
        for run, _ in reversed(self.runs_known()):
            if run.lsn <= lsn < run.lsn + run.count:
                return run.position + lsn - run.lsn
        return None

    def held(self) -> Held:
        missing = tuple(run for run, _ in self.runs_known() if end_of(run) > self.synced)
        last = self.runs[-1][0] if self.runs else None
        end_position = 0 if last is None else last.position + last.count
        return Held(self.synced, self.runs_end, missing, end_position, self.has_holes)


@dataclass
class Stream:
    """Batches of a lane on their way from a peer."""

    wanted: Follow | Fetch
    next_lsn: int | None = None
    """Where the peer goes on; None before it was asked."""
    batches: deque[Batch] = field(default_factory=deque)


@dataclass
class RunsWanted:
    start: int
    stop: int
    peers: tuple[Address, ...]


class SimulatedReplica:
    """Performs the effects of its core as the shell does, later and in pieces, and checks them."""

    def __init__(self, world: "World", shard: int, replica: int, address: Address) -> None:
        self.world = world
        self.shard = shard
        self.replica = replica
        self.address = address
        self.boot = 0
        self.disk: dict[LaneId, DiskLane] = {}
        self.settled: set[LaneId] = set()
        """Lanes that were put into packs."""
        self.lost: dict[LaneId, tuple[int, int]] = {}
        """Lanes that were damaged: how much of them was synced, and in which boot, if the order has no later one."""
        self.core: ReplicaCore | None = None
        self._clear()

    def _clear(self) -> None:
        self.link: deque[object] | None = None
        self.is_joining = False
        self.work: deque[tuple[Effect, Callable[[], Event | None]]] = deque()
        self.busy: set[LaneId] = set()
        self.streams: dict[LaneId, Stream] = {}
        self.runs_wanted: dict[LaneId, RunsWanted] = {}
        self.skipped: dict[LaneId, int] = {}
        self.reported: dict[LaneId, int] = {}
        self.is_full = False
        self.forgotten: dict[LaneId, set[int]] = {}
        """Sessions that were said to have expired, of each lane."""
        self.listed: dict[LaneId, tuple[frozenset[int], int]] = {}
        """Who was at home in each lane, when it was ordered up to this length."""
        self.checked = 1
        """Positions below were compared with the disk."""

    # Life

    def start(self) -> None:
        self.boot += 1
        held = {lane: found.held() for lane, found in self.disk.items() if lane not in self.settled}
        settled = SettledCopies((lane, self.disk[lane].synced, self.disk[lane].has_holes) for lane in self.settled)
        self.core = ReplicaCore(self.shard, self.replica, self.boot, held, settled=settled, now_us=self.world.now_us)

    def lose_lane(self, lane: LaneId) -> None:
        """The lane does not check out when the disk is looked at next, and is quarantined."""
        self.lost[lane] = (self.disk.pop(lane).synced, self.boot)
        self.settled.discard(lane)
        self.world.counts["lanes lost"] += 1

    def crash(self) -> None:
        """Power is lost: work that has begun may be done or not, and some of the unsynced tail may survive."""
        rng = self.world.rng
        while self.work and rng.random() < 0.3:
            self.work.popleft()[1]()
        self.core = None
        for found in self.disk.values():
            keeps = rng.choice([0, 0, 1, 2, 5])
            while found.batches and found.batches[-1].base_lsn >= found.synced and keeps == 0:
                found.batches.pop()
            while found.batches and found.batches[-1].base_lsn >= found.synced and rng.random() < 0.5:
                found.batches.pop()
            found.synced = found.length  # recovery syncs what it found
            found.came_back()
            if rng.random() < 0.8:
                del found.runs[found.runs_synced :]
            found.runs_synced = len(found.runs)
        self._clear()

    def has_forgotten(self, lane: LaneId, batch: Batch) -> bool:
        """Whether the table of the lane says nothing of the batch any more."""
        at_home, length = self.listed.get(lane, (frozenset(), 0))
        has_left = batch.end_lsn <= length and batch.producer_id not in at_home
        return has_left or batch.producer_id in self.forgotten.get(lane, ())

    def step(self, event: Event) -> list[Effect]:
        assert self.core is not None
        effects = self.core.step(event)
        for effect in effects:
            self._perform(effect)
        self.world.look_at(self)
        return effects

    # Effects

    def _perform(self, effect: Effect) -> None:
        world = self.world
        world.counts[type(effect).__name__] += 1
        match effect:
            case Write(lane, batch):
                self._write(lane, batch)
            case Acknowledge(request, position):
                world.acknowledged(request, position)
            case AcknowledgeAt(request, lsn):
                assert self.core is not None
                assert self.core.own_lane is not None
                known = self.disk[self.core.own_lane].position_of(lsn)
                if known is None:
                    world.refused(self, request, position_gone())
                else:
                    world.acknowledged(request, known)
            case Refuse(request, error):
                world.refused(self, request, error)
            case SendReport(report):
                self._report(report)
            case NoteRuns(runs, time_us):
                for run in runs:
                    self._note_run(run, time_us)
            case ForgetSession(lane, producer_id):
                self.forgotten.setdefault(lane, set()).add(producer_id)
            case ListSessions(lane, producer_ids, length):
                self.listed[lane] = producer_ids, length
            case SkipRuns(lane, lsn):
                assert self.core is not None
                world.check_skipped(lane, lsn, self.core.first)
                self.skipped[lane] = lsn
            case Follow(lane) | Fetch(lane):
                check(4, lane in self.disk and lane not in self.busy, f"{effect} of a lane that is not ready")
                self._end_stream(lane)
                self.streams[lane] = Stream(effect)
            case Unfollow(lane):
                self._end_stream(lane)
                self.runs_wanted.pop(lane, None)
            case FetchRuns(lane, start, stop, peers):
                self.runs_wanted[lane] = RunsWanted(start, stop, peers)
            case CreateLane(lane):
                check(4, lane not in self.disk, f"lane {lane} is made twice")
                self.busy.add(lane)
                self.work.append((effect, lambda: self._create(lane)))
            case Truncate(lane, length):
                self._check_truncate(lane, length)
                self.busy.add(lane)
                self.work.append((effect, lambda: self._truncate(lane, length)))
            case DropLane(lane):
                check(4, lane in world.forgotten, f"lane {lane} is dropped, and was not trimmed")
                self.streams.pop(lane, None)
                self.work.append((effect, lambda: self._drop(lane)))
            case Settle(lane):
                found = self.disk[lane]
                check(4, lane not in self.busy and found.synced == found.length, f"{effect}, and it is written to")
                if world.rng.random() < 0.5:
                    self.settled.add(lane)  # it is put into a pack
                    found.runs_synced = len(found.runs)
                check(4, found.runs_end == found.length, f"{effect}, and not all of its positions are known")
                ordered = world.state.lanes.ordered_length(lane)  # None if it was trimmed meanwhile
                check(4, ordered in (None, found.length), f"{effect}, and it is not as ordered")
            case SyncRuns(cut):
                noted = {lane: found.runs_end for lane, found in self.disk.items()}
                self.work.append((effect, lambda: self._sync_runs(noted, cut)))
            case Rejoin():
                self.link = None
                self.link_lost = True
            case Advanced(tail, readable, first, _):
                check(6, first <= readable <= tail <= world.state.tail, f"{effect} is beyond the order")

    def _end_stream(self, lane: LaneId) -> None:
        stream = self.streams.pop(lane, None)
        if stream is not None:
            self.world.late += [(self, self.boot, lane, batch) for batch in stream.batches]

    link_lost = False

    def _write(self, lane: LaneId, batch: Batch) -> None:
        found = self.disk.get(lane)
        check(1, found is not None and lane not in self.busy, f"lane {lane} is written to, and is not ready")
        assert found is not None
        check(4, batch.base_lsn == found.length, f"{batch.base_lsn} does not continue lane {lane} at {found.length}")
        assert self.core is not None
        if batch.kind == SNAPSHOT:
            check(4, found.has_holes, f"lane {lane} gets a snapshot, and lacks nothing")
            found.told = (batch.base_lsn, self.world.said(lane, batch))
            return
        self.world.written(lane, batch, is_primary=lane == self.core.own_lane)
        found.batches.append(again(batch))

    def _note_run(self, run: LaneRun, time_us: int) -> None:
        check(6, run.lane in self.disk and run.lane not in self.busy, f"{run} of a lane that is not ready")
        found = self.disk[run.lane]
        end = self.skipped.pop(run.lane, found.runs_end)
        check(6, run.lsn == end, f"{run} does not continue the runs at {end}")
        self.world.check_run(run)
        found.runs.append((run, time_us))

    def _report(self, report: Report) -> None:
        check(3, self.link is not None, "a report goes to nobody")
        for lane, length in report.lengths:
            found = self.disk.get(lane)
            synced = 0 if found is None else found.synced
            check(3, length <= synced, f"{length} of lane {lane} are reported, and {synced} are synced")
            check(3, length >= self.reported.get(lane, 0), f"the reported length of lane {lane} falls")
            self.reported[lane] = length
        self.world.check_runs_synced(self, report.runs_cut)
        self.world.reports.append(report)

    def _check_truncate(self, lane: LaneId, length: int) -> None:
        closed = self.world.state.lanes.closed.get(lane)
        check(4, closed is not None or lane in self.world.forgotten, f"lane {lane} is cut, and is not closed")
        if closed is not None:
            check(4, closed.length == length, f"lane {lane} is cut to {length}, and {closed.length} are ordered")
        found = self.disk[lane]
        check(4, found.synced == found.length, f"lane {lane} is cut while it is written to")

    # Work in the background

    def _create(self, lane: LaneId) -> Event:
        self.busy.discard(lane)
        self.disk[lane] = DiskLane()
        return Created(lane)

    def _truncate(self, lane: LaneId, length: int) -> Event | None:
        self.busy.discard(lane)
        if lane not in self.disk:
            return None
        self.disk[lane].truncate(length)
        return Truncated(lane)

    def _drop(self, lane: LaneId) -> None:
        self.disk.pop(lane, None)
        self.settled.discard(lane)
        self.busy.discard(lane)

    def _sync_runs(self, noted: dict[LaneId, int], cut: int) -> Event:
        for lane, end in noted.items():
            found = self.disk.get(lane)
            if found is not None:
                found.runs_synced = max(found.runs_synced, sum(end_of(run) <= end for run, _ in found.runs))
        self.world.check_runs_synced(self, cut)
        return RunsSynced(cut)

    def do_work(self) -> None:
        if self.work:
            event = self.work.popleft()[1]()
            if event is not None:
                self.step(event)

    def sync(self, lane: LaneId, batches: int) -> None:
        """Sync some more of a lane."""
        found = self.disk[lane]
        for batch in found.batches:
            if batch.end_lsn > found.synced and batches:
                found.synced = batch.end_lsn
                batches -= 1
        self.step(Synced(lane, found.synced))

    # What others send

    def attend(self) -> None:
        """Take the next thing that the order says."""
        if self.link_lost:
            self.link_lost = False
            self.step(OrderLost())
        elif self.link:
            item = self.link.popleft()
            if item is LINK_LOST:
                self.link = None
                self.step(OrderLost())
            else:
                self.is_joining = False
                if isinstance(item, OrderJoined):
                    self.world.counts["joined"] += 1
                self.step(item)  # type: ignore[arg-type]

    def receive_batch(self, lane: LaneId) -> None:
        stream = self.streams.get(lane)
        if stream is not None and stream.batches:
            self.step(Replicated(lane, again(stream.batches.popleft())))

    def values_of(self, lane: LaneId, start: int, stop: int) -> list[bytes | None]:
        """The records of a stretch of the copy; None for no-ops."""
        values: list[bytes | None] = []
        for batch in self.disk[lane].batches:
            if batch.end_lsn > start and batch.base_lsn < stop:
                each = [None] * batch.count if batch.kind == NOOPS else list(self.world.values[batch.body_crc])
                values += each[max(0, start - batch.base_lsn) : stop - batch.base_lsn]
        return values
