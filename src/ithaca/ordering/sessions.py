"""Sessions: who may append as whom, and where (design §5 "Exactly once").

The ordering layer decides epochs, homes and expiry; which numbers of a session a lane holds is known to the
lane alone (`storage.sessions`). A session moves only when its former home can order nothing more of it, because that
lane is closed.
"""

import msgspec

from ithaca.model.limits import ORDERING_SESSIONS_MAX
from ithaca.model.positions import LaneId
from ithaca.ordering.entries import ExpireSession, MoveSession, OpenSession
from ithaca.ordering.lanes import LaneTable
from ithaca.ordering.outcomes import Outcome, Reason, Refused, Session, SessionExpired, SessionMoved, SessionOpened
from ithaca.ordering.shards import ShardTable


class PackedSessions(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot."""

    next_producer_id: int
    sessions: list[Session]


class SessionTable:
    """Sessions by producer id. Ids are never reused; a name that expired gets a new one."""

    def __init__(self, lanes: LaneTable, shards: ShardTable) -> None:
        self._lanes = lanes
        self._shards = shards
        self._next_producer_id = 1
        self.by_id: dict[int, Session] = {}
        self._id_of_name: dict[str, int] = {}

    def open(self, entry: OpenSession) -> list[Outcome]:
        """A known session keeps its home, even a closed one: only a move brings along what it did there."""
        known = self._id_of_name.get(entry.name)
        if known is not None:
            session = self.by_id[known]
            return [SessionOpened(self._put(msgspec.structs.replace(session, epoch=session.epoch + 1)))]
        reason = self._unfit(entry.lane)
        if reason is None and len(self.by_id) >= ORDERING_SESSIONS_MAX:
            reason = "too many sessions"
        if reason is not None:
            return [Refused(entry, reason)]
        session = Session(self._next_producer_id, entry.name, epoch=1, home=entry.lane)
        self._next_producer_id += 1
        self._id_of_name[entry.name] = session.producer_id
        return [SessionOpened(self._put(session))]

    def move(self, entry: MoveSession) -> list[Outcome]:
        session = self.by_id.get(entry.producer_id)
        if session is None:
            return [Refused(entry, "no such session")]
        if entry.epoch != session.epoch:
            return [Refused(entry, "the session was opened again")]
        if session.home == entry.target:
            return [SessionMoved(session, entry.source)]
        reason = self._unmovable(session, entry)
        if reason is not None:
            return [Refused(entry, reason)]
        moved = msgspec.structs.replace(session, home=entry.target, carried=entry.carried)
        return [SessionMoved(self._put(moved), entry.source)]

    def expire(self, entry: ExpireSession) -> list[Outcome]:
        session = self.by_id.get(entry.producer_id)
        if session is None:
            return [Refused(entry, "no such session")]
        if entry.epoch != session.epoch:
            return [Refused(entry, "the session was opened again")]
        del self.by_id[session.producer_id]
        del self._id_of_name[session.name]
        return [SessionExpired(session)]

    def is_known(self, name: str) -> bool:
        return name in self._id_of_name

    def homes(self) -> set[LaneId]:
        return {session.home for session in self.by_id.values()}

    def at_home(self, shard: int) -> list[Session]:
        """The sessions whose home is in this shard."""
        return [session for _, session in sorted(self.by_id.items()) if session.home.shard == shard]

    def packed(self) -> PackedSessions:
        return PackedSessions(self._next_producer_id, [session for _, session in sorted(self.by_id.items())])

    @classmethod
    def restored(cls, packed: PackedSessions, lanes: LaneTable, shards: ShardTable) -> "SessionTable":
        table = cls(lanes, shards)
        table._next_producer_id = packed.next_producer_id
        table.by_id = {session.producer_id: session for session in packed.sessions}
        table._id_of_name = {session.name: session.producer_id for session in packed.sessions}
        return table

    def _unmovable(self, session: Session, entry: MoveSession) -> Reason | None:
        if session.home != entry.source:
            return "the session lives elsewhere"
        reason = self._unfit(entry.target)
        if reason is not None:
            return reason
        return "the source is not closed" if self._lanes.is_open(entry.source) else None

    def _unfit(self, lane: LaneId) -> Reason | None:
        """Why the lane cannot be a home."""
        if not self._lanes.is_open(lane):
            return "the lane is closed" if lane in self._lanes.closed else "no such lane"
        return None if self._shards.is_live(lane.shard) else "the shard is finalizing"

    def _put(self, session: Session) -> Session:
        self.by_id[session.producer_id] = session
        return session
