"""The replica: one event in, effects out. Read the package's docstring first: it is the contract."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

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
from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.events import (
    Appended,
    Created,
    DiskFull,
    DropLane,
    Effect,
    Event,
    ForgetSession,
    Held,
    ListSessions,
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
    Synced,
    Tick,
    Truncated,
    Unfollow,
)
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.positions import Positions
from ithaca.engines.scalog.replica.readable import Readable
from ithaca.engines.scalog.replica.reporting import Reporting, RunsSync
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.engines.scalog.replica.settling import Settling
from ithaca.engines.scalog.replica.staging import Staging
from ithaca.model.cut import ShardCut
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard

State = Literal["joining", "learning", "catching up", "serving", "full", "finalized", "reclaimed", "removed"]


class ReplicaCore:
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
        self._shard = shard
        self._replica = replica
        self._now_us = now_us
        self._effects: list[Effect] = []
        self._lanes = {lane: LaneCopy(lane, found) for lane, found in sorted(held.items())}
        """Those of which something may change."""
        self._settled = settled if settled is not None else SettledCopies()
        self._lost: dict[LaneId, lost.Ranges] = {}
        """What is lost of settled lanes."""
        self._is_joined = False
        self._is_reclaimed = False
        self._is_removed = False
        self._readable = Readable(self._lanes)
        self._appends = Appends(self._effects)
        self._runs = RunsSync(self._effects)
        self._reporting = Reporting(replica, boot, self._lanes, self._settled, self._runs, self._effects)
        self._settling = Settling(replica, self._appends, self._readable, self._effects)
        self._staging = Staging(replica, self._lanes, self._appends, self._effects)
        self._positions = Positions(self._lanes, self._appends, self._runs, self._effects)
        self.own_lane: LaneId | None = None
        self.shard_view: Shard | None = None
        self.view_version = 0
        self.cut_number = 0
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
            Created: self._created,
            Truncated: self._truncated,
            RunsFetched: self._runs_fetched,
            SourcesExhausted: self._nobody_has,
            RunsSynced: self._runs_synced,
            DiskFull: self._disk_full,
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

    # What others may know

    @property
    def deadline_us(self) -> int | None:
        """When the next `Tick` has something to do, unless other events come first."""
        report_us, runs_us = self._reporting.due_us, self._runs.due_us
        if report_us is None or runs_us is None:
            return runs_us if report_us is None else report_us
        return min(report_us, runs_us)

    @property
    def first(self) -> int:
        """The first position that was not trimmed."""
        return self._readable.first

    @property
    def readable(self) -> int:
        """Positions below are ordered, and those of this shard are on this disk."""
        return self._readable.limit

    @property
    def tail(self) -> int:
        """The next position that will be given, as far as is known."""
        return self._readable.tail

    @property
    def leaving_view(self) -> int:
        """The version of a view in which the shard takes nothing new; 0 while it is live."""
        return 0 if self.shard_view is not None and self.shard_view.phase == "live" else self.view_version

    @property
    def pending_bytes(self) -> int:
        """Accepted and not yet ordered."""
        return self._appends.pending_bytes

    @property
    def runs_unsynced(self) -> int:
        """The most runs of a lane that wait to be synced; above `RUNS_UNSYNCED_MAX` there are never any."""
        return self._runs.unsynced

    @property
    def state(self) -> State:
        if self._is_reclaimed or self._is_removed:
            return "reclaimed" if self._is_reclaimed else "removed"
        if not self._is_joined:
            return "joining"
        if self._is_learner:
            return "learning"
        is_final = self.shard_view is not None and self.shard_view.phase == "finalized"
        if (self._appends.is_full or self._runs.has_refused) and not is_final:
            return "full"
        if all(copy.is_ready and (copy.is_open or copy.is_settled) for copy in self._lanes.values()):
            return "finalized" if is_final else "serving"
        return "catching up"

    @property
    def is_complete(self) -> bool:
        """Whether nothing that is ordered of the shard is missing here, as far as is known."""
        is_there = self.state in ("serving", "finalized")
        return is_there and not any(copy.is_behind for copy in self._lanes.values())

    def received(self, lane: LaneId) -> int:
        """The LSN from which on the lane's batches are wanted; what is not synced yet is not wanted again."""
        copy = self._lanes.get(lane)
        return self._settled.length(lane) or 0 if copy is None else copy.received

    @property
    def settled_count(self) -> int:
        """How many lanes are closed and complete here, and not among `lanes`."""
        return len(self._settled)

    def lanes(self) -> list[tuple[LaneId, bool, int, int]]:
        """Every lane that is not settled, in order: whether it is open, how much of it is synced here, and ordered."""
        return [(lane, copy.is_open, copy.durable, copy.ordered) for lane, copy in sorted(self._lanes.items())]

    def lost(self, lane: LaneId) -> lost.Ranges:
        """The LSNs of the lane that were ordered and are gone."""
        copy = self._lanes.get(lane)
        return self._lost.get(lane, ()) if copy is None else copy.lost

    def next_seq(self, lane: LaneId, producer_id: int, epoch: int) -> int:
        """The number that continues a session at home here; raises what an append would be refused with."""
        return self._appends.next_seq(lane, producer_id, epoch)

    def is_written_here(self, lane: LaneId) -> bool:
        """Whether it is a part that is being written here."""
        return self._staging.is_written_here(lane)

    def is_settled(self, lane: LaneId) -> bool:
        """Whether the lane is closed, and complete here: nothing will be written to it any more."""
        copy = self._lanes.get(lane)
        return lane in self._settled if copy is None else copy.is_settled

    def has_every_batch(self, lane: LaneId) -> bool:
        """Whether the lane is here exactly as it was ordered: only then what is not in it never will be.

        A lane with holes is complete for readers, and cannot say which batches were there.
        """
        copy = self._lanes.get(lane)
        if copy is None:
            return lane in self._settled and not self._settled.has_holes(lane)
        return copy.is_settled and not copy.has_holes

    def has_all_ordered(self, lane: LaneId) -> bool:
        """Whether all that is ordered of the lane is here, and can be read; of a lane that was trimmed, nothing is."""
        copy = self._lanes.get(lane)
        return self._is_joined and (copy is None or (copy.is_ready and not copy.is_behind))

    def ordered_length(self, lane: LaneId) -> int | None:
        """How much of the lane is ordered, as far as this replica knows; None for a lane that it does not know."""
        copy = self._lanes.get(lane)
        return self._settled.length(lane) if copy is None else copy.ordered

    # Time

    def _tick(self, event: Tick) -> None:
        self._now_us = self._positions.now_us = max(self._now_us, event.now_us)
        self._reporting.tick(self._now_us)
        self._runs.tick(self._now_us)

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
        self._list_lanes(summary)
        if self.own_lane is None and event.lane is not None:
            self.own_lane = event.lane
            self._appends.open(self._lanes[event.lane])
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
        self._list_sessions(summary)
        self._reporting.follow(summary.shard, self._now_us, is_new=True)
        self._readable.look_again()

    def _list_lanes(self, summary: ShardSummary) -> None:
        ranges = dict(summary.lost)
        for lane, length in summary.lengths:
            if lane in self._settled:
                assert self._settled.length(lane) == length, f"lane {lane} is settled, and {length} of it are ordered"
                if lane in ranges:
                    self._lost[lane] = ranges[lane]
                continue
            copy = self._lanes.get(lane)
            if copy is None:
                copy = self._lanes[lane] = LaneCopy(lane)
            copy.ordered = length
            copy.lost = ranges.get(lane, ())
            copy.waiting.clear()  # the cuts that are told now say the same, or peers do
        for lane in summary.shard.open_lanes():
            assert lane not in self._settled, f"lane {lane} is open, and settled here"
            self._lanes[lane].is_open = True
        for part in summary.parts:
            copy = self._lanes.setdefault(part.lane, LaneCopy(part.lane))
            copy.is_open = part.length is None
            copy.sealed = part.length or 0
            if copy.is_open:
                self._staging.opened(part)

    def _close_and_drop(self, summary: ShardSummary) -> None:
        """Lanes that are listed and not open are closed; lanes that are not listed were trimmed whole."""
        is_open = {*summary.shard.open_lanes(), *(part.lane for part in summary.parts if part.length is None)}
        listed = {lane for lane, _ in summary.lengths} | {part.lane for part in summary.parts}
        for lane in [lane for lane in self._settled if lane not in listed]:
            self._drop_settled(lane)
        for lane, copy in list(self._lanes.items()):
            if lane not in listed:
                self._drop(lane)
            elif lane not in is_open:
                self._close(copy)
            self._readable.note(copy)

    def _list_sessions(self, summary: ShardSummary) -> None:
        """What is still to be written of a lane may hold sessions that are gone."""
        for lane, length in summary.lengths:
            copy = self._lanes.get(lane)
            if copy is not None and length and not lane.is_part and not copy.is_settled:
                at_home = frozenset(each.producer_id for each in summary.sessions if each.home == lane)
                self._effects.append(ListSessions(lane, at_home, length))

    def _session_expired(self, event: ExpiredSession) -> None:
        self._appends.session_expired(event)
        copy = self._lanes.get(event.session.home)
        if copy is not None and not copy.is_settled:
            self._effects.append(ForgetSession(copy.lane, event.session.producer_id))

    def _leave(self) -> None:
        self._is_joined = False
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
                copy = self._lanes[run.lane]
                copy.ordered = run.lsn + run.count
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
            self._settling.take(copy, event.batch)

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

    def _disk_full(self, event: DiskFull) -> None:
        self._appends.is_full = event.is_full

    # The shard

    def _view_changed(self, event: ViewChanged) -> None:
        if event.version < self.view_version:
            return
        self.view_version = event.version
        if event.shard != self._shard:
            return
        was_learner, self.shard_view = self._is_learner, event.now
        if event.now is None:
            self._reclaimed()
        elif (changed := self._standing(event.now, was_learner)) is not None:
            self._rejoin(changed)
        else:
            self._settling.follow(event.now)
            for copy in self._lanes.values():
                self._settling.reconcile(copy)
            self._reporting.follow(event.now, self._now_us)

    @property
    def _is_learner(self) -> bool:
        """Whether this replica is not of the shard yet."""
        return self.shard_view is not None and self.shard_view.find(self._replica) is None

    def _standing(self, shard: Shard, was_learner: bool) -> str | None:
        """What has become of this replica itself, if only the leader can tell how it goes on."""
        me = shard.find(self._replica)
        if me is None:
            return "it was removed from its shard" if self._replica <= shard.replica_last else None
        if was_learner:
            return "it has become a replica of its shard"
        is_mine = self.own_lane is not None and self.own_lane.incarnation == me.incarnation
        return "its lane was closed" if is_mine and not me.is_open and shard.phase != "finalized" else None

    def _removed(self) -> None:
        """Nothing more is accepted, and nothing is known of what was: others may have ordered it since."""
        self._is_removed = True
        self._withdraw(self._appends.abandoned)

    def _gone(self) -> None:
        """Somebody says that nothing is left of the shard. No entry says so here, so nothing is deleted."""
        self._is_reclaimed = True
        self._withdraw(self._appends.dropped)

    def _withdraw(self, refuse_pending: Callable[[], None]) -> None:
        self._settling.abandon(self._lanes.values())
        self._staging.abandoned()
        if self.own_lane is not None and self.own_lane in self._lanes:
            self._lanes[self.own_lane].is_open = False
            refuse_pending()

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
            self._settling.reconcile(copy)
            self._readable.look_again()
        elif event.lane in self._settled:
            self._lost[event.lane] = lost.merged(self._lost.get(event.lane, ()), event.start, event.stop)
