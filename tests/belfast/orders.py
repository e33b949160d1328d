"""Short ways to say what goes into an order of slots."""

from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, OpenWindow, SlotEntry
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import SlotOutcome, VoidEntry
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.model.positions import LaneId

FIRST, SECOND, THIRD = LaneId(0, 0, 1), LaneId(1, 0, 1), LaneId(2, 0, 1)


class Orders:
    """An order over its table of lanes."""

    def __init__(self, *lanes: LaneId) -> None:
        self.lanes = LaneTable()
        for lane in lanes:
            self.lanes.open(lane, 0)
        self.order = SlotOrder(self.lanes)

    def apply(self, entry: SlotEntry) -> list[SlotOutcome]:
        return self.order.apply(entry)

    def begin(self, *lanes: LaneId, rounds: int = 2, q: int = 2, groups: int = 1) -> list[SlotOutcome]:
        """End the free window, and open the first one with slots."""
        self.apply(EndFree(self.order.number, self.order.attempt))
        lengths = tuple((lane, self.length(lane)) for lane in sorted(lanes))
        entry = OpenWindow(self.order.number + 1, 0, rounds, groups, (q,), lanes, self.order.attempt, lengths)
        return self.apply(entry)

    def next_window(self, *lanes: LaneId, rounds: int = 2, q: int = 2) -> OpenWindow:
        """The one that is due; without lanes a free one."""
        order, number = self.order, self.order.number + 1
        if not lanes:
            return OpenWindow(number, order.end, 0, 1, (), (), order.attempt)
        return OpenWindow(number, order.end, rounds, 1, (q,), lanes, order.attempt)

    def cuts(self, stop: int, *used: tuple[int, dict[LaneId, int]]) -> CutRange:
        """The next cuts up to this one."""
        listed = tuple((cut, tuple(sorted(lanes.items()))) for cut, lanes in used)
        return CutRange(self.order.attempt, self.order.cut, stop, listed)

    def length(self, lane: LaneId) -> int:
        length = self.lanes.ordered_length(lane)
        assert length is not None
        return length


def is_void(outcomes: list[SlotOutcome]) -> bool:
    return any(isinstance(outcome, VoidEntry) for outcome in outcomes)
