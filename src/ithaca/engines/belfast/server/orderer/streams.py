"""The replicas' news, and what the primaries of lanes are told of slots: all of it again whenever it has changed."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

from ithaca.engines.belfast.leading.lane_slots import LaneSlots, lane_slots
from ithaca.engines.belfast.messages import PassTo, SlotsAre
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.outcomes import EngineOutcome, LaneOpened, Outcome, ViewChanged
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import Connection


class SlotStreams(NewsStreams):
    """The replicas that have joined here."""

    def __init__(self, state: Callable[[], BelfastState]) -> None:
        super().__init__()
        self._state = state
        self._has_changed = False
        self._told: WeakKeyDictionary[Connection, LaneSlots] = WeakKeyDictionary()
        """What the primary was told last over each connection."""

    def take(self, outcomes: list[Outcome]) -> None:
        super().take(outcomes)
        if any(isinstance(outcome, EngineOutcome | LaneOpened | ViewChanged) for outcome in outcomes):
            self._has_changed = True

    def flush(self) -> None:
        super().flush()
        if self._has_changed:
            self._has_changed = False
            for lane in self._state().slots.open_lanes():
                self.tell(lane)

    def tell(self, lane: LaneId) -> None:
        """Have the primary of a lane know its slots as they are now, if it has joined."""
        connection = self.connection(lane.shard, lane.replica)
        slots = None if connection is None else lane_slots(self._state(), lane)
        if connection is not None and slots is not None and self._told.get(connection) != slots:
            self._told[connection] = slots
            connection.send(SlotsAre(slots))

    def ask_to_pass(self, lane: LaneId, cut: int) -> None:
        connection = self.connection(lane.shard, lane.replica)
        if connection is not None:
            connection.send(PassTo(lane, cut))
