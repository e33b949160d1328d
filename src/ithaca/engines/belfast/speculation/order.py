"""The agreed order of slots: windows, real cuts, attempts, and the places of publications.

`SlotOrder` is the part of the replicated state that `scalog` does not have. It works on the same table of lanes, so
that lengths are known once. Every entry is judged when it is applied, by what was applied before it: it is the next of
its kind and none of its lanes has changed, or it is void as a whole. So it makes no difference which leaders proposed
what, and what of that was lost.
"""

from collections import deque

import numpy as np

from ithaca.engines.belfast.limits import WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation import packed
from ithaca.engines.belfast.speculation.entries import (
    CutRange,
    EndFree,
    FailLane,
    LaneLength,
    OpenWindow,
    SlotEntry,
    TakeLane,
)
from ithaca.engines.belfast.speculation.kept import KeptWindows, Span
from ithaca.engines.belfast.speculation.outcomes import (
    FreeBegun,
    FreeEnding,
    FreeOrdered,
    LaneEnded,
    PublicationOrdered,
    PublicationReserved,
    SlotOutcome,
    SlotsOrdered,
    SpeculationFailed,
    VoidEntry,
    VoidReason,
    WindowOpened,
)
from ithaca.engines.belfast.speculation.packed import Mode, PackedLayout, PackedSlots, PackedWindow
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.lanes import LaneTable, Runs
from ithaca.model.cut import LaneLengths, lane_key, lane_of, shard_of
from ithaca.model.positions import FIRST, LaneId


class SlotOrder:
    """Where the order of slots stands after some entries."""

    def __init__(self, lanes: LaneTable) -> None:
        self._lanes = lanes
        self.mode: Mode = "free"
        """A log begins with a free window, number 0."""
        self.number = 0
        """Of the newest window."""
        self.attempt = 1
        self.tail = FIRST
        """The next position."""
        self.end = FIRST
        """Behind all windows and publications that are ordered; means nothing while the order is free."""
        self.cut = 0
        """The next cut."""
        self.windows: deque[Window] = deque()
        """Those of which not every cut is applied."""
        self.reserved: deque[tuple[int, int]] = deque()
        """Publications, position and count, that wait until all before them is ordered."""
        self.is_free_next = False
        """Whether the newest window is free, and has not begun."""
        self.kept = KeptWindows()
        self.ended: dict[LaneId, LaneEnded] = {}
        """Closed lanes that have slots behind the tail."""

    def apply(self, entry: SlotEntry) -> list[SlotOutcome]:
        match entry:
            case OpenWindow():
                return self._open_window(entry)
            case CutRange():
                return self._order(entry)
            case FailLane():
                return self._fail(entry)
            case TakeLane():
                return self._take(entry)
            case EndFree():
                return self._end_free(entry)

    def free_ordered(self, tail: int) -> None:
        """A plain cut, or a publication, was ordered while the order is free."""
        assert self.mode != "fixed", "a plain cut orders nothing between slots"
        self.tail = self.end = tail

    def reserve(self, count: int) -> list[SlotOutcome]:
        """Give a publication its positions, while the order is not free."""
        assert self.mode == "fixed", "in a free window a publication takes the tail"
        base, self.end = self.end, self.end + count
        self.reserved.append((base, count))
        return [PublicationReserved(base, count), *self._go_on()]

    def trim(self, first: int) -> None:
        """Nothing before this position is read any more."""
        self.kept.trim(first)

    @property
    def end_cut(self) -> int:
        """Behind the last cut that is ordered or to come."""
        return self.windows[-1].end_cut if self.windows else self.cut

    def window_of(self, cut: int) -> Window | None:
        """The window that a cut belongs to which is not applied."""
        return next((window for window in self.windows if window.first_cut <= cut < window.end_cut), None)

    def has_open_lane(self, shard: int) -> bool:
        """Whether the shard has a lane of which something may be delivered and not ordered: it is taken over first."""
        return self.mode == "fixed" and any(shard_of(key) == shard for key in self._lanes.keys.tolist())

    # Windows

    def _open_window(self, entry: OpenWindow) -> list[SlotOutcome]:
        reason = self._misses_window(entry)
        if reason is not None:
            return [VoidEntry(entry, reason)]
        if self.mode == "ending":
            self.end = self.tail
        self.number, self.mode = entry.number, "fixed"
        if entry.is_free:
            self.is_free_next = True
            return [FreeOrdered(entry.number, self.end), *self._go_on()]
        window = Window(entry.number, self.end, entry.rounds, entry.layout, entry.attempt, self.end_cut)
        self.windows.append(window)
        self.kept.keep(window)
        self.end = window.end
        self._lanes.own_to.update(dict.fromkeys(entry.lanes, window.end))
        return [WindowOpened(window)]

    def _misses_window(self, entry: OpenWindow) -> VoidReason | None:
        if self.mode == "free" or self.is_free_next:
            return "the order is free"
        if entry.attempt != self.attempt:
            return "another attempt"
        if entry.number != self.number + 1:
            return "another window"
        if entry.base != (0 if self.mode == "ending" else self.end):
            return "not where the order ends"
        if self.mode == "ending" and dict(entry.lengths) != self.open_lanes():
            return "not what the lane has written"
        if not all(map(self._lanes.is_open, entry.lanes)):
            return "the lane is closed"
        return "too many windows" if len(self.windows) >= WINDOWS_AHEAD_MAX else None

    def _end_free(self, entry: EndFree) -> list[SlotOutcome]:
        if self.mode != "free":
            return [VoidEntry(entry, "the order is not free")]
        if entry.attempt != self.attempt:
            return [VoidEntry(entry, "another attempt")]
        if entry.number != self.number:
            return [VoidEntry(entry, "another window")]
        self.mode = "ending"
        return [FreeEnding(self.number)]

    # Cuts

    def _order(self, entry: CutRange) -> list[SlotOutcome]:
        reason = self._misses_cut(entry)
        if reason is not None:
            return [VoidEntry(entry, reason)]
        outcomes: list[SlotOutcome] = []
        used = deque(entry.used)
        while self.cut < entry.stop:
            window = self.windows[0]
            stop = min(entry.stop, window.end_cut)
            while used and used[0][0] < stop:
                cut, lanes = used.popleft()
                outcomes.append(SlotsOrdered(cut, window.cut_end(cut), self._runs(window, cut, lanes)))
                self.cut = cut + 1
            if self.cut < stop:
                outcomes.append(SlotsOrdered(stop - 1, window.cut_end(stop - 1)))
            self.cut, self.tail = stop, window.cut_end(stop - 1)
            if stop == window.end_cut:
                self.windows.popleft()
                outcomes += self._go_on()
        self.ended = {lane: ended for lane, ended in self.ended.items() if ended.end > self.tail}
        return outcomes

    def _misses_cut(self, entry: CutRange) -> VoidReason | None:
        if self.mode != "fixed":
            return "the order is free"
        if entry.attempt != self.attempt:
            return "another attempt"
        if entry.start != self.cut or entry.stop > self.end_cut:
            return "not the next cut"
        lengths: dict[LaneId, int] = {}
        for cut, lanes in entry.used:
            window = self.window_of(cut)
            assert window is not None, f"cut {cut} is between {self.cut} and {self.end_cut}"
            for lane, length in lanes:
                if not self._lanes.is_open(lane):
                    return "the lane is closed"
                if lane not in window.lanes_in(cut):
                    return "no slots of the lane"
                known = lengths.get(lane, self._lanes.ordered_length(lane))
                assert known is not None, f"lane {lane} is open"
                if not known < length <= known + window.layout.shares[lane].q:
                    return "not what the lane has written"
                lengths[lane] = length
        return None

    def _runs(self, window: Window, cut: int, lanes: tuple[LaneLength, ...]) -> Runs:
        """What a cut orders: lanes by number, each at the first of its slots."""
        start = window.base + window.round_of(cut) * window.layout.slots
        shares = window.layout.shares
        positions = np.array([start + shares[lane].prefix for lane, _ in lanes], np.int64)
        moved = LaneLengths.of_pairs([(lane_key(lane), length) for lane, length in lanes])
        return self._lanes.order_at(moved, positions)

    def _go_on(self) -> list[SlotOutcome]:
        """All windows before a publication, or before a free window, may be ordered now."""
        outcomes: list[SlotOutcome] = []
        while self.reserved and self.reserved[0][0] == self.tail:
            base, count = self.reserved.popleft()
            self.tail = base + count
            outcomes.append(PublicationOrdered(base, count))
        if self.is_free_next and not self.windows:
            self.is_free_next, self.mode = False, "free"
            outcomes.append(FreeBegun(self.number))
        return outcomes

    # Lanes

    def _fail(self, entry: FailLane) -> list[SlotOutcome]:
        if not self._lanes.is_open(entry.lane):
            return [VoidEntry(entry, "the lane is closed")]
        self.attempt += 1
        return [self._close(entry.lane), SpeculationFailed(entry.lane, self.tail - 1, self.attempt)]

    def _take(self, entry: TakeLane) -> list[SlotOutcome]:
        if not self._lanes.is_open(entry.lane):
            return [VoidEntry(entry, "the lane is closed")]
        if self._lanes.ordered_length(entry.lane) != entry.length:
            return [VoidEntry(entry, "not what the lane has written")]
        return [self._close(entry.lane)]

    def _close(self, lane: LaneId) -> LaneEnded:
        """It ends with the last window that lists it: until there its slots are its own, and empty."""
        last = self._lanes.ordered_end(lane)
        closed = self._lanes.close(lane)
        ended = LaneEnded(lane, closed.length, last, closed.end)
        if ended.end > self.tail:
            self.ended[lane] = ended
        return ended

    def open_lanes(self) -> dict[LaneId, int]:
        """The lanes that may grow, and how much of each is ordered."""
        return {
            lane_of(key): length
            for key, length in zip(self._lanes.keys.tolist(), self._lanes.lengths.tolist(), strict=True)
        }

    # Snapshots

    @property
    def size_bytes(self) -> int:
        """A bound on the bytes of it in a snapshot."""
        return (
            packed.HEAD_BYTES
            + sum(packed.WINDOW_BYTES + packed.layout_bytes(window.layout) for window in self.windows)
            + sum(packed.SPAN_BYTES + packed.layout_bytes(span.rounds) for span in self.kept.spans)
            + packed.RESERVED_BYTES * len(self.reserved)
            + packed.END_BYTES * len(self._lanes.own_to)
            + packed.ENDED_BYTES * len(self.ended)
        )

    def packed(self) -> PackedSlots:
        return PackedSlots(
            self.mode,
            self.number,
            self.attempt,
            self.tail,
            self.end,
            self.cut,
            self.is_free_next,
            list(map(PackedWindow.of, self.windows)),
            list(self.reserved),
            [(span.base, span.end, PackedLayout.of(span.rounds)) for span in self.kept.spans],
            sorted(self._lanes.own_to.items()),
            [ended for _, ended in sorted(self.ended.items())],
        )

    @classmethod
    def restored(cls, slots: PackedSlots, lanes: LaneTable) -> "SlotOrder":
        order = cls(lanes)
        order.mode, order.number, order.attempt = slots.mode, slots.number, slots.attempt
        order.tail, order.end, order.cut = slots.tail, slots.end, slots.cut
        order.is_free_next = slots.is_free_next
        order.windows = deque(window.unpacked() for window in slots.windows)
        order.reserved = deque(slots.reserved)
        order.kept = KeptWindows([Span(base, end, layout.unpacked()) for base, end, layout in slots.kept])
        lanes.own_to = dict(slots.ends)
        order.ended = {ended.lane: ended for ended in slots.ended}
        return order
