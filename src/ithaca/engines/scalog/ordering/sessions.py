"""Sessions: who may append as whom, and where (design §5 "Exactly once").

The ordering layer decides epochs, homes and expiry; which numbers of a session a lane holds is known to the
lane alone (`storage.sessions`). A session moves only when its former home can order nothing more of it, because that
lane is closed.

Names are for ever, until somebody expires one or it was idle for as long as the cluster's file says. Anonymous
sessions have places of their own: when all are taken, the one that was idle for longest makes room for the next.
"""

from collections import Counter
from heapq import heapify, heappop, heappush

import msgspec

from ithaca.engines.scalog.ordering.entries import ExpireIdle, ExpireSession, MoveSession, NoteSessions, OpenSession
from ithaca.engines.scalog.ordering.lanes import LaneTable
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    LaneClosed,
    Outcome,
    Reason,
    RefusedEntry,
    Session,
    SessionMoved,
    SessionOpened,
)
from ithaca.engines.scalog.ordering.shards import ShardTable
from ithaca.model.limits import ORDERING_NAMED_SESSIONS_MAX, ORDERING_SESSIONS_MAX
from ithaca.model.positions import LaneId
from ithaca.users.names import ANONYMOUS


class PackedSessions(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot."""

    next_producer_id: int
    sessions: list[Session]


class SessionRegistry:
    """Sessions by producer id. Ids are never reused; a name that expired gets a new one."""

    def __init__(self, lanes: LaneTable, shards: ShardTable) -> None:
        self._lanes = lanes
        self._shards = shards
        self._next_producer_id = 1
        self.by_id: dict[int, Session] = {}
        self._id_of_name: dict[str, int] = {}
        self._homes: Counter[LaneId] = Counter()
        self.named = 0
        """How many have a name."""
        self._idle: list[tuple[int, int]] = []
        """A heap of anonymous sessions by their last activity, with rows that do not hold any more among them."""

    @property
    def anonymous(self) -> int:
        """How many have no name."""
        return len(self.by_id) - self.named

    def find(self, name: str) -> Session | None:
        producer_id = self._id_of_name.get(name)
        return None if producer_id is None else self.by_id[producer_id]

    def open(self, entry: OpenSession, time_us: int, *, has_room: bool = True) -> list[Outcome]:
        """A known session keeps its home, even a closed one: only a move brings along what it did there."""
        known = self.find(entry.name)
        if known is not None:
            opened = msgspec.structs.replace(known, epoch=known.epoch + 1, active_us=time_us)
            return [SessionOpened(self._put(opened))]
        reason = self._unfit(entry.lane)
        if reason is None and not self._has_place(entry.name):
            reason = "too many sessions"
        if reason is not None:
            return [RefusedEntry(entry, reason)]
        made_room = self._make_room(has_room=has_room)
        session = Session(self._next_producer_id, entry.name, epoch=1, home=entry.lane, active_us=time_us)
        self._next_producer_id += 1
        return [*made_room, SessionOpened(self._put(session))]

    def move(self, entry: MoveSession, time_us: int) -> list[Outcome]:
        session = self.by_id.get(entry.producer_id)
        if session is None:
            return [RefusedEntry(entry, "no such session")]
        if entry.epoch != session.epoch:
            return [RefusedEntry(entry, "the session was opened again")]
        if session.home == entry.target:
            return [SessionMoved(session, entry.source)]
        reason = self._unmovable(session, entry)
        if reason is not None:
            return [RefusedEntry(entry, reason)]
        moved = msgspec.structs.replace(session, home=entry.target, carried=entry.carried, active_us=time_us)
        return [SessionMoved(self._put(moved), entry.source)]

    def expire(self, entry: ExpireSession) -> list[Outcome]:
        session = self.by_id.get(entry.producer_id)
        if session is None:
            return [RefusedEntry(entry, "no such session")]
        if entry.epoch != session.epoch:
            return [RefusedEntry(entry, "the session was opened again")]
        return [self._expired(session)]

    def note(self, entry: NoteSessions, time_us: int) -> list[Outcome]:
        """Whoever would go on with another number than before has appended since."""
        for producer_id, next_seq in entry.seen:
            session = self.by_id.get(producer_id)
            if session is not None and session.seen_seq != next_seq:
                self._put(msgspec.structs.replace(session, seen_seq=next_seq, active_us=time_us))
        return []

    def expire_idle(self, entry: ExpireIdle, time_us: int) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for producer_id, epoch in entry.sessions:
            session = self.by_id.get(producer_id)
            if session is None or session.epoch != epoch or session.active_us > entry.since_us:
                continue
            if session.active_us:
                outcomes.append(self._expired(session))
            else:  # of an earlier version: its time begins now
                self._put(msgspec.structs.replace(session, active_us=time_us))
        return outcomes

    def follow(self, outcomes: list[Outcome], time_us: int) -> None:
        """What these outcomes mean for sessions: nobody can say any more what those of a closed lane did last."""
        for outcome in outcomes:
            if isinstance(outcome, LaneClosed) and outcome.lane in self._homes:
                for session in [each for each in self.by_id.values() if each.home == outcome.lane]:
                    self._put(msgspec.structs.replace(session, active_us=max(session.active_us, time_us)))

    def idle_since(self, since_us: int, *, anonymous: bool) -> list[Session]:
        """The sessions of one kind that were not active after this time, in the order of their ids."""
        return [
            session
            for _, session in sorted(self.by_id.items())
            if session.active_us <= since_us and session.is_anonymous == anonymous
        ]

    def is_known(self, name: str) -> bool:
        return name in self._id_of_name

    def homes(self) -> set[LaneId]:
        return set(self._homes)

    def at_home(self, shard: int) -> list[Session]:
        """The sessions whose home is in this shard."""
        return [session for _, session in sorted(self.by_id.items()) if session.home.shard == shard]

    def packed(self) -> PackedSessions:
        return PackedSessions(self._next_producer_id, [session for _, session in sorted(self.by_id.items())])

    @classmethod
    def restored(cls, packed: PackedSessions, lanes: LaneTable, shards: ShardTable) -> "SessionRegistry":
        table = cls(lanes, shards)
        table._next_producer_id = packed.next_producer_id
        for session in packed.sessions:
            table._put(session)
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

    def _has_place(self, name: str) -> bool:
        """Only names may find none."""
        return name.startswith(ANONYMOUS) or self.named < ORDERING_NAMED_SESSIONS_MAX

    def _make_room(self, *, has_room: bool) -> list[Outcome]:
        """Have the anonymous session go that was idle for longest, unless table and state have room for one more."""
        reserved = ORDERING_SESSIONS_MAX - ORDERING_NAMED_SESSIONS_MAX
        is_full = len(self.by_id) >= ORDERING_SESSIONS_MAX and self.anonymous >= reserved
        if not self.anonymous or (has_room and not is_full):
            return []
        while True:
            active_us, producer_id = heappop(self._idle)
            session = self.by_id.get(producer_id)
            if session is not None and session.active_us == active_us:
                return [self._expired(session)]

    def _expired(self, session: Session) -> ExpiredSession:
        del self.by_id[session.producer_id]
        del self._id_of_name[session.name]
        self._leave_home(session)
        self.named -= not session.is_anonymous
        return ExpiredSession(session)

    def _put(self, session: Session) -> Session:
        former = self.by_id.get(session.producer_id)
        if former is not None:
            self._leave_home(former)
        else:
            self.named += not session.is_anonymous
        self._homes[session.home] += 1
        self.by_id[session.producer_id] = session
        self._id_of_name[session.name] = session.producer_id
        if session.is_anonymous:
            self._push_idle(session)
        return session

    def _leave_home(self, session: Session) -> None:
        self._homes[session.home] -= 1
        if not self._homes[session.home]:
            del self._homes[session.home]

    def _push_idle(self, session: Session) -> None:
        heappush(self._idle, (session.active_us, session.producer_id))
        if len(self._idle) > 4 * (self.anonymous + 16):
            rows = ((each.active_us, each.producer_id) for each in self.by_id.values() if each.is_anonymous)
            self._idle = list(rows)
            heapify(self._idle)
