"""Sessions that nobody uses: which of them expire. Pure.

A leader counts from when it first saw a session as it is now: same epoch, same next number. So it never says too early
that one is idle, whatever clocks show; who leads for less long than that lets sessions live longer.
"""

from ithaca.engines.raft.replog.entries import ExpireSessions
from ithaca.engines.raft.replog.sessions import Sessions, is_anonymous
from ithaca.model.limits import SESSION_ANONYMOUS_IDLE_S, SESSIONS_TOGETHER_MAX


class IdleSessions:
    """What one leader has seen of sessions, during its term."""

    def __init__(self, named_idle_s: float | None) -> None:
        """Sessions with a name stay for ever where the cluster's file says nothing of it."""
        self._named_idle_s = named_idle_s
        self._seen: dict[int, tuple[int, int, float]] = {}
        """By producer: epoch, next number, and since when it is so."""

    def look(self, sessions: Sessions, now_s: float) -> ExpireSessions | None:
        """What is to be agreed on now; `now_s` is a clock that never falls."""
        seen: dict[int, tuple[int, int, float]] = {}
        idle: list[tuple[int, int]] = []
        for session in sessions.by_id.values():
            epoch, next_seq, since_s = self._seen.get(session.producer_id, (0, 0, now_s))
            if (epoch, next_seq) != (session.epoch, session.next_seq):
                since_s = now_s
            seen[session.producer_id] = (session.epoch, session.next_seq, since_s)
            limit_s = SESSION_ANONYMOUS_IDLE_S if is_anonymous(session) else self._named_idle_s
            if limit_s is not None and now_s - since_s >= limit_s:
                idle.append((session.producer_id, session.epoch))
        self._seen = seen
        return ExpireSessions(tuple(idle[:SESSIONS_TOGETHER_MAX])) if idle else None
