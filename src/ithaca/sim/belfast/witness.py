"""What must hold of single calls: scalog's rules, for an order in which positions may be empty; and those of slots.

* `slots`: whatever is ordered is ordered in slots of its lane, and a shard has one lane at a time.
* `places`: it is ordered where its primary has placed it, and no slot is used twice, whoever took the lane over.
* `passed-over`: no cut is passed in which a lane that goes on has placed something that is not ordered with it.
* `kept-places`: a lane that is closed without a failure has ordered all that its primary had delivered of it.
* `promises`: whoever has promised acknowledges and delivers nothing more of that lane, in whatever start.
* `promises-kept`: what a replica says that it has promised is on its disk.
* `places-told`: what a replica tells a takeover of its copy has the place of every record that is not ordered.
* `delivered-durable`: what speculators are sent is synced on so many disks that its shard does not lose it.
* `idle-silent`: once nobody appends any more nothing is said or ordered (`silence`).
"""

from collections.abc import Callable

from ithaca.engines.belfast.replica.core import AnyEffect, SlotCore
from ithaca.engines.belfast.replica.events import SendAck, SendCopied, SendLaneReport, SendPromise, Speculate
from ithaca.engines.belfast.server.replica.promises import NAME
from ithaca.engines.belfast.server.replica.speculators import LaneSpeculators
from ithaca.engines.belfast.speculation.entries import BelfastEntry, CutRange, FailLane, SlotEntry
from ithaca.engines.belfast.speculation.outcomes import SlotsOrdered
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.scalog.ordering.outcomes import LaneClosed, OrderedCut, Outcome
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.replica.events import SendReport, Write
from ithaca.model.cut import lane_of
from ithaca.model.positions import LaneId
from ithaca.runtime import machine
from ithaca.sim.belfast.silence import Silence
from ithaca.sim.host import Host
from ithaca.sim.process import SimMachine
from ithaca.sim.rules.witness import Sight
from ithaca.sim.scalog.invariants import Invariants
from ithaca.sim.scalog.order_clock import TimeRules
from ithaca.sim.scalog.witness import ScalogWitness
from ithaca.sim.world import World
from ithaca.storage import checked_file
from ithaca.wire.batch import Batch


class BelfastWitness(ScalogWitness):
    """Looks at entries of slots too, and at what primaries place and deliver."""

    def __init__(self, world: World, invariants: Invariants, times: TimeRules) -> None:
        super().__init__(world, invariants, times)
        self.silence = Silence(world)
        self._placed: dict[LaneId, dict[int, tuple[int, int]]] = {}
        """Position and records of each batch that a primary has placed, by its LSN."""
        self._slots: dict[int, tuple[LaneId, int]] = {}
        """Lane and LSN of the first record of each batch, by its position."""
        self._delivered: dict[LaneId, int] = {}
        """How much of each lane was delivered to anybody."""
        self._durable: dict[LaneId, int] = {}
        """How much of each lane its primary knows to be durable in the shard."""
        self._promised: set[tuple[int, int, int, LaneId]] = set()
        """Replicas, by their disks, that have said that they promised."""

    def sights(self) -> list[Sight]:
        others = [sight for sight in super().sights() if sight[:2] != (OrderingState, "apply")]
        return [
            *others,
            (BelfastState, "apply", self.slot_entries),
            (SlotCore, "step_any", self.replica_steps),
            (LaneSpeculators, "_due", self.deliveries),
            *self.silence.sights(),
        ]

    def replica_steps(self, original: Callable[..., list[AnyEffect]], core: SlotCore, event: object) -> list[AnyEffect]:
        """What a primary places and delivers, and what a replica acknowledges."""
        effects = original(core, event)
        if core.placing_lane is not None:
            self._durable[core.placing_lane] = core.watermark[1]
        for effect in effects:
            match effect:
                case Write(lane=lane, batch=batch, position=position) if position and lane == core.own_lane:
                    self._places(lane, batch, position)
                case Speculate(lane=lane, durable=durable):
                    self._may_speak(core, lane, "delivers")
                    self._delivered[lane] = max(self._delivered.get(lane, 0), durable)
                case SendAck(lane=lane):
                    self._may_speak(core, lane, "acknowledges")
                case SendLaneReport(report=report, synced=synced):
                    self._may_speak(core, report.lane, "reports")
                    for lane, _ in synced.lengths if synced is not None else ():
                        self._may_speak(core, lane, "reports")
                case SendReport(report=report):
                    for lane, _ in report.lengths:
                        self._may_speak(core, lane, "reports")
                case SendCopied(lane=lane, ack=ack, placed=placed):
                    self._tells_places(lane, core.ordered_length(lane) or 0, ack.length, placed)
                case SendPromise(lane=lane):
                    self._has_stored(core, lane)
                    self._promised.add((core._shard, core._replica, core.disk, lane))
                case _:
                    pass
        return effects

    def deliveries(
        self, original: Callable[..., list[tuple[Batch, int]]], speculators: LaneSpeculators, sent: int, durable: int
    ) -> list[tuple[Batch, int]]:
        """What speculators are sent now."""
        due = original(speculators, sent, durable)
        known = self._durable.get(speculators.lane, 0)
        for batch, position in due:
            if batch.end_lsn > known:
                said = f"records {batch.base_lsn} to {batch.end_lsn} of {speculators.lane} are delivered at {position}"
                self.accuse("delivered-durable", f"{said}, and {known} are durable")
        return due

    def _places(self, lane: LaneId, batch: Batch, position: int) -> None:
        known = self._slots.setdefault(position, (lane, batch.base_lsn))
        if known != (lane, batch.base_lsn):
            self.accuse("places", f"record {batch.base_lsn} of {lane} is placed at {position}, where {known} is")
        self._placed.setdefault(lane, {})[batch.base_lsn] = position, batch.count

    def _tells_places(self, lane: LaneId, ordered: int, length: int, told: tuple[PlacedRun, ...]) -> None:
        for lsn, (position, _) in self._placed.get(lane, {}).items():
            is_told = any(each.lsn <= lsn < each.stop and each.position + lsn - each.lsn == position for each in told)
            if ordered <= lsn < length and not is_told:
                self.accuse("places-told", f"a copy of {lane} is told of, and not that record {lsn} is at {position}")

    def _has_stored(self, core: SlotCore, lane: LaneId) -> None:
        running = machine.current()
        host = self._world.hosts.get(running.process_name) if isinstance(running, SimMachine) else None
        if host is not None and lane not in _promises_on(host):
            said = f"replica {core._shard}/{core._replica} says that it has promised to say nothing more of {lane}"
            self.accuse("promises-kept", f"{said}, and its disk does not")

    def _may_speak(self, core: SlotCore, lane: LaneId, what: str) -> None:
        if (core._shard, core._replica, core.disk, lane) in self._promised:
            self.accuse("promises", f"replica {core._shard}/{core._replica} {what} of {lane}, and has promised not to")

    def slot_entries(
        self, original: Callable[..., list[Outcome]], state: BelfastState, index: int, entry: BelfastEntry
    ) -> list[Outcome]:
        """Whatever is ordered is ordered in a slot of its lane, each once, and a shard has one lane."""
        if isinstance(entry, SlotEntry):
            self.silence.broken(type(entry).__name__)
        if isinstance(entry, CutRange):
            self._may_be_forgotten(state, entry.forget)
        attempt, tail, owners = state.slots.attempt, state.slots.tail, state.slots.kept
        outcomes = self.entries(original, state, index, entry)  # type: ignore[arg-type]
        if state.slots.attempt < attempt or state.slots.tail < tail:
            self.accuse("slots", f"entry {index} takes the order back from {tail} in attempt {attempt}")
        is_slots = any(isinstance(outcome, SlotsOrdered) for outcome in outcomes)
        for outcome in outcomes:
            if isinstance(outcome, OrderedCut) and is_slots:
                for key, lsn, position, count, _ in outcome.columns():
                    lane = lane_of(key)
                    if not lane.is_part:
                        self._are_its_slots(owners.owner, lane, position, count)
                        self._is_where_placed(lane, lsn, position, count)
        self._keeps_places(outcomes, entry)
        if is_slots:
            self._passes_over_nothing(state)
        for shard in state.shards.by_number.values():
            if len(shard.open_lanes()) > 1:
                self.accuse("slots", f"shard {shard.shard} has the open lanes {shard.open_lanes()}")
        return outcomes

    def _passes_over_nothing(self, state: BelfastState) -> None:
        """Of a lane that is being taken over somebody may have placed what no copy has: its slots stay empty."""
        ending = {lane for *_, lane in self._promised}
        for lane, placed in self._placed.items():
            ordered = state.lanes.ordered_length(lane)
            if ordered not in placed or lane in ending or not state.lanes.is_open(lane):
                continue
            position, _ = placed[ordered]
            if position < state.slots.tail:
                said = f"record {ordered} of {lane}, placed at {position}, is not ordered"
                self.accuse("passed-over", f"{said}, and the order has come to {state.slots.tail}")

    def _keeps_places(self, outcomes: list[Outcome], entry: BelfastEntry) -> None:
        if isinstance(entry, FailLane):
            return
        for outcome in outcomes:
            if isinstance(outcome, LaneClosed) and not outcome.lane.is_part:
                delivered = self._delivered.get(outcome.lane, 0)
                if outcome.length < delivered:
                    said = f"{outcome.lane} is closed at {outcome.length} by {type(entry).__name__}"
                    self.accuse("kept-places", f"{said}, and {delivered} of it were delivered")

    def _is_where_placed(self, lane: LaneId, lsn: int, position: int, count: int) -> None:
        placed = self._placed.get(lane, {})
        at = lsn
        while at < lsn + count and at in placed:
            where, records = placed[at]
            if where != position + at - lsn:
                self.accuse(
                    "places", f"record {at} of {lane} is ordered at {position + at - lsn}, and was placed at {where}"
                )
            at += records
        if at != lsn + count:
            self.accuse("places", f"records {lsn} to {lsn + count} of {lane} are ordered, and nobody placed {at}")

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


def _promises_on(host: Host) -> tuple[LaneId, ...]:
    """What the file says, read without the help of who has written it."""
    path = f"{host.directory}/{NAME}"
    found: dict[str, tuple[LaneId, ...]] = {}
    if host.disk.exists(path):
        found = checked_file.load_value(host.disk, path, dict[str, tuple[LaneId, ...]])
    return found.get("lanes", ())
