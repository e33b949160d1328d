"""The leader's core: windows, real cuts, plain ones while the order is free, lanes, and changes of shards.

It is scalog's `CutProposer` with slots: what that knows of reports, of sealed parts and of kept cuts holds here too.
`decide` says all that is due; the shell calls it after everything that it tells, and at `decide_at_us`.
"""

from typing import NamedTuple

from msgspec.structs import replace

from ithaca.engines.belfast.leading.keeping import Here, LaneSupervisor, StartAgain
from ithaca.engines.belfast.leading.taking import Takeovers
from ithaca.engines.belfast.limits import ASK_AGAIN_S, PASS_AHEAD_PART, REFUSED_AGAIN_S, STRAGGLER_LATE_S, WINDOW_ROUNDS
from ithaca.engines.belfast.speculation.entries import (
    BelfastEntry,
    CutRange,
    EndFree,
    FailLane,
    NoteDisk,
    OpenWindow,
    TakeLane,
)
from ithaca.engines.belfast.speculation.mode import ModeChoice
from ithaca.engines.belfast.speculation.outcomes import (
    LaneEnded,
    PublicationOrdered,
    SlotsOrdered,
    SpeculationFailed,
    VoidEntry,
)
from ithaca.engines.belfast.speculation.planning import Planner
from ithaca.engines.belfast.speculation.progress import AskPass, Progress
from ithaca.engines.belfast.speculation.reports import Ack, LaneReport
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.belfast.speculation.takeover import AskPromise, CloseTaken, CopyLane
from ithaca.engines.scalog.ordering.entries import CloseLane, Cut, OpenLane
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, Outcome, RefusedEntry
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.ordering.retention import Retention
from ithaca.model.config.slots import USUAL_SLOTS, SlotSettings
from ithaca.model.positions import LaneId

_ASK_AGAIN_US = int(ASK_AGAIN_S * 1e6)
_REFUSED_AGAIN_US = int(REFUSED_AGAIN_S * 1e6)
_LATE_US = int(STRAGGLER_LATE_S * 1e6)
_WINDOWS_WITH_ROOM = 8
"""How many a state that was full must have room for before there are slots again."""


class LeaderSettings(NamedTuple):
    """What an operator chooses."""

    slots: SlotSettings = USUAL_SLOTS
    rounds: int = WINDOW_ROUNDS
    detection_us: int = 3_000_000


class Propose(NamedTuple):
    """Hand it to Raft: answered by `SlotLeader.done`, or by `SlotLeader.lost`."""

    entry: BelfastEntry


LeaderEffect = Propose | AskPass | StartAgain | AskPromise | CopyLane


class SlotLeader(CutProposer):
    """One term of one leader. `now_us` is a monotonic clock, `time_us` the wall clock."""

    def __init__(self, state: BelfastState, settings: LeaderSettings) -> None:
        super().__init__(state)
        self._belfast = state
        # The slots of a cut that is passed are gone: where there are few, no more are passed than somebody waits for.
        ahead = settings.rounds // PASS_AHEAD_PART if settings.slots.quotas == "wide" else 0
        self._progress = Progress(state.slots, state.lanes, state.shards.by_number, state.disks, ahead_max=ahead)
        self._planner = Planner(state.slots, self._progress, quotas=settings.slots.quotas, rounds=settings.rounds)
        self._mode = ModeChoice(settings.slots.mode)
        self.speculators = 0
        """Clients that follow the order of slots here."""
        self._late_us: int | None = None
        """Since when the next cut waits for some lane."""
        self.takeovers = Takeovers(state, self._progress)
        self.supervisor = LaneSupervisor(state, self.takeovers, settings.detection_us)
        self._ranges = 0
        """Ranges of cuts that are in flight."""
        self._range_us: int | None = None
        """When the last one was proposed."""
        self._now_us = 0
        self._ask_again_us: int | None = None
        self.changes = 0
        """Changes of shards that wait until the order is free."""
        self._refused_window: OpenWindow | None = None
        """The one that the state had no room for: the order is free until there is room for some."""

    # What is told

    def came(self, shard: int, replica: int, here: Here) -> None:
        """A replica has joined; what its lane was asked before may be lost."""
        self.supervisor.came(shard, replica, here)
        self._ask_again_us = 0

    def receive(self, report: Report) -> bool:
        accepted = super().receive(report)
        here = self.supervisor.here(report.shard).get(report.replica)
        if accepted and here is not None and here.boot == report.boot:
            for lane, length in report.lengths:
                if not lane.is_part:
                    self._progress.acknowledged(lane, Ack(report.replica, here.disk, length))
        return accepted

    def lane_reported(self, report: LaneReport) -> bool:
        """Take in what a lane's primary says; False for what is stale, or from nowhere."""
        return self._progress.receive(report)

    @property
    def is_free(self) -> bool:
        """Whether what closes lanes can be ordered."""
        return self._belfast.slots.mode != "fixed"

    def applied(self, outcomes: list[Outcome], *, own: bool) -> None:
        is_range = any(isinstance(outcome, SlotsOrdered | PublicationOrdered) for outcome in outcomes)
        super().applied(outcomes, own=own and not is_range)
        for outcome in outcomes:
            match outcome:
                case LaneEnded() | SpeculationFailed():
                    # Windows and cuts that are in flight may be void from here on.
                    self._planner.applied()
                    self._progress.refused()
                case _:
                    pass
        if not all(isinstance(outcome, OrderedCut | SlotsOrdered) for outcome in outcomes):
            self.supervisor.changed()
        self._progress.applied()
        self.takeovers.moved()

    def done(self, entry: BelfastEntry, outcomes: list[Outcome]) -> None:
        """What was proposed is applied; it may have been void, or refused."""
        first = outcomes[0] if outcomes else None
        if isinstance(entry, OpenWindow) and isinstance(first, VoidEntry) and first.reason == "the state is full":
            self._refused_window = entry
        self._settle(entry, is_void=isinstance(first, VoidEntry | RefusedEntry))

    def lost(self, entry: BelfastEntry) -> None:
        """Raft did not take it, or it is not known whether it did."""
        self._settle(entry, is_void=True)

    def _settle(self, entry: BelfastEntry, *, is_void: bool) -> None:
        match entry:
            case CutRange():
                self._ranges -= 1
                if is_void:
                    self._progress.refused()
                    self._retention = Retention(self._state.kept, self._state.shards.by_number)
                    for shard in self._reports.shards():
                        self._retention.synced(shard, self._reports.runs_cut(shard))
            case OpenWindow() | EndFree():
                self._planner.applied()
            case TakeLane(lane=lane):
                self.takeovers.settled(lane)
            case NoteDisk() | OpenLane() | FailLane() | CloseLane():
                self.supervisor.settled(entry, self._now_us + _REFUSED_AGAIN_US if is_void else None)
            case Cut() if is_void:
                self.refused()
            case _:
                pass

    # What is due

    def decide(self, now_us: int, time_us: int) -> list[LeaderEffect]:
        """All that is due now."""
        self._now_us = max(self._now_us, now_us)
        self._take_in()
        kept = self.supervisor.look(now_us)
        effects: list[LeaderEffect] = [each if isinstance(each, StartAgain) else Propose(each) for each in kept]
        effects += self._taking(time_us)
        cut = self.propose(now_us, time_us) if self.is_free else None
        if cut is not None:
            effects.append(Propose(cut))
        self._look_for_stragglers(now_us)
        lanes = [lane for shard in self._live() for lane in shard]
        written = {lane: self._progress.durable(lane) for lane in lanes}
        mode = self._mode_wanted(lanes, now_us)
        interval_us = max(1, self._configuration.order_interval_us)
        plan = self._planner.plan(lanes, written, mode, now_us, interval_us, has_room=self._refused_window is None)
        if plan.entry is not None:
            effects.append(Propose(plan.entry))
        effects += self._cuts(now_us, time_us)
        return [*effects, *self._asks(plan.pass_to, now_us)]

    def decide_at_us(self, now_us: int, time_us: int) -> int | None:
        """When to call `decide` at the latest; None when only something that is told can make anything due."""
        times = [self.supervisor.next_look_us(), self._ask_again_us, self._mode.next_look_us(now_us)]
        times.append(self._planner.stragglers.next_look_us(now_us))
        if self.is_free:
            times.append(self.deadline_us(now_us, time_us))
        elif self._is_range_early(now_us) and self._range_us is not None:
            times.append(self._range_us + self._configuration.order_interval_us)
        found = [each for each in times if each is not None]
        return max(now_us, min(found)) if found else None

    def _mode_wanted(self, lanes: list[LaneId], now_us: int) -> str:
        refused = self._refused_window
        if refused is not None and self._belfast.has_room_for(refused, _WINDOWS_WITH_ROOM):
            refused = self._refused_window = None
        if self.changes or refused is not None or self._is_shard_leaving():
            return "free"
        return self._mode.choose(self._speculators(lanes), now_us)

    def _taking(self, time_us: int) -> list[LeaderEffect]:
        taking = self.takeovers.take()
        return [
            Propose(replace(each.entry, time_us=time_us)) if isinstance(each, CloseTaken) else each for each in taking
        ]

    def _live(self) -> list[list[LaneId]]:
        return [shard.open_lanes() for shard in self._state.shards.by_number.values() if shard.phase == "live"]

    def _is_shard_leaving(self) -> bool:
        """Whether a shard has a grace, in which it orders on without slots: then the order is free until it is over."""
        shards = self._state.shards
        return any(shards.by_number[shard].open_lanes() for shard in shards.graces)

    def _speculators(self, lanes: list[LaneId]) -> int:
        reports = (self._progress.report(lane) for lane in lanes)
        return self.speculators + sum(report.speculators for report in reports if report is not None)

    def _look_for_stragglers(self, now_us: int) -> None:
        late = [] if self.is_free else self._progress.late()
        if not late:
            self._late_us = None
        elif self._late_us is None:
            self._late_us = now_us
        self._planner.stragglers.look(late, now_us, self._belfast.slots.number)

    def _is_range_early(self, now_us: int) -> bool:
        interval_us = self._configuration.order_interval_us
        return self._range_us is not None and now_us < self._range_us + interval_us

    def _cuts(self, now_us: int, time_us: int) -> list[LeaderEffect]:
        if self._ranges >= self._configuration.pipeline_cuts or self._is_range_early(now_us) or self._is_held_back():
            return []
        entry = self._progress.propose(time_us)
        if entry is None:
            return []
        self._ranges += 1
        self._range_us = now_us
        is_late = self._late_us is not None and now_us - self._late_us >= _LATE_US
        self._mode.ordered(len(entry.used), len(entry.used) if is_late else 0, now_us)
        return [Propose(replace(entry, forget=self._retention.take()))]

    def _is_held_back(self) -> bool:
        """Whether a shard that can go on has left the positions of old cuts unsynced for too long."""
        held = self._retention.holding_back()
        return any(self._state.shards.by_number[shard].open_lanes() for shard in held)

    def _asks(self, hurried_to: int, now_us: int) -> list[LeaderEffect]:
        if self._belfast.slots.mode != "fixed":
            self._ask_again_us = None
            return []
        asks = self._progress.asks(hurried_to)
        if self._ask_again_us is not None and now_us >= self._ask_again_us:
            asks = self._progress.asks_again()
            self._ask_again_us = None
        if self._ask_again_us is None and self._progress.asks_again():
            self._ask_again_us = now_us + _ASK_AGAIN_US
        return [*asks]
