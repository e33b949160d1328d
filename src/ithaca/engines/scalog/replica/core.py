"""The replica: one event in, effects out. Read the package's docstring first: it is the contract.

What is known of it without a step is in `facts`, what it is to its shard in `standing`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ithaca.engines.scalog.ordering import lost
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    RangeLost,
    SessionMoved,
    SessionOpened,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import PartDropped, PartOpened, PartSealed
from ithaca.engines.scalog.ordering.state import ShardSummary
from ithaca.engines.scalog.replica.events import (
    Appended,
    Created,
    DiskFull,
    DropLane,
    Effect,
    Event,
    ForgetSession,
    Held,
    OrderJoined,
    OrderLost,
    PartAppended,
    Rejoin,
    ReplicaRemoved,
    Replicated,
    RunsFetched,
    RunsSynced,
    Settle,
    ShardReclaimed,
    SourcesExhausted,
    StartedAgain,
    Synced,
    Tick,
    Truncated,
    Unfollow,
)
from ithaca.engines.scalog.replica.joining import list_lanes, list_sessions, listed_lanes
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.replica.standing import ReplicaStanding
from ithaca.model.cut import ShardCut
from ithaca.model.positions import LaneId


class ReplicaCore(ReplicaStanding):
    """One boot of one replica, started from the lanes that were found on its disk.

    >>> core = ReplicaCore(0, 1, boot=1, held={})
    >>> core.state, core.own_lane, core.deadline_us
    ('joining', None, None)
    """

    def __init__(
        self,
        shard: int,
        replica: int,
        boot: int,
        held: Mapping[LaneId, Held],
        *,
        settled: SettledCopies | None = None,
        now_us: int = 0,
    ) -> None:
        """`settled`: the lanes of which an earlier boot knew that they are complete."""
        super().__init__(shard, replica, boot, held, settled=settled, now_us=now_us)
        self._handlers: dict[type, Callable[[Any], None]] = {
            Appended: self._appends.append,
            PartAppended: self._staging.append,
            Replicated: self._replicated,
            Synced: self._synced,
            Tick: self._tick,
            OrderJoined: self._join,
            OrderLost: lambda _: self._leave(),
            ShardReclaimed: lambda _: self._gone(),
            ReplicaRemoved: lambda _: self._removed(),
            StartedAgain: self._start_again,
            Created: self._created,
            Truncated: self._truncated,
            RunsFetched: self._runs_fetched,
            SourcesExhausted: self._nobody_has,
            RunsSynced: self._runs_synced,
            DiskFull: self._appends.disk_full,
        }
        self._news: dict[type, Callable[[Any], None]] = {
            ShardCut: self._cut,
            ViewChanged: self._view_changed,
            LaneOpened: self._lane_opened,
            LaneClosed: self._lane_closed,
            FinalizedShard: lambda _: None,  # its lanes were closed before, and the view says the rest
            PartOpened: self._part_opened,
            PartSealed: self._part_sealed,
            PartDropped: self._part_dropped,
            SessionOpened: self._appends.session_came,
            SessionMoved: self._appends.session_came,
            ExpiredSession: self._session_expired,
            TrimmedLog: self._trimmed,
            RangeLost: self._range_lost,
        }

    def step(self, event: Event) -> list[Effect]:
        """Take one event; the effects are to be performed as the package's docstring says."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)
        elif self._is_joined:
            self._news[type(event)](event)
        self._settle_done()
        advanced = self._readable.advanced(self.view_version)
        if advanced is not None:
            self._effects.append(advanced)
        effects = self._effects.copy()
        self._effects.clear()
        return effects

    def _settle_done(self) -> None:
        """Say which lanes are complete; of all but the own no more is kept than how long they are."""
        for copy in self._settling.take_done():
            if self._lanes.get(copy.lane) is not copy or not copy.is_done:
                continue
            if not copy.is_settling:
                copy.is_settling = True
                self._effects.append(Settle(copy.lane))
            if copy.lane != self.own_lane:
                del self._lanes[copy.lane]
                self._settled.add(copy.lane, copy.ordered, copy.has_holes)
                if copy.lost:
                    self._lost[copy.lane] = copy.lost

    # Time

    def _tick(self, event: Tick) -> None:
        self._now_us = self._positions.now_us = max(self._now_us, event.now_us)
        self._reporting.tick(self._now_us)
        self._runs.tick(self._now_us)
        if self._lane_wait.is_due(self._now_us):
            self._rejoin("it has no lane, and asks again")

    # The order

    def _join(self, event: OrderJoined) -> None:
        summary = event.summary
        assert summary.cut.number >= self.cut_number, "the order never goes back"
        self._is_joined = True
        self.shard_view = summary.shard
        self.view_version = summary.view
        self.cut_number = summary.cut.number
        self._readable.tail, self._readable.first = summary.cut.tail, summary.first
        self._settling.follow(summary.shard)
        for part in list_lanes(summary, self._lanes, self._settled, self._lost):
            self._staging.opened(part)
        if self.own_lane is None and event.lane is not None:
            self.own_lane = event.lane
            self._appends.open(self._lanes[event.lane])
        for lane, unplaced in summary.unplaced:
            if lane in self._lanes:
                self._leave_unplaced(self._lanes[lane], unplaced)
        for cut in event.cuts:
            self._positions.learn(cut)
        for copy in self._lanes.values():
            self._positions.drain(copy)
        self._close_and_drop(summary)
        if self.own_lane is not None:
            self._appends.sessions.only(each for each in summary.sessions if each.home == self.own_lane)
        self._runs_known()
        for copy in self._lanes.values():
            self._settling.reconcile(copy)
        self._effects += list_sessions(summary, self._lanes)
        self._reporting.follow(summary.shard, self._now_us, is_new=True)
        self._await_lane()
        self._readable.look_again()

    def _close_and_drop(self, summary: ShardSummary) -> None:
        """Lanes that are listed and not open are closed; lanes that are not listed were trimmed whole."""
        listed, is_open = listed_lanes(summary)
        for lane in [lane for lane in self._settled if lane not in listed]:
            self._drop_settled(lane)
        for lane, copy in list(self._lanes.items()):
            if lane not in listed:
                self._drop(lane)
            elif lane not in is_open:
                self._close(copy)
            self._readable.note(copy)

    def _session_expired(self, event: ExpiredSession) -> None:
        self._appends.session_expired(event)
        copy = self._lanes.get(event.session.home)
        if copy is not None and not copy.is_settled:
            self._effects.append(ForgetSession(copy.lane, event.session.producer_id))

    def _leave(self) -> None:
        self._is_joined = False
        self._lane_wait.clear()
        self._reporting.lost()

    def _rejoin(self, reason: str) -> None:
        """The news do not continue what is known: nothing more of them counts until the order is joined again."""
        self._leave()
        self._effects.append(Rejoin(reason))

    # Cuts

    def _cut(self, cut: ShardCut) -> None:
        if cut.number <= self.cut_number:
            return
        if cut.number != self.cut_number + 1:
            self._rejoin(f"cut {cut.number} came after cut {self.cut_number}")
            return
        for run in cut.runs:
            copy = self._lanes.get(run.lane)
            if copy is None or run.lsn != copy.ordered:
                self._rejoin(f"cut {cut.number} has a run of lane {run.lane} from {run.lsn} on, which is not the next")
                return
        self.cut_number, self._readable.tail = cut.number, cut.tail
        if cut.runs:
            for run in cut.runs:
                self._lanes[run.lane].ordered = run.lsn + run.count
            self._positions.learn(cut)
            for run in cut.runs:
                copy = self._lanes[run.lane]
                self._readable.note(copy)
                if copy.is_closed:
                    self._settling.look_at(copy)
        self._runs_known()
        self._reporting.moved(self._now_us)
        self._readable.look_again()

    def _runs_fetched(self, event: RunsFetched) -> None:
        copy = self._lanes.get(event.lane)
        if copy is None or not copy.fetching_to:
            return
        if self._positions.fetched(copy, event, self.first):
            self._go_on(copy)
        else:
            copy.fetching_to = 0  # to be asked for again when the trim comes that the peer knows of, or there is room
            if copy.are_runs_refused:
                self._go_on(copy)

    def _runs_known(self) -> None:
        if self._readable.knows_runs():
            self._runs.known_to(self.cut_number)

    def _runs_synced(self, event: RunsSynced) -> None:
        self._runs.synced(event.cut)
        self._reporting.moved(self._now_us)
        if self._runs.take_again() and self._is_joined:
            self._rejoin("positions that came while there was no room for them are to be learnt again")

    # Lanes

    def _lane_opened(self, event: LaneOpened) -> None:
        if event.lane not in self._lanes:
            copy = self._lanes[event.lane] = LaneCopy(event.lane)
            copy.is_open = True
            self._settling.reconcile(copy)

    def _lane_closed(self, event: LaneClosed) -> None:
        copy = self._lanes.get(event.lane)
        if event.lane in self._settled or (copy is not None and copy.is_closed):
            return
        if copy is None or copy.ordered != event.length:
            self._rejoin(f"lane {event.lane} was closed at {event.length}, which is not where it ended here")
            return
        self._close(copy)
        self._settling.reconcile(copy)
        self._report_lanes()

    def _close(self, copy: LaneCopy) -> None:
        if copy.is_closed:
            return
        copy.is_open, copy.is_closed = False, True
        if copy.lane == self.own_lane:
            self._appends.closed(copy.ordered)
        if copy.lane.is_part:
            self._staging.ended(copy.lane)

    def _drop_settled(self, lane: LaneId) -> None:
        if self._settled.drop(lane):
            self._lost.pop(lane, None)
            self._effects.append(DropLane(lane))

    def _drop(self, lane: LaneId) -> None:
        copy = self._lanes.pop(lane)
        self._unplaced.pop(lane, None)
        self._readable.note(copy)
        self._runs.dropped(lane)
        if lane == self.own_lane:
            copy.is_open = False
            self._appends.dropped()
        if lane.is_part:
            self._staging.ended(lane)
        if copy.source is not None or copy.fetching_to:
            self._effects.append(Unfollow(lane))
        if copy.is_present or copy.is_busy:
            self._effects.append(DropLane(lane))

    # Parts

    def _part_opened(self, event: PartOpened) -> None:
        if event.part.lane not in self._lanes:
            copy = self._lanes[event.part.lane] = LaneCopy(event.part.lane)
            copy.is_open = True
            self._staging.opened(event.part)
            self._settling.reconcile(copy)
            self._report_lanes()

    def _part_sealed(self, event: PartSealed) -> None:
        copy = self._lanes.get(event.lane)
        if event.lane in self._settled:
            return
        if copy is None:
            self._rejoin(f"part {event.lane} was sealed, and is not known here")
        elif copy.is_open:
            copy.sealed = event.length
            self._close(copy)
            self._settling.reconcile(copy)
            self._report_lanes()

    def _part_dropped(self, event: PartDropped) -> None:
        if event.lane in self._lanes:
            self._drop(event.lane)
            self._report_lanes()

    def _report_lanes(self) -> None:
        """There are other lanes to report than before."""
        if self.shard_view is not None:
            self._reporting.follow(self.shard_view, self._now_us)
        self._reporting.moved(self._now_us)

    # Lanes on the disk

    def _created(self, event: Created) -> None:
        copy = self._lanes.get(event.lane)
        if copy is not None:
            copy.is_present, copy.is_busy = True, False
            self._go_on(copy)
            if event.lane.is_part:
                self._staging.made(event.lane)

    def _truncated(self, event: Truncated) -> None:
        copy = self._lanes.get(event.lane)
        if copy is not None:
            copy.truncated()
            copy.is_busy = False
            copy.fetching_to = 0  # runs that came meanwhile were not taken
            self._go_on(copy)

    def _go_on(self, copy: LaneCopy) -> None:
        """Something about the lane has changed: what does it need next?"""
        self._positions.drain(copy)
        self._readable.note(copy)
        self._settling.reconcile(copy)
        self._runs_known()
        self._readable.look_again()

    def _replicated(self, event: Replicated) -> None:
        copy = self._lanes.get(event.lane)
        if copy is not None:
            self._settling.take(copy, event.batch, event.position)

    def _nobody_has(self, event: SourcesExhausted) -> None:
        copy = self._lanes.get(event.lane)
        if copy is not None:
            self._settling.give_up(copy)

    def _synced(self, event: Synced) -> None:
        copy = self._lanes.get(event.lane)
        if copy is None:
            return
        copy.synced(event.length)
        if copy.lane.is_part:
            self._staging.synced(copy)
        if copy.is_open:
            self._reporting.moved(self._now_us)
        else:
            self._settling.reconcile(copy)
        if self._readable.is_behind(copy):
            self._readable.note(copy)
            self._readable.look_again()

    # The shard

    def _view_changed(self, event: ViewChanged) -> None:
        if event.version < self.view_version:
            return
        self.view_version = event.version
        if event.shard != self._shard:
            return
        was_learner, before, self.shard_view = self._is_learner, self.shard_view, event.now
        if event.now is None:
            self._reclaimed()
        elif (changed := self._standing(event.now, was_learner, before)) is not None:
            self._rejoin(changed)
        else:
            self._settling.follow(event.now)
            for copy in self._lanes.values():
                self._settling.reconcile(copy)
            self._reporting.follow(event.now, self._now_us)

    def _reclaimed(self) -> None:
        self._is_reclaimed = True
        for lane in list(self._lanes):
            self._drop(lane)
        for lane in self._settled:
            self._drop_settled(lane)

    def _trimmed(self, event: TrimmedLog) -> None:
        if event.first > self.tail:
            self._rejoin(f"everything before {event.first} was trimmed, and the order ends at {self.tail} here")
            return
        self._readable.first = max(self.first, event.first)
        for lane in event.lanes:
            if lane in self._lanes:
                self._drop(lane)
            else:
                self._drop_settled(lane)
        for copy in self._readable.lanes_behind():
            self._settling.reconcile(copy)
        self._runs_known()
        self._readable.look_again()

    def _range_lost(self, event: RangeLost) -> None:
        copy = self._lanes.get(event.lane)
        if copy is not None:
            copy.lost = lost.merged(copy.lost, event.start, event.stop)
            self._leave_unplaced(copy, event.unplaced)
            self._readable.note(copy)
            self._settling.reconcile(copy)
            self._runs_known()
            self._readable.look_again()
        elif event.lane in self._settled:
            self._lost[event.lane] = lost.merged(self._lost.get(event.lane, ()), event.start, event.stop)

    def _leave_unplaced(self, copy: LaneCopy, unplaced: lost.Unplaced | None) -> None:
        """Wait no more for positions that nobody knows."""
        if unplaced is not None:
            copy.unplaced = unplaced
            self._unplaced[copy.lane] = copy
