"""The names that the ordering layer keeps, a page at a time: sessions and writers."""

import msgspec

from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId
from ithaca.protocol.fields import Counted, Natural


class GetSessions(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: the sessions that have names, those of producer ids above this one."""

    after: Natural = 0


class ListedSession(msgspec.Struct, frozen=True, array_like=True):
    """A session without what only its home can read."""

    producer_id: Counted
    name: str
    epoch: Counted
    home: LaneId
    active_us: Natural
    """By the order's time; 0 when it is not known."""


class SessionsAre(msgspec.Struct, frozen=True, array_like=True):
    """In the order of their ids, as many as one answer holds; nothing says that there are no more."""

    time_us: Natural
    """The order's time."""
    sessions: tuple[ListedSession, ...]


class GetWriters(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: the writers that are remembered, those whose names come after this one."""

    after: str = ""


class WritersAre(msgspec.Struct, frozen=True, array_like=True):
    """In the order of their names, as many as one answer holds; nothing says that there are no more."""

    time_us: Natural
    """The order's time."""
    writers: tuple[tuple[Published, Natural], ...]
    """The newest publication of each, and the order's time of it; 0 when it is not known."""


def listed(session: Session) -> ListedSession:
    """How a session is listed."""
    return ListedSession(session.producer_id, session.name, session.epoch, session.home, session.active_us)
