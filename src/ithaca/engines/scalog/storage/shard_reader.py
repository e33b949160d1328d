"""Reading by position: the records of all lanes of a shard, in the one order that cuts gave them.

Only runs say what is ordered, so records that no run names are never returned. A `ShardCursor` merges the
runs of the lanes by position in `plan`, which runs where runs are appended, on the event loop, and reads the
batches that they name in `read`, which may run in a thread. In between, nothing else is done with a cursor.

What the merge costs depends on runs, not on records or lanes: a lane that may grow and has nothing more is only asked,
once per plan, whether it has something now. Lanes in packs come into the merge where they begin, and leave it where
they end.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from ithaca.engines.scalog.storage.held_lane import HeldLane
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.errors import Corrupt, Lost, Trimmed, WrongLane
from ithaca.model.limits import DELIVER_BYTES_MAX, READ_LANE_BYTES_MIN, READ_RUNS_MAX, READ_RUNS_MIN
from ithaca.model.positions import LaneId
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import Batch

_NOWHERE = 1 << 63
"""Behind every position."""
_FEEDS_KEPT_MAX = 16
"""Lanes of which a cursor keeps what it has read ahead, beyond those that it just read."""
_LANES_AT_ONCE = 64
"""Lanes in packs that come into a merge in one plan."""
_RUNS_AT_ONCE = 256
"""Runs of a lane that a merge looks ahead."""


class LaneRange(NamedTuple):
    """`count` records of a lane, from `lsn` on, at positions from `position` on; `follows` as of a `Run`."""

    lane: LaneId
    lsn: int
    position: int
    count: int  # type: ignore[assignment]  # nobody counts values in a stretch
    follows: int = 0

    def since(self, lsn: int) -> "LaneRange":
        """What is left of it from this LSN on."""
        skipped = lsn - self.lsn
        if not skipped:
            return self
        return LaneRange(self.lane, lsn, self.position + skipped, self.count - skipped)


def _add(planned: list[LaneRange], stretch: LaneRange) -> None:
    """Append a stretch, to the last one if it goes on there."""
    last = planned[-1] if planned else None
    if last is not None and last.lane == stretch.lane and last.position + last.count == stretch.position:
        planned[-1] = last._replace(count=last.count + stretch.count)
    else:
        planned.append(stretch)


class PositionedEntry(NamedTuple):
    """The records `[low, high)` of a batch whose first record is at `position`; what they follow, as of a `Run`."""

    lane: LaneId
    batch: Batch
    position: int
    low: int
    high: int
    follows: int = 0


class _Source:
    """One lane in a merge: its next runs."""

    __slots__ = ("held", "is_settled", "next_lsn", "runs")

    def __init__(self, held: HeldLane, *, is_settled: bool = False) -> None:
        self.held = held
        self.is_settled = is_settled
        self.next_lsn = 0
        self.runs: list[Run] = []  # the next one last

    def skip(self, position: int) -> None:
        """Leave out what is below a position."""
        self.next_lsn = max(self.next_lsn, self.held.runs.floor_position(position))

    def next(self) -> Run | None:
        """The next run; None when there is none yet."""
        if not self.runs:
            self.runs = self.held.runs.runs_from(self.next_lsn, _RUNS_AT_ONCE)
            self.runs.reverse()
            if not self.runs:
                return None
            self.next_lsn = self.runs[0].lsn + self.runs[0].count
        return self.runs[-1]

    def take(self, limit: int, runs_max: int, planned: list[LaneRange]) -> int:
        """Plan what is on the disk of the next runs, below a position; returns how many runs that were."""
        lane_id, length = self.held.lane_id, self.held.lane.length
        taken = 0
        while taken < runs_max and (run := self.next()) is not None and run.position < limit and run.lsn < length:
            lsn, position, count, time_us, follows = self.runs.pop()
            here = min(limit - position, length - lsn)
            if here < count:
                self.runs.append(Run(lsn + here, position + here, count - here, time_us))
                count = here
            _add(planned, LaneRange(lane_id, lsn, position, count, follows))
            taken += 1
        return taken


class _Feed:
    """The batches of one lane, read in chunks."""

    __slots__ = ("batches", "cursor", "held", "reader")

    def __init__(self, held: HeldLane, lsn: int) -> None:
        self.held = held
        self.reader = held.lane
        self.cursor = Cursor(self.reader, lsn)
        self.batches: deque[Batch] = deque()

    def batch_at(self, lsn: int, stop: int, bytes_max: int) -> Batch:
        """The batch that holds the next LSN; what was read beyond it, up to `stop`, is kept for the next calls."""
        batches = self.batches
        if not batches:
            batches.extend(self.cursor.read(stop, bytes_max=bytes_max))
        assert batches[0].base_lsn <= lsn < batches[0].end_lsn
        return batches[0]


class ShardCursor:
    """A place in a shard's part of the order that moves forward."""

    def __init__(self, store: LaneStore, position: int, *, bytes_max: int = DELIVER_BYTES_MAX) -> None:
        """`bytes_max`: what a read that was not planned returns at most, about."""
        self._store = store
        self.position = position
        """Everything below was planned and, once `read` has returned, was returned by it."""
        self._version = -1
        self._settled = store.settled
        self._next_start = _NOWHERE
        self._next_lane: LaneId | None = None
        self._joining = 0
        """Lanes in packs that may still come into the merge in this plan."""
        self._heap: list[tuple[int, LaneId, _Source]] = []
        self._idle: list[_Source] = []
        self._left: list[LaneRange] = []  # planned, and not read within the bytes that were allowed
        self._feeds: dict[LaneId, _Feed] = {}
        self._bytes_max = bytes_max
        self._runs_ahead = READ_RUNS_MIN

    def plan(self, stop: int, *, bytes_max: int = DELIVER_BYTES_MAX) -> list[LaneRange]:
        """What comes next below `stop`, in the order of positions; `position` moves behind it.

        All of this shard that is ordered below `stop` must be known here; `stop` never falls. Whoever wants the
        records has to `read` the stretches before planning again: it returns about `bytes_max` and takes
        `position` back to where it ended. `Lost` when the next record is ordered and not on this disk.
        """
        self._bytes_max = bytes_max
        if self._version != self._store.version:
            self._restart()
        if self.position < self._store.first:
            raise self._trimmed(self.position)
        planned, self._left = self._left, []
        self._joining = _LANES_AT_ONCE
        self._wake_idle()
        heap, runs_left = self._heap, self._runs_ahead - len(planned)
        while runs_left > 0 and self._next_position(stop, planned) < min(stop, self._next_start):
            _, lane_id, source = heappop(heap)
            limit = min(stop, heap[0][0]) if heap else stop
            taken = source.take(min(limit, self._next_start), runs_left, planned)
            run = source.next()
            if run is not None:
                heappush(heap, (run.position, lane_id, source))
                if not taken:  # it is ordered, and not here
                    if not planned:
                        self.position = max(self.position, run.position)
                        raise _lost(lane_id, run, stop)
                    break
            elif not source.is_settled:
                self._idle.append(source)
            runs_left -= taken
        self.position = max(self.position, self._next_position(stop, planned))
        return planned

    def _next_position(self, stop: int, planned: list[LaneRange]) -> int:
        """Where the next record is, or `stop`; the lanes in packs that begin before it are in the merge by then.

        Unless too many have come into the merge since the plan was begun: then it ends where the next one begins.
        """
        heap = self._heap
        while self._next_start < (min(stop, heap[0][0]) if heap else stop):
            if self._joining <= 0 and planned:
                return self._next_start
            assert self._next_lane is not None
            self._joining -= 1
            held = self._store.get(self._next_lane)
            if held is not None:  # else it was dropped meanwhile
                self._merge([_Source(held, is_settled=True)])
            self._look_ahead(self._next_start)
        return min(stop, heap[0][0]) if heap else stop

    def _look_ahead(self, position: int) -> None:
        """Find the lane in a pack that begins next."""
        found = self._settled.next_after(position)
        self._next_start, self._next_lane = found or (_NOWHERE, None)

    def _wake_idle(self) -> None:
        """Take those lanes into the merge that have new runs."""
        awake = [source for source in self._idle if source.held.runs.end_lsn > source.next_lsn]
        if awake:
            self._idle = [source for source in self._idle if source not in awake]
            self._merge(awake)

    def _merge(self, sources: list[_Source]) -> None:
        for source in sources:
            source.skip(self.position)  # which may be further on than anything that was known of the lane
            run = source.next()
            if run is not None:
                heappush(self._heap, (run.position, source.held.lane_id, source))
            elif not source.is_settled:
                self._idle.append(source)

    def _restart(self) -> None:
        """Begin the merge again with the lanes that there are now."""
        store = self._store
        self._version = store.version  # before the lanes: if they change now, it starts once more
        # In this order: a lane is in a pack before it leaves the others.
        ordered, self._settled = list(store.ordered.items()), store.settled
        self._heap, self._idle, self._left = [], [], []
        for lane in self._settled.around(self.position):
            held = store.get(lane)
            if held is not None:
                self._merge([_Source(held, is_settled=True)])
        self._look_ahead(self.position)
        self._merge([_Source(held) for lane, held in ordered if lane not in self._settled])
        stored = {lane: held for lane in self._feeds if (held := store.lanes.get(lane)) is not None}
        self._feeds = {
            lane: self._feeds[lane] for lane in stored if stored[lane].opened_lane is self._feeds[lane].reader
        }

    def in_memory(self, stretches: list[LaneRange]) -> bool:
        """Whether reading them does not touch the disk, as it seems."""
        lanes, seen = self._store.lanes, set[LaneId]()
        for stretch in stretches:
            if stretch.lane not in seen:  # what comes later in a lane is in memory if this is
                seen.add(stretch.lane)
                held = lanes.get(stretch.lane)
                opened = None if held is None else held.opened_lane
                if opened is None or not (opened.cache.get(stretch.lsn, 0) or self._is_resident(stretch)):
                    return False
        return True

    def _is_resident(self, stretch: LaneRange) -> bool:
        feed = self._feeds.get(stretch.lane)
        return feed is not None and feed.cursor.is_resident(self._bytes_max)

    def read(self, stretches: list[LaneRange]) -> list[PositionedEntry]:
        """The batches of what was planned, in order, about as many bytes as were allowed; see `plan`.

        What precedes damage is returned, and the next call meets it.
        """
        entries: list[PositionedEntry] = []
        stops = {stretch.lane: stretch.lsn + stretch.count for stretch in stretches}
        lane_bytes = max(READ_LANE_BYTES_MIN, self._bytes_max // max(1, len(stops)))
        bytes_left = self._bytes_max
        for at, stretch in enumerate(stretches):
            lsn, end = stretch.lsn, stretch.lsn + stretch.count
            while lsn < end:
                if bytes_left <= 0:
                    self._leave(stretches, at, lsn)
                    return entries
                try:
                    batch = self._batch(stretch, lsn, stops[stretch.lane], lane_bytes)
                except Corrupt:
                    if not entries:
                        raise
                    self._leave(stretches, at, lsn)
                    return entries
                base = batch.base_lsn
                follows = stretch.follows if lsn == stretch.lsn else 0
                low, lsn = lsn - base, min(end, batch.end_lsn)
                position = stretch.position + base - stretch.lsn
                entries.append(PositionedEntry(stretch.lane, batch, position, low, lsn - base, follows))
                bytes_left -= batch.total_bytes
                if lsn == batch.end_lsn:
                    self._feeds[stretch.lane].batches.popleft()
        self._runs_ahead = min(2 * self._runs_ahead, READ_RUNS_MAX)
        if len(self._feeds) > _FEEDS_KEPT_MAX:
            self._feeds = {lane: self._feeds[lane] for lane in stops}
        return entries

    def _leave(self, stretches: list[LaneRange], at: int, lsn: int) -> None:
        """Go on at this LSN of a stretch with the next read."""
        rest = stretches[at].since(lsn)
        self._left = [rest, *stretches[at + 1 :]]
        self.position = rest.position
        self._runs_ahead = min(max(READ_RUNS_MIN, 2 * at), READ_RUNS_MAX)

    def _feed(self, stretch: LaneRange) -> _Feed:
        feed = self._feeds.get(stretch.lane)
        if feed is None:
            held = self._store.get(stretch.lane)
            if held is None:
                raise self._trimmed(stretch.position)
            feed = self._feeds[stretch.lane] = _Feed(held, stretch.lsn)
        return feed

    def _batch(self, stretch: LaneRange, lsn: int, stop: int, bytes_max: int) -> Batch:
        feed = self._feed(stretch)
        try:
            return feed.batch_at(lsn, stop, bytes_max)
        except Trimmed:
            raise self._trimmed(stretch.position + lsn - stretch.lsn) from None
        except (Corrupt, WrongLane):
            found = self._store.get(stretch.lane)
            if found is None:  # it was dropped meanwhile
                raise self._trimmed(stretch.position + lsn - stretch.lsn) from None
            if found is feed.held and found.lane is feed.reader:
                raise
        # It was put into a pack meanwhile, or its files were closed and opened again, perhaps to be written to.
        self._feeds[stretch.lane] = feed = _Feed(found, lsn)
        return feed.batch_at(lsn, stop, bytes_max)

    def _trimmed(self, position: int) -> Trimmed:
        first = self._store.first
        return Trimmed(f"position {position} was trimmed; the first one left is {first}", first=first)


def _lost(lane: LaneId, run: Run, limit: int) -> Lost:
    """What is missing below a position: what is behind that may be on its way."""
    start, stop = run.position, min(run.position + run.count, limit)
    return Lost(
        f"positions {start} to {stop - 1} were ordered, and their records (lane {lane}, from LSN {run.lsn} on) are "
        f"not on this disk: go on at position {stop}",
        start=start,
        stop=stop,
    )


def find(store: LaneStore, position: int) -> tuple[LaneId, int] | None:
    """Lane and LSN of the record at a position; None when it is not known to be one of this shard."""
    if position < store.first:
        raise Trimmed(f"position {position} was trimmed; the first one left is {store.first}", first=store.first)
    for held in _around(store, position):
        runs = held.runs
        if position < runs.end_position:
            lsn = runs.known_lsn_of(position)
            if lsn is not None:
                return held.lane_id, lsn
    return None


def _around(store: LaneStore, position: int) -> Iterator[HeldLane]:
    """The lanes that may have a record at a position."""
    yield from list(store.ordered.values())  # first: a lane is in a pack before it leaves these
    for lane in store.settled.around(position):
        held = store.get(lane)
        if held is not None:
            yield held


def places(store: LaneStore, start: int, stop: int, runs_max: int) -> tuple[list[LaneRange], int]:
    """Where the records of `[start, stop)` lie, in their order, and up to which position that is all; see `plan`."""
    cursor = ShardCursor(store, start)
    found: list[LaneRange] = []
    for _ in range(runs_max // READ_RUNS_MIN):
        if cursor.position >= stop:
            break
        for stretch in cursor.plan(stop):
            _add(found, stretch)
    return found, cursor.position


def seek_time(store: LaneStore, time_us: int, stop: int) -> int | None:
    """The first position of this shard, below `stop`, that was ordered at a time or later; None without one."""
    ordered = list(store.ordered.values())  # first: a lane is in a pack before it leaves these
    start, across = store.settled.by_time(time_us, store.first)
    found = [] if start is None else [start]
    settled = [held for lane in across if (held := store.get(lane)) is not None]
    for held in [*settled, *ordered]:
        runs = held.runs
        lsn = max(runs.seek_time(time_us), runs.floor_position(store.first))
        if lsn < runs.end_lsn:
            found.append(runs.position_of(lsn))
    first = min(found, default=stop)
    return first if first < stop else None
