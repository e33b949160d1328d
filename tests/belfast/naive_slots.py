"""The order of slots, one position at a time: an oracle that shares no code with the arithmetic that it checks.

Every slot of every window is an element of one list, in the order of positions: whose it is, and in which cut.
"""

from dataclasses import dataclass, field

from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, FailLane, OpenWindow, SlotEntry, TakeLane
from ithaca.model.positions import LaneId


@dataclass
class Stretch:
    """What stands behind what was ordered before: cuts of slots, or a publication."""

    slots: list[tuple[LaneId, int]] = field(default_factory=list)
    """Of each slot in turn its lane and its cut."""
    parts: list[tuple[LaneId, int]] = field(default_factory=list)
    """Of each record in turn its part and its LSN."""


class NaiveSlots:
    def __init__(self) -> None:
        self.mode = "free"
        self.number, self.attempt, self.cut, self.cuts = 0, 1, 0, 0
        self.open: dict[LaneId, int] = {}
        self.log: dict[int, tuple[LaneId, int]] = {}
        self.tail = 1
        self.ahead: list[Stretch] = []
        self.windows_ahead: list[int] = []
        """The last cut of each window that is not ordered."""
        self.is_free_next = False

    @property
    def end(self) -> int:
        return self.tail + sum(len(stretch.slots) + len(stretch.parts) for stretch in self.ahead)

    def plain_cut(self, lengths: dict[LaneId, int]) -> bool:
        if self.mode == "fixed":
            return False
        for lane in sorted(lengths):
            while lane in self.open and self.open[lane] < lengths[lane]:
                self._put(lane, self.open[lane])
                self.open[lane] += 1
        return True

    def publish(self, parts: list[tuple[LaneId, int]]) -> None:
        self.ahead.append(Stretch(parts=[(lane, lsn) for lane, length in parts for lsn in range(length)]))
        self._go_on()

    def apply(self, entry: SlotEntry) -> bool:
        """Whether it took effect."""
        match entry:
            case EndFree():
                if self.mode != "free" or (entry.number, entry.attempt) != (self.number, self.attempt):
                    return False
                self.mode = "ending"
            case OpenWindow():
                return self._window(entry)
            case CutRange():
                return self._cuts(entry)
            case FailLane(lane=lane):
                if self.open.pop(lane, None) is None:
                    return False
                self.attempt += 1
            case TakeLane(lane=lane, length=length):
                if self.open.get(lane) != length:
                    return False
                del self.open[lane]
        return True

    def _window(self, entry: OpenWindow) -> bool:
        if self.mode == "free" or self.is_free_next or (entry.number, entry.attempt) != (self.number + 1, self.attempt):
            return False
        if self.mode == "ending" and (entry.base or dict(entry.lengths) != self.open):
            return False
        if self.mode == "fixed" and entry.base != self.end:
            return False
        if any(lane not in self.open for lane in entry.lanes) or len(self.windows_ahead) >= 4:
            return False
        self.number, self.mode, self.is_free_next = entry.number, "fixed", entry.is_free
        stretch = Stretch()
        for _ in range(entry.rounds):
            for group in range(entry.groups):
                for place, lane in enumerate(entry.lanes):
                    if place % entry.groups == group:
                        q = entry.q[place] if len(entry.q) > 1 else entry.q[0]
                        stretch.slots += [(lane, self.cuts)] * q
                self.cuts += 1
        if entry.rounds:
            self.ahead.append(stretch)
            self.windows_ahead.append(self.cuts)
        self._go_on()
        return True

    def _cuts(self, entry: CutRange) -> bool:
        if self.mode != "fixed" or entry.attempt != self.attempt:
            return False
        if entry.start != self.cut or not self.cut < entry.stop <= self.cuts:
            return False
        lengths = dict(self.open)
        used = {cut: dict(lanes) for cut, lanes in entry.used}
        for cut, lanes in used.items():
            for lane, length in lanes.items():
                slots = sum(stretch.slots.count((lane, cut)) for stretch in self.ahead)
                if lane not in lengths or not lengths[lane] < length <= lengths[lane] + slots:
                    return False
                lengths[lane] = length
        for self.cut in range(entry.start, entry.stop):
            self._go_on()
            stretch = self.ahead[0]
            while stretch.slots and stretch.slots[0][1] == self.cut:
                lane, _ = stretch.slots.pop(0)
                if self.open.get(lane, 0) < used.get(self.cut, {}).get(lane, 0):
                    self._put(lane, self.open[lane])
                    self.open[lane] += 1
                else:
                    self.tail += 1
        self.cut = entry.stop
        self._go_on()
        return True

    def _go_on(self) -> None:
        """Publications that have nothing before them are ordered; so is the end of all windows."""
        while self.ahead and not self.ahead[0].slots:
            for lane, lsn in self.ahead.pop(0).parts:
                self._put(lane, lsn)
        self.windows_ahead = [cut for cut in self.windows_ahead if cut > self.cut]
        if self.is_free_next and not self.ahead:
            self.is_free_next, self.mode = False, "free"

    def _put(self, lane: LaneId, lsn: int) -> None:
        self.log[self.tail] = (lane, lsn)
        self.tail += 1
