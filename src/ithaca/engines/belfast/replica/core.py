"""The replica: scalog's core, with a `Placement` between what the own lane accepts and what is written of it."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from ithaca.engines.belfast.leading.lane_slots import LaneSlots, placement_of, tell
from ithaca.engines.belfast.limits import CUT_NOMINAL_S
from ithaca.engines.belfast.replica.events import (
    CopyAsked,
    PassAsked,
    PeerSynced,
    SendAck,
    SendCopied,
    SendLaneReport,
    SendPromise,
    SlotEffect,
    SlotEvent,
    SlotsTold,
    Speculate,
    SpeculatorsAre,
    TurnEnded,
)
from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.engines.belfast.speculation.places import PlacedRun, Places
from ithaca.engines.belfast.speculation.placing_events import (
    Acked,
    AskedToPass,
    GroupHanded,
    Offered,
    Ordered,
    Place,
    PlacingEffect,
    PlacingEvent,
    ReportDue,
    Speculators,
    Ticked,
    Watermark,
)
from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.belfast.speculation.takeover import AnswerPromise, PromiseAsked, Promises, PromiseSynced
from ithaca.engines.scalog.ordering.outcomes import LaneOpened
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Appended,
    Effect,
    Event,
    Fetch,
    Held,
    OrderJoined,
    Refuse,
    SendReport,
    StartedAgain,
    Synced,
    Tick,
    Write,
)
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.cut import ShardCut
from ithaca.model.errors import Overloaded
from ithaca.model.positions import LaneId
from ithaca.wire.batch import Batch

_INTERVAL_US = int(CUT_NOMINAL_S * 1e6)

AnyEffect = Effect | SlotEffect


class SlotCore(ReplicaCore):
    """A replica, in one boot after the other: each has a lane at most."""

    asks_for_lanes = False  # the leader opens them

    def __init__(
        self,
        shard: int,
        replica: int,
        boot: int,
        disk: int,
        held: Mapping[LaneId, Held],
        *,
        settled: SettledCopies | None = None,
        now_us: int = 0,
        promised: Iterable[LaneId] = (),
        placed: Mapping[LaneId, Iterable[PlacedRun]] | None = None,
    ) -> None:
        """`disk`: the number of the first start of its directory; `promised` and `placed`: what is there of that."""
        super().__init__(shard, replica, boot, held, settled=settled, now_us=now_us)
        self._boot = boot
        self.disk = disk
        self._placement: Placement | None = None
        self._early: list[Batch] = []
        """What the own lane accepted before it was told its slots."""
        self._streams = 0
        self._is_turn_open = False
        """Whether something was placed in this turn of the shell, whose end is told."""
        self._held: SendReport | None = None
        """What was synced in this turn: said at its end, together with what is passed then."""
        self._promises = Promises(promised)
        self._settling.taken_from.update(dict.fromkeys(promised))
        self._places = {lane: Places(found) for lane, found in (placed or {}).items()}
        """Of open lanes, what may not be ordered."""
        self._completing: dict[LaneId, int] = {}
        """Copies that a takeover has completed, and up to where."""

    def step_any(self, event: Event | SlotEvent) -> list[AnyEffect]:
        """`step`, for events of slots too."""
        match event:
            case SlotsTold(slots=slots):
                return self._told(slots)
            case PassAsked(lane=lane, cut=cut):
                return self._place(AskedToPass(cut), lane)
            case PeerSynced(lane=lane, ack=ack):
                return self._place(Acked(lane, ack), lane)
            case TurnEnded():
                return self._end_turn()
            case PromiseAsked() | PromiseSynced():
                return self._promise(event)
            case CopyAsked():
                return self._complete(event)
            case SpeculatorsAre(streams=streams):
                self._streams = streams
                return self._place(Speculators(streams))
            case Appended(request=request, batch=batch) if self._is_full_for(batch):
                return [Refuse(request, self._too_much_waits())]
            case Synced(lane=lane) if lane in self._places:
                self._reporting.hurry()
                return self._hold(lane, self._after(event, self.step(event)))
            case Tick(now_us=now_us):
                return [*self._after(event, self.step(event)), *self._place(Ticked(now_us, _INTERVAL_US))]
            case OrderJoined():
                return [*self._after(event, self.step(event)), *self._tell_promises()]
            case _:
                return self._after(event, self.step(event))

    @property
    def deadline_us(self) -> int | None:
        due_us = super().deadline_us
        if self._placement is None or not self._placement.is_clocked:
            return due_us
        tick_us = self._now_us + _INTERVAL_US
        return tick_us if due_us is None else min(due_us, tick_us)

    def durable(self, lane: LaneId) -> int:
        """How much of a lane is synced here."""
        copy = self._lanes.get(lane)
        return 0 if copy is None else copy.durable

    def acknowledged(self, lane: LaneId) -> Ack | None:
        """What the primary of a lane may hear of its copy here; None if it is promised that it hears nothing more."""
        return self._ack(lane) if self._promises.may_acknowledge(lane) else None

    @property
    def promised(self) -> tuple[LaneId, ...]:
        """The lanes of which nothing is acknowledged any more."""
        return self._promises.lanes

    @property
    def placing_lane(self) -> LaneId | None:
        """The own lane, once it is told its slots and as long as it is open."""
        return None if self._placement is None else self._placement.lane

    @property
    def watermark(self) -> tuple[int, int]:
        """Below which position all slots of the own lane are passed, and how much of it is durable in the shard."""
        return (0, 0) if self._placement is None else (self._placement.watermark, self._placement.durable)

    # What scalog's core does

    def _after(self, event: Event, effects: list[Effect]) -> list[AnyEffect]:
        """Batches of the own lane are written when they are placed."""
        found: list[AnyEffect] = []
        for effect in map(self._unpromised, effects):
            if isinstance(effect, Write) and effect.lane == self.own_lane and self._is_data(effect):
                found += self._offer(effect.batch)
            else:
                found.append(effect)
                if isinstance(effect, Write) and effect.position:
                    self._note_place(effect)
        if isinstance(event, Synced) and not event.lane.is_part:
            found += self._synced_here(event.lane)
        if isinstance(event, ShardCut | OrderJoined) and self.own_lane is not None:
            found += self._place(Ordered(self.ordered_length(self.own_lane) or 0))
        return found

    def _unpromised(self, effect: Effect) -> Effect:
        """Nothing is said of lanes that are taken over: a report is an acknowledgement, too."""
        if not isinstance(effect, SendReport) or not self._promises.lanes:
            return effect
        report = effect.report
        lengths = tuple(each for each in report.lengths if self._promises.may_acknowledge(each[0]))
        return SendReport(replace(report, lengths=lengths))

    def _is_data(self, effect: Write) -> bool:
        """Whether it is of a lane that is open: what is filled in one that closed has its place."""
        copy = self._lanes.get(effect.lane)
        return copy is not None and copy.is_open

    def _synced_here(self, lane: LaneId) -> list[AnyEffect]:
        copy = self._lanes.get(lane)
        if copy is None or not copy.is_open:
            return []
        ack = self.acknowledged(lane)
        if ack is None:
            return self._completed(lane)
        return self._place(Acked(lane, ack), lane) if lane == self.own_lane else [SendAck(lane, ack)]

    def _ack(self, lane: LaneId) -> Ack:
        return Ack(self._replica, self.disk, self.durable(lane))

    def _lane_opened(self, event: LaneOpened) -> None:
        super()._lane_opened(event)
        is_mine = event.lane.replica == self._replica and event.boot == self._boot
        if is_mine and event.lane != self.own_lane and event.lane in self._lanes:
            self.own_lane = event.lane
            self._appends.open(self._lanes[event.lane])
            self._placement = None

    def _close(self, copy: LaneCopy) -> None:
        self._lane_ended(copy)
        super()._close(copy)

    def _drop(self, lane: LaneId) -> None:
        self._lane_ended(self._lanes[lane])  # it may be trimmed whole before anybody has told that it was closed
        super()._drop(lane)

    def _lane_ended(self, copy: LaneCopy) -> None:
        if copy.lane == self.own_lane and not copy.is_closed:
            self._end_placing(copy)
        self._promises.closed(copy.lane)
        self._settling.taken_from.pop(copy.lane, None)
        self._completing.pop(copy.lane, None)
        self._places.pop(copy.lane, None)

    def _start_again(self, event: StartedAgain) -> None:
        """The lane of the former boot takes nothing more, whether this replica has heard of its end or not."""
        former = None if self.own_lane is None else self._lanes.get(self.own_lane)
        if former is not None and not former.is_closed:
            self._end_placing(former)
        self._boot = event.boot
        super()._start_again(event)

    def _end_placing(self, copy: LaneCopy) -> None:
        """What waited for slots of the own lane was never a part of it."""
        waiting = sum(batch.count for batch in self._early)
        copy.received = copy.received - waiting if self._placement is None else self._placement.length
        self._placement = None
        self._early.clear()

    def _note_place(self, written: Write) -> None:
        places = self._places.setdefault(written.lane, Places())
        places.ordered(self.ordered_length(written.lane) or 0)
        places.add(written.batch.base_lsn, written.position, written.batch.count)

    # Takeover

    def _promise(self, event: PromiseAsked | PromiseSynced) -> list[AnyEffect]:
        copy = self._lanes.get(event.lane)
        if copy is None or not copy.is_open:
            return []  # the lane is closed, as whoever asks will learn
        found: list[AnyEffect] = []
        for effect in self._promises.step(event):
            found.append(
                SendPromise(effect.lane, self._ack(effect.lane)) if isinstance(effect, AnswerPromise) else effect
            )
        if event.lane not in self._settling.taken_from:
            self._settling.take_from(copy, None)
            found += self._taken_effects()
        return found

    def _tell_promises(self) -> list[AnyEffect]:
        """A leader that is new does not know that the lane is to be taken over."""
        told: list[AnyEffect] = []
        for lane in self._promises.lanes:
            told += self._promise(PromiseAsked(lane))
        return told

    def _complete(self, event: CopyAsked) -> list[AnyEffect]:
        copy = self._lanes.get(event.lane)
        source = None if self.shard_view is None else self.shard_view.find(event.source)
        if copy is None or not copy.is_open or source is None or self._promises.may_acknowledge(event.lane):
            return []
        self._completing[event.lane] = event.length
        if copy.durable < event.length:
            self._settling.take_from(copy, Fetch(event.lane, event.length, (source.address,)))
        return [*self._taken_effects(), *self._completed(event.lane)]

    def _completed(self, lane: LaneId) -> list[AnyEffect]:
        length = self._completing.get(lane)
        if length is None or self.durable(lane) < length:
            return []
        del self._completing[lane]
        places = self._places.setdefault(lane, Places())
        places.ordered(self.ordered_length(lane) or 0)
        return [SendCopied(lane, self._ack(lane), places.all())]

    def _taken_effects(self) -> list[AnyEffect]:
        effects: list[AnyEffect] = [*map(self._unpromised, self._effects)]
        self._effects.clear()
        return effects

    # Slots

    def _told(self, slots: LaneSlots) -> list[AnyEffect]:
        copy = self._lanes.get(slots.lane)
        if slots.lane != self.own_lane or copy is None or not copy.is_open or self._is_promised:
            return []
        found: list[AnyEffect] = []
        if self._placement is None:
            self._placement = placement_of(slots)
            self._placement.step(Ticked(self._now_us, _INTERVAL_US))
            self._placement.step(Speculators(self._streams))
        found += self._performed(tell(self._placement, slots), is_reported=False)
        early, self._early = self._early, []
        for batch in early:
            found += self._offer(batch)
        # A leader that is new knows nothing of the lane.
        return [*found, SendLaneReport(self._placement.report())]

    def _hold(self, lane: LaneId, effects: list[AnyEffect]) -> list[AnyEffect]:
        """Where the disk is quick, what is placed in a turn is synced in it: then both are said at once."""
        if not self._is_turn_open or lane != self.own_lane:
            return effects
        reports = [effect for effect in effects if isinstance(effect, SendReport)]
        self._held = reports[-1] if reports else self._held
        return [effect for effect in effects if not isinstance(effect, SendReport)]

    def _end_turn(self) -> list[AnyEffect]:
        self._is_turn_open = False
        held, self._held = self._held, None
        effects = self._place(GroupHanded())
        if held is None:
            return effects
        synced = self._unpromised(held)
        assert isinstance(synced, SendReport)
        for row, effect in enumerate(effects):
            if isinstance(effect, SendLaneReport):
                effects[row] = SendLaneReport(effect.report, synced.report)
                return effects
        return [*effects, synced]

    def _offer(self, batch: Batch) -> list[AnyEffect]:
        if self._placement is None or self._is_promised:
            self._early.append(batch)
            return []
        return self._place(Offered(batch, batch.count, batch.total_bytes))

    def _place(self, event: PlacingEvent, lane: LaneId | None = None) -> list[AnyEffect]:
        if self._placement is None or lane not in (None, self._placement.lane) or self._is_promised:
            return []
        return self._performed(self._placement.step(event))

    @property
    def _is_promised(self) -> bool:
        """Whether the own lane is taken over: nothing more of it is placed, reported or delivered."""
        return self.own_lane is not None and not self._promises.may_acknowledge(self.own_lane)

    def _performed(self, effects: list[PlacingEffect], *, is_reported: bool = True) -> list[AnyEffect]:
        assert self._placement is not None
        found: list[AnyEffect] = []
        for effect in effects:
            match effect:
                case Place(batch=batch, lsn=lsn, position=position):
                    assert isinstance(batch, Batch)
                    assert batch.base_lsn == lsn, f"the batch at {batch.base_lsn} is placed at {lsn}"
                    written = Write(self._placement.lane, batch, position)
                    found.append(written)
                    self._is_turn_open = True
                    if position:
                        self._note_place(written)
                case Watermark(position=position, durable=durable):
                    found.append(Speculate(self._placement.lane, position, durable))
                case ReportDue():
                    pass
                case _:
                    raise AssertionError(f"{effect}: what has no room is refused before")
        if is_reported and any(isinstance(effect, ReportDue) for effect in effects) and self._is_joined:
            found.append(SendLaneReport(self._placement.report()))
        return found

    def _is_full_for(self, batch: Batch) -> bool:
        return self._placement is not None and not self._placement.has_room_for(batch.total_bytes)

    def _too_much_waits(self) -> Overloaded:
        return Overloaded(
            f"too many batches of lane {self.own_lane} wait for slots: try again later, or append to another lane"
        )
