"""What must hold of single calls: scalog's rules, for an order in which positions may be empty."""

from collections.abc import Callable

from ithaca.engines.belfast.speculation.entries import BelfastEntry, CutRange
from ithaca.engines.belfast.speculation.outcomes import SlotsOrdered
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.cut import lane_of
from ithaca.model.positions import LaneId
from ithaca.sim.rules.witness import Sight
from ithaca.sim.scalog.witness import ScalogWitness


class BelfastWitness(ScalogWitness):
    """Looks at entries of slots too."""

    def sights(self) -> list[Sight]:
        others = [sight for sight in super().sights() if sight[:2] != (OrderingState, "apply")]
        return [*others, (BelfastState, "apply", self.slot_entries)]

    def slot_entries(
        self, original: Callable[..., list[Outcome]], state: BelfastState, index: int, entry: BelfastEntry
    ) -> list[Outcome]:
        """Whatever is ordered is ordered in a slot of its lane, each once, and a shard has one lane."""
        if isinstance(entry, CutRange):
            self._may_be_forgotten(state, entry.forget)
        attempt, tail, owners = state.slots.attempt, state.slots.tail, state.slots.kept
        outcomes = self.entries(original, state, index, entry)  # type: ignore[arg-type]
        if state.slots.attempt < attempt or state.slots.tail < tail:
            self.accuse("slots", f"entry {index} takes the order back from {tail} in attempt {attempt}")
        is_slots = any(isinstance(outcome, SlotsOrdered) for outcome in outcomes)
        for outcome in outcomes:
            if isinstance(outcome, OrderedCut) and is_slots:
                for key, _, position, count, _ in outcome.columns():
                    lane = lane_of(key)
                    if not lane.is_part:
                        self._are_its_slots(owners.owner, lane, position, count)
        for shard in state.shards.by_number.values():
            if len(shard.open_lanes()) > 1:
                self.accuse("slots", f"shard {shard.shard} has the open lanes {shard.open_lanes()}")
        return outcomes

    def _are_its_slots(self, owner: Callable[[int], LaneId | None], lane: LaneId, position: int, count: int) -> None:
        for place in (position, position + count - 1):
            if owner(place) not in (lane, None):  # None: it was trimmed meanwhile
                self.accuse("slots", f"a record of lane {lane} is ordered at {place}, a slot of {owner(place)}")

    def _note_times(self, state: OrderingState, outcomes: list[Outcome]) -> None:
        self._world.ordered.first = max(self._world.ordered.first, state.first)
        for outcome in outcomes:
            if isinstance(outcome, OrderedCut):
                start = int(outcome.positions.min()) if len(outcome.keys) else outcome.tail
                problem = self._world.ordered.add(outcome.tail, outcome.time_us, state.first, start)
                if problem is not None:
                    self.accuse("order-time", problem)
