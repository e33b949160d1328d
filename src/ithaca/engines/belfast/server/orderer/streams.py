"""The replicas' news, and what the primaries of lanes are told of slots: all of it again whenever it has changed."""

from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ithaca.engines.belfast.leading.lane_slots import LaneSlots, is_news, lane_slots
from ithaca.engines.belfast.limits import FAILURES_TOLD_MAX
from ithaca.engines.belfast.messages import AskPromise, CopyLane, PassTo, SlotOrderIs, SlotsAre
from ithaca.engines.belfast.speculation.outcomes import SlotsOrdered, SpeculationFailed
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.outcomes import EngineOutcome, LaneOpened, OrderedCut, Outcome, ViewChanged
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.errors import Overloaded
from ithaca.model.positions import LaneId
from ithaca.runtime.connection import Connection


class SlotStreams(NewsStreams):
    """The replicas that have joined here."""

    def __init__(self, state: Callable[[], BelfastState]) -> None:
        super().__init__()
        self._state = state
        self._has_changed = False
        """Whether more was ordered than cuts, which say nothing new of slots to come."""
        self._has_moved = False
        self._told: WeakKeyDictionary[Connection, LaneSlots] = WeakKeyDictionary()
        """What the primary was told last over each connection."""
        self._speculators: dict[Connection, SlotOrderIs | None] = {}
        """Clients that follow the order of slots, and what each was told last."""
        self._failures: deque[tuple[LaneId, int, int]] = deque(maxlen=FAILURES_TOLD_MAX)

    def take(self, outcomes: list[Outcome]) -> None:
        super().take(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, SlotsOrdered | OrderedCut):
                self._has_moved = True
            elif isinstance(outcome, EngineOutcome | LaneOpened | ViewChanged):
                self._has_changed = self._has_moved = True
            if isinstance(outcome, SpeculationFailed):
                self._failures.append((outcome.lane, outcome.after, outcome.attempt))

    def flush(self) -> None:
        super().flush()
        if self._has_changed:
            self._has_changed = False
            for lane in self._state().slots.open_lanes():
                self.tell(lane)
        if self._has_moved:
            self._has_moved = False
            if self._speculators:
                self._tell_speculators()

    def tell(self, lane: LaneId) -> None:
        """Have the primary of a lane know its slots as they are now, if it has joined."""
        connection = self.connection(lane.shard, lane.replica)
        slots = None if connection is None else lane_slots(self._state(), lane)
        if connection is None or slots is None:
            return
        told = self._told.get(connection)
        if told is None or is_news(slots, told):
            self._told[connection] = slots
            connection.send(SlotsAre(slots))

    def ask_to_pass(self, lane: LaneId, cut: int) -> None:
        connection = self.connection(lane.shard, lane.replica)
        if connection is not None:
            connection.send(PassTo(lane, cut))

    def ask_promise(self, replica: int, lane: LaneId) -> None:
        connection = self.connection(lane.shard, replica)
        if connection is not None:
            connection.send(AskPromise(lane))

    def have_copied(self, lane: LaneId, source: int, target: int, length: int) -> None:
        connection = self.connection(lane.shard, target)
        if connection is not None:
            connection.send(CopyLane(lane, source, length))

    # Speculators

    @property
    def speculators(self) -> int:
        """How many clients follow the order of slots."""
        return len(self._speculators)

    def follow(self, connection: Connection) -> None:
        """Tell a client how the order of slots is, from now on until its connection ends."""
        self._speculators[connection] = None
        self._tell_speculators()

    def leave(self, connection: Connection) -> list[tuple[int, int]]:
        self._speculators.pop(connection, None)
        return super().leave(connection)

    def close(self) -> None:
        super().close()
        for connection in list(self._speculators):
            connection.close()
        self._speculators.clear()

    def _tell_speculators(self) -> None:
        state = self._state()
        slots = state.slots
        told = SlotOrderIs(
            slots.tail,
            slots.attempt,
            tuple(slots.windows),
            tuple(ended for _, ended in sorted(slots.ended.items())),
            tuple(self._failures),
            state.shards.version,
        )
        for connection, before in list(self._speculators.items()):
            if not connection.is_writable:  # it comes again, and is told all of it then
                del self._speculators[connection]
                connection.abort(Overloaded(f"{connection.name} does not take what it is told of slots"))
            elif before != told:
                self._speculators[connection] = told
                connection.send(told)
