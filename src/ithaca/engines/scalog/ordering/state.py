"""The replicated state machine: what the committed entries add up to.

`apply` is a pure function of the state and the entry. Positions are assigned here, when a cut is applied,
and nowhere else; what leaders proposed, lost or repeated makes no difference.
"""

from collections.abc import Iterator

import msgspec

from ithaca.consumers.table import ConsumerChanges, ConsumerTable
from ithaca.engines.scalog.ordering import lost, room
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Configure,
    Cut,
    DeclareLost,
    ExpireIdle,
    ExpireSession,
    Finalize,
    MoveSession,
    NoteSessions,
    OpenLane,
    OpenSession,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
    TrimTo,
)
from ithaca.engines.scalog.ordering.lanes import LaneTable, Runs
from ithaca.engines.scalog.ordering.lost import Unplaced
from ithaca.engines.scalog.ordering.outcomes import (
    Configured,
    ConsumersTold,
    ExpiredSession,
    LaneClosed,
    OrderedCut,
    Outcome,
    PackedCut,
    RangeLost,
    RefusedEntry,
    Session,
    SessionMoved,
    TrimmedLog,
    UsersTold,
)
from ithaca.engines.scalog.ordering.prepared.entries import (
    AbortParts,
    ExpireParts,
    ForgetWriter,
    ForgetWriters,
    OpenPart,
    Publish,
    RenewParts,
    SealPart,
)
from ithaca.engines.scalog.ordering.prepared.outcomes import ConsumptionRefused, StagedPart
from ithaca.engines.scalog.ordering.prepared.parts import PartTable
from ithaca.engines.scalog.ordering.sessions import SessionRegistry
from ithaca.engines.scalog.ordering.shards import ShardTable
from ithaca.engines.scalog.ordering.snapshot import Snapshot, decode_snapshot, encode_snapshot
from ithaca.model.cut import ShardCut, Vector
from ithaca.model.limits import ORDERING_LOST_RANGES_MAX
from ithaca.model.positions import FIRST, LaneId
from ithaca.model.view import ClusterConfiguration, Shard, View
from ithaca.users.table import UserChanges, UserTable


class ShardSummary(msgspec.Struct, frozen=True, array_like=True):
    """All that a replica must know of its shard when it connects; the stream of outcomes goes on from here.

    A lane that is not listed, of an incarnation below the newest, was trimmed whole; a session that is not
    listed has moved or expired.
    """

    index: int
    shard: Shard
    cut: ShardCut
    first: int
    lengths: list[tuple[LaneId, int]]
    """The ordered length of every lane, open or closed; the shard says which are open."""
    sessions: list[Session]
    lost: list[tuple[LaneId, lost.Ranges]]
    view: int
    """The version of the view that holds here: records below the tail may be in any shard of it."""
    parts: list[StagedPart] = []
    """Those that are neither published nor gone; a part that is nowhere here is gone."""
    unplaced: list[tuple[LaneId, Unplaced]] = []
    """Of lost records those whose positions nobody knows."""


class OrderingState:
    """Where the ordering layer stands after some entries."""

    def __init__(self) -> None:
        self.index = 0
        """Of the last entry applied."""
        self.configuration: ClusterConfiguration | None = None
        self.cut_number = 0
        self.tail = FIRST
        """The next position."""
        self.first = FIRST
        """The first position that was not trimmed."""
        self.time_us = 0
        self.lanes = LaneTable()
        self.shards = ShardTable(self.lanes)
        self.sessions = SessionRegistry(self.lanes, self.shards)
        self.parts = PartTable(self.lanes, self.shards)
        self.consumers = ConsumerTable()
        self.users = UserTable()
        self.lost: dict[LaneId, lost.Ranges] = {}
        self.unplaced: dict[LaneId, int] = {}
        """From which LSN on nobody knows the positions of a lane, which ends with lost records."""
        self.kept: dict[int, OrderedCut] = {}
        """Cuts by number, until the runs in them are safe."""

    @property
    def view(self) -> View:
        return self.shards.view

    def apply(self, index: int, entry: OrderingEntry) -> list[Outcome]:
        """Take in the entry at this index, which is behind all those applied before."""
        self._come_to(index)
        if self.configuration is None and not isinstance(entry, Configure):
            return [RefusedEntry(entry, "the log is not configured")]
        if room.is_full_for(self, entry):
            return [RefusedEntry(entry, "the state is full")]
        return self._followed(self._apply(entry))

    def _come_to(self, index: int) -> None:
        assert index > self.index, f"entry {index} comes after entry {self.index}"
        self.index = index

    def _followed(self, outcomes: list[Outcome]) -> list[Outcome]:
        """These, and what they mean for sessions, parts and lanes without a record."""
        self.sessions.follow(outcomes, self.time_us)
        return outcomes + self.parts.follow(outcomes) + self._drop_empty(outcomes)

    def _drop_empty(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Lanes that closed without a record vanish, unless a session is at home there: a replica that starts again
        and again leaves one each time."""
        closed = {each.lane for each in outcomes if isinstance(each, LaneClosed) and not each.length}
        empty = set(filter(self._is_empty, closed | _left(outcomes)))
        gone = self.lanes.drop(empty - self.sessions.homes()) if empty else []
        return [TrimmedLog(self.first, tuple(gone))] if gone else []

    def _is_empty(self, lane: LaneId) -> bool:
        """Whether the lane is closed, and nobody will ask for it."""
        return self.lanes.is_empty(lane)

    def _apply(self, entry: OrderingEntry) -> list[Outcome]:
        match entry:
            case Cut():
                return self._order(entry)
            case Configure():
                return self._configure(entry)
            case RegisterShard():
                return self.shards.register(entry)
            case OpenLane():
                return self.shards.open_lane(entry)
            case CloseLane():
                return self.shards.close_lane(entry)
            case RemoveReplica():
                return self.shards.remove(entry)
            case AddReplica():
                return self.shards.add(entry)
            case Finalize():
                return self.shards.finalize(entry, self.cut_number)
            case TrimTo():
                return self._trim(entry)
            case OpenPart():
                return self.parts.open(entry, self._raised_time_us(entry.time_us))
            case RenewParts():
                return self.parts.renew(entry, self._raised_time_us(entry.time_us))
            case SealPart():
                return self.parts.seal(entry)
            case Publish():
                return self._publish(entry)
            case AbortParts():
                return self.parts.abort(entry)
            case ExpireParts():
                return self.parts.expire(entry.lanes, self._raised_time_us(entry.time_us))
            case ForgetWriter():
                return self.parts.writers.forget(entry)
            case ForgetWriters():
                return self.parts.writers.forget_idle(entry, self._raised_time_us(entry.time_us))
            case OpenSession():
                time_us, has_room = self._raised_time_us(entry.time_us), room.has_room_for_session(self)
                return self._let_go(self.sessions.open(entry, time_us, has_room=has_room))
            case MoveSession():
                return self._let_go(self.sessions.move(entry, self._raised_time_us(entry.time_us)))
            case ExpireSession():
                return self._let_go(self.sessions.expire(entry))
            case NoteSessions():
                return self.sessions.note(entry, self._raised_time_us(entry.time_us))
            case ExpireIdle():
                return self._let_go(self.sessions.expire_idle(entry, self._raised_time_us(entry.time_us)))
            case DeclareLost():
                return self._lose(entry)
            case ConsumerChanges():
                return [ConsumersTold(self.consumers.apply(entry))]
            case UserChanges():
                return [UsersTold(self.users.apply(entry))]

    def cuts_since(self, shard: int, number: int) -> list[ShardCut]:
        """The kept cuts after `number` that have runs of this shard, for a replica that missed some.

        Cuts that were forgotten are missing: their runs come with lane catch-up, from a peer.
        """
        cuts = (cut.of_shard(shard) for cut in self.kept.values() if cut.number > number)
        return [cut for cut in cuts if cut.runs]

    def summary(self, shard: int) -> ShardSummary | None:
        """None for a shard that is not there."""
        known = self.shards.by_number.get(shard)
        if known is None:
            return None
        return ShardSummary(
            self.index,
            known,
            ShardCut(shard, self.cut_number, self.tail, self.time_us),
            self.first,
            list(self.lanes.ordered_lengths(shard).items()),
            self.sessions.at_home(shard),
            [(lane, ranges) for lane, ranges in sorted(self.lost.items()) if lane.shard == shard],
            self.shards.version,
            self.parts.in_shard(shard),
            [(lane, self._unplaced(lane, lsn)) for lane, lsn in sorted(self.unplaced.items()) if lane.shard == shard],
        )

    def lengths_due(self, shard: int) -> dict[LaneId, int]:
        """What every replica of a shard must hold: of each lane what is ordered, and the sealed parts."""
        return self.lanes.ordered_lengths(shard) | self.parts.sealed_lengths(shard)

    @property
    def size_bytes(self) -> int:
        """A bound on the bytes of its snapshot."""
        return room.size_bytes(self)

    def snapshot(self) -> bytes:
        """The whole state; equal states give equal bytes."""
        return b"".join(self.snapshot_pieces())

    def snapshot_pieces(self) -> Iterator[bytes]:
        """The state as it is now, to be encoded bit by bit while it goes on to change."""
        return encode_snapshot(
            Snapshot(
                self.index,
                self.configuration,
                self.cut_number,
                self.tail,
                self.first,
                self.time_us,
                self.lanes.packed(),
                self.shards.packed(),
                self.sessions.packed(),
                sorted(self.lost.items()),
                [PackedCut.of(cut) for cut in self.kept.values()],
                self.parts.packed(),
                self.consumers.packed(),
                self.users.packed(),
                sorted(self.unplaced.items()),
            )
        )

    @classmethod
    def restored(cls, data: bytes) -> "OrderingState":
        """The state of a snapshot; `FormatTooNew` or `Corrupt` when it cannot be read."""
        snapshot = decode_snapshot(data)
        state = cls()
        state.index, state.configuration = snapshot.index, snapshot.configuration
        state.cut_number, state.tail = snapshot.cut_number, snapshot.tail
        state.first, state.time_us = snapshot.first, snapshot.time_us
        state.lanes = LaneTable.restored(snapshot.lanes)
        state.shards = ShardTable.restored(snapshot.shards, state.lanes)
        state.sessions = SessionRegistry.restored(snapshot.sessions, state.lanes, state.shards)
        state.parts = PartTable.restored(snapshot.parts, state.lanes, state.shards)
        state.consumers = ConsumerTable(snapshot.consumers)
        state.users = UserTable(snapshot.users)
        state.lost = dict(snapshot.lost)
        state.unplaced = dict(snapshot.unplaced)
        state.kept = {cut.number: cut.unpacked() for cut in snapshot.kept}
        return state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrderingState) and self.snapshot() == other.snapshot()

    __hash__ = None  # type: ignore[assignment]

    def _configure(self, entry: Configure) -> list[Outcome]:
        if self.configuration is not None:
            if entry.configuration.log != self.configuration.log:
                return [RefusedEntry(entry, "another log")]
            if entry.configuration.engine != self.configuration.engine:
                return [RefusedEntry(entry, "another engine")]
        self.configuration = entry.configuration
        return [Configured(entry.configuration)]

    def _order(self, entry: Cut) -> list[Outcome]:
        runs = self.lanes.order(entry.moved, entry.view, self.tail)
        for number in entry.forget:
            self.kept.pop(number, None)
        return [self._ordered(runs, self.tail + runs.total, entry.time_us), *self._finalize_due()]

    def _publish(self, entry: Publish) -> list[Outcome]:
        answer = self._consumed(entry) if (said := self.parts.answer(entry)) is None else said
        if answer is not None:
            return [answer]
        runs, outcomes = self.parts.publish(entry, self.tail, self._raised_time_us(entry.time_us))
        cut = self._ordered(runs, self.tail + runs.total, entry.time_us)
        return [cut, *outcomes, *self._finalize_due()]

    def _consumed(self, entry: Publish) -> ConsumptionRefused | None:
        """Commit what a publication consumed, since it is not refused for anything else; or say why it is."""
        refused = self.consumers.objection(entry.consumed)
        if refused is not None:
            return ConsumptionRefused(refused)
        if entry.consumed:
            self.consumers.apply(ConsumerChanges(entry.consumed, self._raised_time_us(entry.time_us)))
        return None

    def _finalize_due(self) -> list[Outcome]:
        return self.shards.finalize_due(self.cut_number, self.time_us)

    def _ordered(self, runs: Runs, tail: int, time_us: int, follows: Vector | None = None) -> OrderedCut:
        """The next cut, which orders these, each behind what it follows; the next position after it is `tail`."""
        self.cut_number += 1
        self.tail = tail
        cut = OrderedCut(self.cut_number, self.tail, self._raised_time_us(time_us), *runs, follows)
        if len(runs.keys):
            self.kept[cut.number] = cut
        return cut

    def _raised_time_us(self, time_us: int) -> int:
        """The order's time, which is at least this from here on."""
        self.time_us = max(self.time_us, time_us)
        return self.time_us

    def _trim(self, entry: TrimTo) -> list[Outcome]:
        if entry.position > self.tail:
            return [RefusedEntry(entry, "beyond the tail")]
        self.first = max(self.first, entry.position)
        return self._forget()

    def _let_go(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Sessions have left their homes. If one was kept for them alone and is of a finalized shard, it goes: there
        may be no further trim with which it would."""
        return [*outcomes, *self._forget()] if any(map(self._is_over, _left(outcomes))) else outcomes

    def _is_over(self, lane: LaneId) -> bool:
        """Whether nothing of the lane can be read, and its shard is finalized."""
        closed, shard = self.lanes.closed.get(lane), self.shards.by_number.get(lane.shard)
        return closed is not None and closed.end <= self.first and shard is not None and shard.phase == "finalized"

    def _forget(self) -> list[Outcome]:
        """Forget the lanes of which nothing can be read, and the finalized shards of which no lane is left."""
        gone = self.lanes.forget(self.first, pinned=self.sessions.homes())
        for lane in gone:
            self.lost.pop(lane, None)
            self.unplaced.pop(lane, None)
        return [TrimmedLog(self.first, tuple(gone)), *self.shards.reclaim()]

    def _lose(self, entry: DeclareLost) -> list[Outcome]:
        length = self.lanes.ordered_length(entry.lane)
        if length is None:
            return [RefusedEntry(entry, "no such lane")]
        if entry.stop > length:
            return [RefusedEntry(entry, "beyond what is ordered")]
        if entry.placed is not None and (entry.stop < length or self.lanes.is_open(entry.lane)):
            return [RefusedEntry(entry, "the lane does not end there")]
        ranges = lost.merged(self.lost.get(entry.lane, ()), entry.start, entry.stop)
        others = sum(len(known) for lane, known in self.lost.items() if lane != entry.lane)
        if others + len(ranges) > ORDERING_LOST_RANGES_MAX:
            return [RefusedEntry(entry, "too many lost ranges")]
        self.lost[entry.lane] = ranges
        if entry.placed is not None:
            self.unplaced[entry.lane] = min(entry.placed, self.unplaced.get(entry.lane, entry.placed))
        lsn = self.unplaced.get(entry.lane)
        unplaced = None if lsn is None else self._unplaced(entry.lane, lsn)
        return [RangeLost(entry.lane, entry.start, entry.stop, unplaced)]

    def _unplaced(self, lane: LaneId, lsn: int) -> Unplaced:
        return Unplaced(lsn, self.lanes.closed[lane].end)


def _left(outcomes: list[Outcome]) -> set[LaneId]:
    """The lanes that sessions have left."""
    moved = {each.source for each in outcomes if isinstance(each, SessionMoved)}
    return moved | {each.session.home for each in outcomes if isinstance(each, ExpiredSession)}
