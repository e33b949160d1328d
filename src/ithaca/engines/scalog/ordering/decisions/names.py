"""Names that nobody uses: idle sessions expire, and idle writers are forgotten (design §5 "Exactly once").

The order knows when a session was opened or moved; whether it has appended since is known to its home alone. So the
home is asked which number it goes on with: if that is another one than the last time, the session was active, and the
order notes it. A session is idle if its number stayed the same for as long as is asked for, whoever led meanwhile.
What lost its home counts as active until then. A home that does not answer is asked again, and nothing expires.
"""

from typing import NamedTuple

from ithaca.engines.scalog.ordering.entries import ExpireIdle, NoteSessions
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.engines.scalog.ordering.prepared.entries import ForgetWriters
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.limits import (
    ORDERING_NAMED_SESSIONS_MAX,
    ORDERING_SESSIONS_MAX,
    SESSION_ANONYMOUS_IDLE_S,
    SESSION_CROWD_IDLE_S,
    SESSIONS_TOGETHER_MAX,
    WRITERS_TOGETHER_MAX,
)
from ithaca.model.positions import LaneId


class Found(NamedTuple):
    """What a look has found: what is to be ordered, in this order."""

    active: NoteSessions | None
    idle: ExpireIdle | None


class IdleLook:
    """One look at sessions of one kind that seem idle: whom to ask, and what comes of it."""

    def __init__(
        self, state: OrderingState, sessions: list[Session], since_us: int, time_us: int, *, expires: bool
    ) -> None:
        self._state = state
        self._since_us = since_us
        self._time_us = time_us
        self._expires = expires
        self._at_home: dict[LaneId, list[Session]] = {}
        for session in sessions:
            self._at_home.setdefault(session.home, []).append(session)
        self._active: list[tuple[int, int]] = []
        self._idle: list[tuple[int, int]] = []

    @property
    def homes(self) -> list[LaneId]:
        """Where to ask, one after the other."""
        return list(self._at_home)

    def to_ask(self, home: LaneId) -> list[Session]:
        """Of whom this home is to be asked now: nobody can say more of those of a closed lane, which are idle."""
        sessions = self._at_home[home]
        if self._state.lanes.is_open(home):
            return sessions
        self._idle += [(each.producer_id, each.epoch) for each in sessions]
        return []

    def answered(self, session: Session, next_seq: int) -> None:
        """The home goes on with this number."""
        if next_seq != session.seen_seq:
            self._active.append((session.producer_id, next_seq))
        else:
            self._idle.append((session.producer_id, session.epoch))

    def found(self) -> Found:
        """What is to be ordered. Who was not answered for stays as it is."""
        active = NoteSessions(tuple(self._active), self._time_us) if self._active else None
        if not self._idle or not self._expires:
            return Found(active, None)
        return Found(active, ExpireIdle(tuple(self._idle), self._since_us, self._time_us))


class IdleNames:
    """Which names go, during one term. `time_us` is the order's time."""

    def __init__(self, state: OrderingState, *, session_idle_s: float | None, writer_idle_s: float | None) -> None:
        """Names stay for ever where the cluster's file says nothing of it."""
        self._state = state
        self._session_idle_s = session_idle_s
        self._writer_idle_s = writer_idle_s
        self._after = 0  # the last session that was looked at: the next look goes on behind it

    def writers(self, time_us: int) -> ForgetWriters | None:
        """The writers that are idle, some of them."""
        if self._writer_idle_s is None:
            return None
        since_us = time_us - int(self._writer_idle_s * 1e6)
        if since_us < 0:
            return None
        idle = [(each.writer, each.key) for each in self._state.parts.writers.idle_since(since_us)]
        return ForgetWriters(tuple(idle[:WRITERS_TOGETHER_MAX]), since_us, time_us) if idle else None

    def named(self, time_us: int) -> IdleLook | None:
        """A look at sessions with a name."""
        if self._session_idle_s is None:
            return None
        return self._look(self._session_idle_s, time_us, anonymous=False)

    def anonymous(self, time_us: int) -> IdleLook | None:
        """A look at sessions of plain appends."""
        return self._look(SESSION_ANONYMOUS_IDLE_S, time_us, anonymous=True)

    def crowd(self, time_us: int) -> IdleLook | None:
        """A look at sessions of plain appends that may soon have to make room: then it counts which of them are idle.

        They are noted only: who goes is decided by the entry that needs the room.
        """
        if self._state.sessions.anonymous * 2 <= ORDERING_SESSIONS_MAX - ORDERING_NAMED_SESSIONS_MAX:
            return None
        return self._look(SESSION_CROWD_IDLE_S, time_us, anonymous=True, expires=False)

    def _look(self, idle_s: float, time_us: int, *, anonymous: bool, expires: bool = True) -> IdleLook | None:
        since_us = time_us - int(idle_s * 1e6)
        if since_us < 0:
            return None
        found = self._state.sessions.idle_since(since_us, anonymous=anonymous)
        later = [each for each in found if each.producer_id > self._after]
        some = [*later, *(each for each in found if each.producer_id <= self._after)][:SESSIONS_TOGETHER_MAX]
        self._after = some[-1].producer_id if some else 0
        return IdleLook(self._state, some, since_us, time_us, expires=expires)
