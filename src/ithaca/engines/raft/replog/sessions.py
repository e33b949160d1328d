"""Sessions of the log: who may append what, by the rule of `ithaca.sessions`.

They are opened by control entries, and go on by the batches in ranges. There is room for so many: with one more the
anonymous one that was unused for longest goes, and another name is refused while too many are taken.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.raft.replog.entries import RangeBatch
from ithaca.model.errors import SessionExpired
from ithaca.model.limits import ORDERING_NAMED_SESSIONS_MAX, ORDERING_SESSIONS_MAX, SESSION_BATCHES_MAX
from ithaca.sessions.continuing import check_epoch, earlier
from ithaca.users.names import ANONYMOUS

_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class SessionBatch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where a batch of a session is."""

    first_seq: _Natural
    count: _Natural
    base_lsn: _Natural

    @property
    def end_lsn(self) -> int:
        return self.base_lsn + self.count


class Session(msgspec.Struct, frozen=True, array_like=True):
    """One session: the epoch under which it was opened last, the next number, and its last batches."""

    producer_id: _Natural
    name: str
    epoch: _Natural
    next_seq: _Natural = 1
    placed: tuple[SessionBatch, ...] = ()

    def after(self, batch: RangeBatch, base_lsn: int) -> "Session":
        """The same once this batch, which continues it, is in the log."""
        last = SessionBatch(batch.first_seq, batch.count, base_lsn)
        placed = (*self.placed, last)[-SESSION_BATCHES_MAX:]
        return Session(self.producer_id, self.name, self.epoch, batch.first_seq + batch.count, placed)

    def repeated(self, batch: RangeBatch) -> SessionBatch | None:
        """Where the batch is that this one repeats; None if it is the next one; `SessionFenced`, `SequenceGap`."""
        check_epoch(self, batch.epoch)
        if batch.epoch > self.epoch:
            raise expired(batch.producer_id)  # of an opening that was never agreed on
        return earlier(self, batch.first_seq, batch.count)


class Sessions:
    """By producer, the one unused for longest first."""

    def __init__(self, sessions: Iterable[Session] = (), next_producer_id: int = 1) -> None:
        self.by_id: OrderedDict[int, Session] = OrderedDict((each.producer_id, each) for each in sessions)
        self._id_of_name = {each.name: each.producer_id for each in self.by_id.values()}
        self.next_producer_id = next_producer_id
        self._named = sum(not is_anonymous(each) for each in self.by_id.values())

    def copy(self) -> "Sessions":
        return Sessions(self.by_id.values(), self.next_producer_id)

    def __len__(self) -> int:
        return len(self.by_id)

    def named(self) -> Iterator[Session]:
        """Those with a name, in the order in which they were first opened."""
        return (self.by_id[number] for number in sorted(self.by_id) if not is_anonymous(self.by_id[number]))

    def get(self, producer_id: int) -> Session:
        """`SessionExpired` when there is none."""
        found = self.by_id.get(producer_id)
        if found is None:
            raise expired(producer_id)
        return found

    def find(self, name: str) -> Session | None:
        number = self._id_of_name.get(name)
        return None if number is None else self.by_id[number]

    def open(self, name: str) -> Session | None:
        """The session under a new epoch; None when too many names are taken."""
        known = self.find(name)
        if known is not None:
            session = Session(known.producer_id, name, known.epoch + 1, known.next_seq, known.placed)
        else:
            if not name.startswith(ANONYMOUS) and self._named >= ORDERING_NAMED_SESSIONS_MAX:
                return None
            if len(self.by_id) >= ORDERING_SESSIONS_MAX:
                self._make_room()
            session = Session(self.next_producer_id, name, 1)
            self.next_producer_id += 1
            self._id_of_name[name] = session.producer_id
            self._named += not is_anonymous(session)
        self._put(session)
        return session

    def went_on(self, batch: RangeBatch, base_lsn: int) -> None:
        """A batch is in the log: whoever took it knew the log before it, and so that it is the next."""
        session = self.by_id.get(batch.producer_id)
        assert session is not None, f"{batch} is of no session"
        assert (session.epoch, session.next_seq) == (batch.epoch, batch.first_seq), (session, batch)
        self._put(session.after(batch, base_lsn))

    def expire(self, producer_id: int, epoch: int) -> bool:
        """Forget a session, unless it was opened again; says whether."""
        session = self.by_id.get(producer_id)
        if session is None or session.epoch != epoch:
            return False
        self._forget(session)
        return True

    def _put(self, session: Session) -> None:
        self.by_id[session.producer_id] = session
        self.by_id.move_to_end(session.producer_id)

    def _make_room(self) -> None:
        self._forget(next(each for each in self.by_id.values() if is_anonymous(each)))

    def _forget(self, session: Session) -> None:
        del self.by_id[session.producer_id]
        del self._id_of_name[session.name]
        self._named -= not is_anonymous(session)


def expired(producer_id: int) -> SessionExpired:
    return SessionExpired(
        f"the session (producer {producer_id}) has expired: open it again, and find out which of its records are there "
        "before going on"
    )


def is_anonymous(session: Session) -> bool:
    return session.name.startswith(ANONYMOUS)
