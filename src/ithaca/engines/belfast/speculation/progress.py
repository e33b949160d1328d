"""On the leader: which cuts are done for every lane, and whom the others wait for (SpecLog §4.1, §4.3).

A cut is done for a lane that has passed it once the lane is durable up to its end. Soft state: reports are cumulative,
so a new leader has all of it after one report of each lane.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.limits import CUTS_TOGETHER_MAX, PASS_AHEAD_ROUNDS
from ithaca.engines.belfast.speculation.disks import Disks
from ithaca.engines.belfast.speculation.entries import CutRange, UsedCut
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.reports import Ack, Acks, LaneReport
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard


class AskPass(NamedTuple):
    """Ask the lane's primary to pass every cut before this one."""

    lane: LaneId
    cut: int


class _Lane:
    """What is known of one lane."""

    __slots__ = ("acks", "ahead", "asked", "done", "durable", "is_final", "passed", "placed", "report", "used")

    def __init__(self, lane: LaneId) -> None:
        self.acks = Acks(lane)
        self.report: LaneReport | None = None
        self.passed = 0
        self.durable = 0
        self.used: dict[int, int] = {}
        self.done = 0
        """Every own cut before this one is done."""
        self.asked = 0
        self.ahead = PASS_AHEAD_ROUNDS
        """Rounds that it is asked to pass beyond the cut that somebody has reached."""
        self.placed = 0
        """Behind the last cut in which it placed something."""
        self.is_final = False
        """Whether its takeover has said all there is: reports count no more."""


class Progress:
    """The lanes of one leader's term."""

    def __init__(
        self, order: SlotOrder, lanes: LaneTable, shards: Mapping[int, Shard], disks: Disks, *, ahead_max: int = 0
    ) -> None:
        """`ahead_max`: rounds that a lane may be asked to pass beyond what others have reached."""
        self._ahead_max = ahead_max
        self._order = order
        self._table = lanes
        self._shards = shards
        self._disks = disks
        self._lanes: dict[LaneId, _Lane] = {}
        self._proposed = order.cut
        """Every cut before this one is applied or in flight."""

    def receive(self, report: LaneReport) -> bool:
        """Take in a report; False for one that is stale, or from nowhere."""
        shard = self._shards.get(report.lane.shard)
        if shard is None or report.epoch != shard.epoch or not self._table.is_open(report.lane):
            return False
        lane = self._known(report.lane)
        if lane.is_final:
            return False
        if lane.report is None or report.passed >= lane.passed:
            lane.report = report
        lane.passed = max(lane.passed, report.passed)
        lane.used.update(report.used)
        if report.used:
            lane.placed = max(lane.placed, report.used[-1][0] + 1)
        for ack in report.acks:
            lane.acks.take(report.lane, ack)
        self._count(lane, shard)
        return True

    def acknowledged(self, lane: LaneId, ack: Ack) -> None:
        """A replica itself says how much of the lane it has synced: its primary would say so a message later."""
        shard = self._shards.get(lane.shard)
        if shard is None or not self._table.is_open(lane):
            return
        known = self._known(lane)
        if not known.is_final and known.acks.take(lane, ack):
            self._count(known, shard)

    def taken_over(self, lane: LaneId, ends: Mapping[int, int], durable: int) -> None:
        """All that there will be of the lane is known: where its cuts end, and that it is durable."""
        known = self._known(lane)
        known.is_final = True
        known.used = dict(ends)
        known.durable = durable
        known.passed = known.done = 1 << 62

    def applied(self) -> None:
        """The order has moved: what is behind it is forgotten, and so are lanes that closed."""
        for lane in [lane for lane in self._lanes if not self._table.is_open(lane)]:
            del self._lanes[lane]
        for known in self._lanes.values():
            for cut in [cut for cut in known.used if cut < self._order.cut]:
                del known.used[cut]
        self._proposed = max(self._proposed, self._order.cut)

    def refused(self) -> None:
        """A range was void, or Raft did not take it, and so all that are in flight behind it: start over."""
        self._proposed = self._order.cut

    def propose(self, time_us: int, forget: tuple[int, ...] = ()) -> CutRange | None:
        """The cuts that are done and not proposed, if there are any."""
        if self._order.mode != "fixed":
            return None
        start, stop = self._proposed, self._done_to(self._proposed)
        used = self._used(start, stop)
        if len(used) > CUTS_TOGETHER_MAX:
            stop = used[CUTS_TOGETHER_MAX][0]
            used = used[:CUTS_TOGETHER_MAX]
        if not self._is_worth(start, stop, used):
            return None
        self._proposed = stop
        return CutRange(self._order.attempt, start, stop, used, time_us, forget)

    def asks(self, hurried_to: int = 0) -> list[AskPass]:
        """Lanes that others wait for: each is asked once for each cut that somebody has reached (lag-fix).

        It is asked to pass some more, and twice as much each time while it places nothing: then whoever appends again
        need not wait for it, and nobody has to ask. What stays empty costs nothing.
        """
        wanted = max(hurried_to, self.reached)
        asks: list[AskPass] = []
        for lane in self._listed(wanted):
            known = self._known(lane)
            if max(known.passed, known.asked) < wanted:
                is_quiet = known.placed <= known.asked
                known.ahead = min(2 * known.ahead, self._ahead_max) if is_quiet else PASS_AHEAD_ROUNDS
                known.asked = max(wanted, min(wanted + self._cuts(known.ahead), self._order.end_cut))
                asks.append(AskPass(lane, known.asked))
        return asks

    def _cuts(self, rounds: int) -> int:
        windows = self._order.windows
        return min(rounds, self._ahead_max) * (windows[-1].layout.groups if windows else 1)

    def asks_again(self) -> list[AskPass]:
        """The same for a tick: what was asked for and not answered may be lost."""
        waiting = [lane for lane, known in self._lanes.items() if self._holds_up(lane, known.passed, known.asked)]
        return [AskPass(lane, self._lanes[lane].asked) for lane in sorted(waiting)]

    def _holds_up(self, lane: LaneId, passed: int, asked: int) -> bool:
        """Whether it has slots in a cut that it was asked to pass and has not; in others it has nothing to pass."""
        if passed >= asked:
            return False
        shares = (window.share(lane) for window in self._order.windows)
        owned = (share.own_cut(passed) for share in shares if share is not None)
        return any(cut is not None and cut < asked for cut in owned)

    @property
    def reached(self) -> int:
        """Behind the last cut in which a lane has placed something, and so waits for the others."""
        return max((max(known.used) + 1 for known in self._lanes.values() if known.used), default=0)

    @property
    def passed_most(self) -> int:
        """How far the lane is that is furthest."""
        return max((known.passed for known in self._lanes.values() if not known.is_final), default=0)

    def late(self) -> list[LaneId]:
        """The lanes that the next cut waits for, while others have something in it or behind it."""
        window = self._order.window_of(self._order.cut)
        if window is None or self.reached <= self._order.cut:
            return []
        return [lane for lane in window.lanes_in(self._order.cut) if self._done(lane) <= self._order.cut]

    def report(self, lane: LaneId) -> LaneReport | None:
        """The newest that counts."""
        known = self._lanes.get(lane)
        return None if known is None else known.report

    def durable(self, lane: LaneId) -> int:
        known = self._lanes.get(lane)
        return 0 if known is None else known.durable

    def ordered(self, lane: LaneId) -> int | None:
        """How much of the lane is ordered."""
        return self._table.ordered_length(lane)

    def _known(self, lane: LaneId) -> _Lane:
        known = self._lanes.get(lane)
        if known is None:
            known = self._lanes[lane] = _Lane(lane)
        return known

    # Done

    def _count(self, lane: _Lane, shard: Shard) -> None:
        lane.durable = max(lane.durable, lane.acks.durable(self._disks.of(shard.shard), shard.copies))
        unsynced = min((cut for cut, length in lane.used.items() if length > lane.durable), default=lane.passed)
        lane.done = max(lane.done, min(lane.passed, unsynced))

    def _done(self, lane: LaneId) -> int:
        if not self._table.is_open(lane):
            return 1 << 62
        known = self._lanes.get(lane)
        return 0 if known is None else known.done

    def _done_to(self, start: int) -> int:
        """Every cut from `start` to this one is done for all that have slots in it."""
        stop = start
        for window in self._order.windows:
            if window.end_cut <= start:
                continue
            stop = min((self._stop(window, lane) for lane in window.layout.lanes), default=window.end_cut)
            if stop < window.end_cut:
                break
        return max(start, stop)

    def _stop(self, window: Window, lane: LaneId) -> int:
        """The first cut of the window that the lane holds up, or its end."""
        share = window.share(lane)
        assert share is not None
        own = share.own_cut(self._done(lane))
        return window.end_cut if own is None else own

    def _used(self, start: int, stop: int) -> tuple[UsedCut, ...]:
        cuts: dict[int, list[tuple[LaneId, int]]] = {}
        for lane, known in sorted(self._lanes.items()):
            for cut, length in known.used.items():
                if start <= cut < stop:
                    cuts.setdefault(cut, []).append((lane, length))
        return tuple((cut, tuple(lanes)) for cut, lanes in sorted(cuts.items()))

    def _is_worth(self, start: int, stop: int, used: tuple[UsedCut, ...]) -> bool:
        """Idle means silent: empty cuts are ordered with the next that are not, or when something waits for them."""
        if stop <= start:
            return False
        window = self._order.window_of(start)
        return bool(used) or bool(self._order.reserved) or (window is not None and stop >= window.end_cut)

    def _listed(self, cut: int) -> list[LaneId]:
        """Open lanes that have slots in a cut before this one, that is not applied."""
        found: set[LaneId] = set()
        for window in self._order.windows:
            if window.first_cut < cut:
                found.update(filter(self._table.is_open, window.layout.lanes))
        return sorted(found)
