"""What the ordering layer is told, and when: reports of what is synced, and of which runs are (design §5).

Nothing here runs on a fixed clock: a report goes out when something was synced and not too many reports wait
for their cut; the interval only repeats what no cut has covered.
"""

from collections import deque
from collections.abc import Mapping

from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.replica.events import Effect, SendReport, SyncRuns
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.limits import (
    PART_REPORT_INTERVAL_S,
    REPORT_INTERVAL_S,
    REPORT_LANES_MAX,
    REPORTS_OUTSTANDING_MAX,
    RUNS_SYNC_CUTS,
    RUNS_SYNC_S,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard

_REPORT_INTERVAL_US = int(REPORT_INTERVAL_S * 1e6)
_PART_REPORT_INTERVAL_US = int(PART_REPORT_INTERVAL_S * 1e6)
_RUNS_SYNC_US = int(RUNS_SYNC_S * 1e6)


class Timer:
    """Falls due some time after it was set.

    The core learns the time from `Tick` alone, and the last one may be long ago when the timer is set. So the
    time is counted from the first tick after that; the deadline that is told until then brings that tick.
    """

    __slots__ = ("_after_us", "_due_us", "_is_counting", "_wait_us")

    def __init__(self, after_us: int) -> None:
        self._after_us = self._wait_us = after_us
        self._due_us: int | None = None
        self._is_counting = False

    @property
    def due_us(self) -> int | None:
        return self._due_us

    def set(self, now_us: int, times: int = 1) -> None:
        """Have it fall due after so many times its usual time."""
        self._wait_us = times * self._after_us
        self._due_us = now_us + self._wait_us
        self._is_counting = False

    def clear(self) -> None:
        self._due_us = None

    def is_due(self, now_us: int) -> bool:
        """Whether the time has passed; it counts from this tick if it did not yet."""
        if self._due_us is None:
            return False
        if not self._is_counting:
            self._due_us = now_us + self._wait_us
            self._is_counting = True
        return now_us >= self._due_us


class RunsSync:
    """Up to which cut the runs of all lanes are known here, and durable."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._timer = Timer(_RUNS_SYNC_US)
        self._is_syncing = False
        self._unsynced = 0
        """Cuts, or parts of them, noted since the last sync began."""
        self._unsynced_from = 0
        """The newest cut that was known when the first of them was noted."""
        self._counted: dict[LaneId, LaneCopy] = {}
        """Lanes with runs that were noted since the last sync began."""
        self._syncing: dict[LaneId, LaneCopy] = {}
        self._refused: dict[LaneId, LaneCopy] = {}
        """Lanes that had no room for their runs."""
        self._known = 0
        self.cut = 0
        """The newest cut up to which the runs of all lanes are durable."""
        self.cut_with_runs = 0
        """The newest cut that has runs of this shard, so that the ordering layer waits for this replica."""

    @property
    def due_us(self) -> int | None:
        return None if self._is_syncing else self._timer.due_us

    @property
    def has_refused(self) -> bool:
        """Whether a lane lacks runs because too many wait to be synced."""
        return bool(self._refused)

    @property
    def unsynced(self) -> int:
        """The most runs of a lane that wait to be synced."""
        copies = (*self._counted.values(), *self._syncing.values())
        return max((copy.runs_unsynced + copy.runs_syncing for copy in copies), default=0)

    def count(self, copy: LaneCopy) -> None:
        """A run of the lane is noted."""
        copy.runs_unsynced += 1
        self._counted[copy.lane] = copy

    def refuse(self, copy: LaneCopy) -> None:
        """There is no room for a run of the lane."""
        copy.are_runs_refused = True
        self._refused[copy.lane] = copy

    def dropped(self, lane: LaneId) -> None:
        """There is no such lane any more."""
        for lanes in (self._counted, self._syncing, self._refused):
            lanes.pop(lane, None)

    def take_again(self) -> bool:
        """Have lanes take runs again that have room now; says whether any had none."""
        found = [copy for copy in self._refused.values() if copy.has_room]
        for copy in found:
            copy.are_runs_refused = False
            del self._refused[copy.lane]
        return bool(found)

    def noted(self, now_us: int) -> None:
        """Runs were noted that are not durable."""
        if not self._unsynced:
            self._timer.set(now_us)
            self._unsynced_from = self._known
        self._unsynced += 1

    def known_to(self, cut: int) -> None:
        """The runs of every cut up to this one are noted."""
        self._known = cut
        if self._unsynced and max(self._unsynced, cut - self._unsynced_from) >= RUNS_SYNC_CUTS:
            self._sync()
        elif not self._unsynced and not self._is_syncing:
            self.cut = cut

    def tick(self, now_us: int) -> None:
        if self._timer.is_due(now_us) and not self._is_syncing:
            self._sync()

    def synced(self, cut: int) -> None:
        self._is_syncing = False
        for copy in self._syncing.values():
            copy.runs_syncing = 0
        self._syncing = {}
        self.cut = max(self.cut, cut)
        self.known_to(self._known)

    def _sync(self) -> None:
        if self._is_syncing:
            return
        self._is_syncing = True
        self._unsynced = 0
        self._timer.clear()
        self._syncing, self._counted = self._counted, {}
        for copy in self._syncing.values():
            copy.runs_syncing, copy.runs_unsynced = copy.runs_unsynced, 0
        self._effects.append(SyncRuns(self._known))


class Reporting:
    """The reports of one boot of one replica."""

    def __init__(
        self,
        replica: int,
        boot: int,
        lanes: Mapping[LaneId, LaneCopy],
        settled: SettledCopies,
        runs: RunsSync,
        effects: list[Effect],
    ) -> None:
        self._replica = replica
        self._boot = boot
        self._lanes = lanes
        self._settled = settled
        self._runs = runs
        self._effects = effects
        self._shard: Shard | None = None
        """None while there is nobody to report to."""
        self._is_learner = False
        self._told: list[LaneCopy] = []
        """The lanes that are reported."""
        self._uncovered: deque[tuple[tuple[LaneId, int], ...]] = deque()
        """What each report added to the one before it, as long as that is not all ordered."""
        self._runs_cut = 0
        self._repeat = Timer(_REPORT_INTERVAL_US)
        self._repeat_parts = Timer(_PART_REPORT_INTERVAL_US)

    @property
    def due_us(self) -> int | None:
        due = [timer.due_us for timer in (self._repeat, self._repeat_parts) if timer.due_us is not None]
        return min(due, default=None)

    def lost(self) -> None:
        """There is nobody to report to."""
        self._shard = None
        self._repeat.clear()
        self._repeat_parts.clear()

    def follow(self, shard: Shard, now_us: int, *, is_new: bool = False) -> None:
        """The shard is like this now; a leader or a configuration that is new knows nothing of this replica."""
        is_new = is_new or self._shard is None or self._shard.epoch != shard.epoch
        self._shard = shard
        self._choose(shard)
        if is_new:
            self._uncovered.clear()
            for lane in self._told:
                lane.reported = lane.ordered
            self._send(now_us)

    def start_again(self, boot: int) -> None:
        """What is reported from here on is of this boot."""
        self._boot = boot

    def moved(self, now_us: int) -> None:
        """Something was synced, or a cut came: say what is not said yet, unless enough waits for its cut."""
        if self._shard is None:
            return
        while self._uncovered and self._is_covered(self._uncovered[0]):
            self._uncovered.popleft()
        if len(self._uncovered) < REPORTS_OUTSTANDING_MAX and any(lane.durable > lane.reported for lane in self._told):
            self._send(now_us, is_complete=False)
        elif self._runs.cut - self._runs_cut >= RUNS_SYNC_CUTS // 2 and self._runs_cut < self._runs.cut_with_runs:
            # The ordering layer keeps cuts until it hears that their runs are safe, and not too many of them.
            self._send(now_us, is_complete=False)
        elif not self._holds_more():
            self._repeat.clear()

    def hurry(self) -> None:
        """Have what is synced next said at once, however many reports wait: of a lane whose cuts end where its primary
        said, the last of those that one cut waits for must not wait for that cut."""
        self._uncovered.clear()

    def tick(self, now_us: int) -> None:
        if self._repeat.is_due(now_us):
            # It says all that the others said, and adds nothing. What is not ordered by now may never be, when a
            # peer is gone: that must not hold back what is synced of other lanes.
            self._uncovered.clear()
            if self._holds_more():
                self._send(now_us)
            else:
                self._repeat.clear()
        if self._repeat_parts.is_due(now_us):
            if self._shard is not None and self._holds_parts():
                self._send(now_us)
            else:
                self._repeat_parts.clear()

    def _send(self, now_us: int, *, is_complete: bool = True) -> None:
        """Report everything; of what does not fit into one message only what has grown, unless it is to be whole.

        The leader puts reports together, so one may come in pieces. Only a learner has so many lanes; and there is no
        aggregator between it and the leader, which would keep the newest piece alone.
        """
        shard = self._shard
        assert shard is not None
        if shard.find(self._replica) is None and self._replica <= shard.replica_last:
            self._repeat.clear()  # it was removed: nobody counts on it
            self._repeat_parts.clear()
            return
        lengths = tuple((lane.lane, lane.durable) for lane in self._told)
        if self._is_learner:
            lengths = tuple(sorted({**dict(lengths), **dict(self._settled.items())}.items()))
        added = tuple((lane.lane, lane.durable) for lane in self._told if lane.durable > lane.reported)
        lanes_max = REPORT_LANES_MAX if self._is_learner else max(1, len(lengths))
        pieces = max(1, -(-len(lengths) // lanes_max))
        if pieces > 1 and not is_complete:
            lengths = added
        for lane in self._told:
            lane.reported = max(lane.reported, lane.durable)
        self._runs_cut = self._runs.cut
        for start in range(0, max(1, len(lengths)), lanes_max):
            piece = lengths[start : start + lanes_max]
            self._effects.append(
                SendReport(Report(shard.shard, shard.epoch, self._replica, self._boot, self._runs_cut, piece))
            )
        if added:
            self._uncovered.append(added)
        if self._holds_more():
            self._repeat.set(now_us, pieces)  # no more is said in the same time
        else:
            self._repeat.clear()
        if self._holds_parts():
            self._repeat_parts.set(now_us)
        else:
            self._repeat_parts.clear()

    def _choose(self, shard: Shard) -> None:
        """Members report what may grow; a learner all that it has, to be judged by it."""
        self._is_learner = shard.find(self._replica) is None
        self._told = [lane for _, lane in sorted(self._lanes.items()) if lane.is_open or self._is_learner]

    def _holds_more(self) -> bool:
        """Whether to say it again: more than was ordered; of a learner anything, since it is judged by that.

        Of parts nothing is ordered before they are sealed: they are reported when they grow, and no cut covers that.
        """
        held = (lane for lane in self._told if lane.is_open and not lane.lane.is_part)
        return self._is_learner or any(lane.durable > lane.ordered for lane in held)

    def _holds_parts(self) -> bool:
        return any(lane.is_open and lane.durable and lane.lane.is_part for lane in self._told)

    def _is_covered(self, lengths: tuple[tuple[LaneId, int], ...]) -> bool:
        for lane, length in lengths:
            copy = self._lanes.get(lane)
            if copy is not None and copy.is_open and copy.ordered < length and not lane.is_part:
                return False
        return True
