"""On the leader: when the next window is ordered, and what it is (SpecLog §4.4, §4.5).

The next window is ordered when the newest one is half used, so that no lane ever waits for slots. Sooner if somebody is
in a hurry: a lane that has something to place and no slots for it, a takeover whose lane is to begin again, a
publication that waits behind the ordered windows. Then all lanes pass what is ordered before.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ithaca.engines.belfast.limits import WINDOW_ROUNDS, WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation.entries import EndFree, OpenWindow
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.progress import Progress
from ithaca.engines.belfast.speculation.quotas import RateQuotas, Stragglers, groups_of, wide_quota
from ithaca.model.config.slots import SlotQuotas
from ithaca.model.positions import LaneId


class Plan(NamedTuple):
    """What to propose, and how far all lanes are to pass at once."""

    entry: OpenWindow | EndFree | None = None
    pass_to: int = 0


class Planner:
    """Plans windows during one leader's term. `lanes` are the open lanes of shards that do not leave."""

    def __init__(
        self, order: SlotOrder, progress: Progress, *, quotas: SlotQuotas = "wide", rounds: int = WINDOW_ROUNDS
    ) -> None:
        self._order = order
        self._progress = progress
        self._rates = RateQuotas() if quotas == "rate" else None
        self._rounds = rounds
        self.stragglers = Stragglers()
        self._in_flight: int | None = None
        """The number of the window that is proposed and not applied."""

    def applied(self) -> None:
        """A window, an end of a free one, or a failure was applied, or what was proposed is void."""
        self._in_flight = None

    def plan(
        self,
        lanes: Iterable[LaneId],
        written: Mapping[LaneId, int],
        mode: str,
        now_us: int,
        interval_us: int,
        *,
        has_room: bool = True,
    ) -> Plan:
        """What is due now. `written` is how much of each open lane is there; `mode` is what the order is to be. Without
        room a free window follows upon a free one, because another would be void."""
        order = self._order
        if order.mode == "free":
            if mode == "free" or self._in_flight is not None:
                return Plan()
            self._in_flight = order.number
            return Plan(EndFree(order.number, order.attempt))
        if self._in_flight is not None or order.is_free_next:
            return Plan(pass_to=self._hurried_to())
        if order.mode == "ending":
            return Plan(self._after_free(sorted(lanes), now_us, interval_us, has_room=has_room))
        if mode == "free":
            free = OpenWindow(order.number + 1, order.end, 0, 1, (), (), order.attempt)
            self._in_flight = free.number
            return Plan(free, order.end_cut)
        all_lanes = sorted(lanes)
        # Where all are late, nobody waits for anybody else.
        chosen = [lane for lane in all_lanes if not self.stragglers.is_out(lane, order.number + 1, now_us)] or all_lanes
        entry = self._next(chosen, written, order.end, now_us, interval_us) if self._is_due(chosen) else None
        return Plan(entry, self._hurried_to())

    def _is_due(self, lanes: list[LaneId]) -> bool:
        order = self._order
        if not lanes or len(order.windows) >= WINDOWS_AHEAD_MAX:
            return False
        if not order.windows:
            return bool(self._wanting(lanes)) or order.number == 0
        newest = order.windows[-1]
        reached = max(self._progress.passed_most, order.cut)
        return bool(self._wanting(lanes)) or 2 * (reached - newest.first_cut) >= newest.end_cut - newest.first_cut

    def _wanting(self, lanes: Iterable[LaneId]) -> list[LaneId]:
        """Lanes with a batch that fits into no window that is ordered."""
        return [lane for lane in lanes if self._wanted(lane) and self._serving(lane) is None]

    def _wanted(self, lane: LaneId) -> int:
        report = self._progress.report(lane)
        return 0 if report is None else report.wanted

    def _serving(self, lane: LaneId) -> int | None:
        """The first cut from which on what the lane wants to place fits."""
        report = self._progress.report(lane)
        for window in self._order.windows:
            share = window.share(lane)
            if share is not None and report is not None and share.q >= report.wanted and report.passed < share.end_cut:
                return share.first_cut
        return None

    def _hurried_to(self) -> int:
        """The cut that all lanes are to reach at once; 0 if nobody is in a hurry."""
        order = self._order
        if order.is_free_next:
            return order.end_cut
        hurried = 0
        for base, _ in order.reserved:
            hurried = max([hurried, *(window.end_cut for window in order.windows if window.end <= base)])
        listed = sorted({lane for window in order.windows for lane in window.layout.lanes})
        for lane in listed:
            if self._wanted(lane):
                serving = self._serving(lane)
                hurried = max(hurried, order.end_cut if serving is None else serving)
        return hurried

    def _after_free(self, lanes: list[LaneId], now_us: int, interval_us: int, *, has_room: bool) -> OpenWindow | None:
        """The window behind a free one, once all that lanes had written there is ordered: those that leave have no
        slots, and are asked as well."""
        stopped = {lane: self._stopped(lane) for lane in self._order.open_lanes()}
        lengths = {lane: length for lane, length in stopped.items() if length is not None}
        if not lanes or len(lengths) < len(stopped):
            return None
        if not has_room:
            self._in_flight = self._order.number + 1
            entry = OpenWindow(self._in_flight, 0, 0, 1, (), (), self._order.attempt)
        else:
            entry = self._next(lanes, lengths, 0, now_us, interval_us)
        return OpenWindow(
            *(entry.number, 0, entry.rounds, entry.groups, entry.q, entry.lanes, entry.attempt),
            lengths=tuple(sorted(lengths.items())),
        )

    def _stopped(self, lane: LaneId) -> int | None:
        """All that the lane wrote in the free window, if it is ordered."""
        report = self._progress.report(lane)
        if report is None or report.stopped is None or report.stopped != self._progress.ordered(lane):
            return None
        return report.stopped

    def _next(
        self, lanes: list[LaneId], written: Mapping[LaneId, int], base: int, now_us: int, interval_us: int
    ) -> OpenWindow:
        wanted = {lane: self._wanted(lane) for lane in lanes}
        if self._rates is None:
            q: tuple[int, ...] = (wide_quota(wanted.values()),)
        else:
            placed = {lane: written.get(lane, 0) for lane in lanes}
            rates = self._rates.next(placed, wanted, now_us, interval_us)
            q = tuple(rates[lane] for lane in lanes)
        number = self._order.number + 1
        self._in_flight = number
        return OpenWindow(number, base, self._rounds, groups_of(len(lanes)), q, tuple(lanes), self._order.attempt)
