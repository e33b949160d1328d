"""Exactly once at the session's home: which sessions live there, and how far each of them is.

The ordering layer says which sessions live in the own lane (`engines.scalog.ordering.sessions`); the lane is new with
each start of the replica, so that what is known of a session here is what it brought along and what was accepted since,
all of it in memory. `storage.sessions` keeps the same for lanes on the disk, for `GetSessionTail`. What continues a
session is the rule of `ithaca.sessions`.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import ProtocolError, SessionExpired, WrongLane
from ithaca.model.limits import SESSION_BATCHES_MAX, SESSIONS_MAX
from ithaca.sessions.carried import decode_carried
from ithaca.sessions.continuing import check_epoch, conflict, earlier
from ithaca.users.names import ANONYMOUS
from ithaca.wire.batch import Batch
from ithaca.wire.repeats import differs, mark_of


class KnownBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch of a session: in the own lane at `lsn`, or in a former home, which gave it this position (or 0).

    `mark` tells its records from others (`wire.repeats`); it is empty where they are not known, or need not be.
    """

    first_seq: int
    count: int
    lsn: int
    position: int
    mark: bytes = b""


class _Known:
    __slots__ = ("epoch", "name", "next_seq", "placed")

    def __init__(self, session: Session) -> None:
        carried = decode_carried(session.carried)
        self.name = session.name
        self.epoch = session.epoch
        self.placed = deque((KnownBatch(batch[0], batch[1], -1, batch[2]) for batch in carried), SESSION_BATCHES_MAX)
        self.next_seq = carried[-1][0] + carried[-1][1] if carried else 1


class HomeSessions:
    """The sessions whose home is the own lane."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Known] = {}
        self._expired: OrderedDict[int, str] = OrderedDict()
        """The last that have expired, to say so; of others the ordering layer knows."""

    def arrived(self, session: Session) -> None:
        """The session lives here, under this epoch or a higher one."""
        known = self._by_id.get(session.producer_id)
        if known is not None:
            known.epoch = max(known.epoch, session.epoch)
            return
        try:
            self._by_id[session.producer_id] = _Known(session)
        except ProtocolError:  # what it carries comes from its client: then nothing can be told from a repeat
            self.expired(session)

    def left(self, session: Session) -> None:
        """The session lives elsewhere."""
        self._by_id.pop(session.producer_id, None)

    def expired(self, session: Session) -> None:
        self._by_id.pop(session.producer_id, None)
        self._expired[session.producer_id] = session.name
        if len(self._expired) > SESSIONS_MAX:
            self._expired.popitem(last=False)

    def only(self, sessions: Iterable[Session]) -> None:
        """These live here, and no others."""
        listed = {session.producer_id: session for session in sessions}
        for producer_id in self._by_id.keys() - listed.keys():
            del self._by_id[producer_id]
        for session in listed.values():
            self.arrived(session)

    def name_of(self, producer_id: int) -> str | None:
        """The name of a session that lives here."""
        known = self._by_id.get(producer_id)
        return None if known is None else known.name

    def next_seq(self, producer_id: int, epoch: int) -> int:
        """The number that continues the session."""
        return self._current(producer_id, epoch).next_seq

    def last_lsn(self, producer_id: int) -> int:
        """Where the session's last batch in the own lane is; below 0 when it has none."""
        placed = self._by_id[producer_id].placed
        return placed[-1].lsn if placed else -1

    def place_of(self, batch: Batch) -> KnownBatch | None:
        """Where an earlier equal batch is, None when this one is the next; raises otherwise."""
        known = self._current(batch.producer_id, batch.producer_epoch)
        placed = earlier(known, batch.first_seq, batch.count)
        if placed is not None and placed.mark and differs(placed.mark, batch):
            raise conflict(known.name, batch.first_seq, batch.count)
        return placed

    def accepted(self, batch: Batch) -> None:
        """The batch, which is the next, has its place in the own lane."""
        known = self._by_id[batch.producer_id]
        mark = b"" if known.name.startswith(ANONYMOUS) else mark_of(batch)  # nobody numbers those but the client itself
        known.placed.append(KnownBatch(batch.first_seq, batch.count, batch.base_lsn, 0, mark))
        known.next_seq = batch.first_seq + batch.count

    def _current(self, producer_id: int, epoch: int) -> _Known:
        known = self._by_id.get(producer_id)
        if known is None:
            name = self._expired.get(producer_id)
            if name is not None:
                raise SessionExpired(
                    f"session {name!r} has expired: open it again, and find out which of its records are there "
                    "before going on"
                )
            raise WrongLane(
                f"the session of producer {producer_id} is not known to live in this lane: ask the ordering layer "
                "for its home, and try again"
            )
        check_epoch(known, epoch)
        if epoch > known.epoch:
            raise WrongLane(
                f"session {known.name!r} is known here with epoch {known.epoch}, and epoch {epoch} not yet: try again"
            )
        return known
