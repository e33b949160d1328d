"""What a leader takes: batches that continue their sessions, put behind its whole log, and made into ranges.

It goes by what the log will be once everything in it is committed. That is known as soon as the leader has applied an
entry of its own term: then nothing before it can be lost any more, and what follows is its own (`ithaca.raft`, §8).
What was taken together becomes one range, proposed when the turn of the loop ends: the group commit of eBay §3.3.
"""

from collections import OrderedDict, deque

from ithaca.engines.raft.replog.entries import BATCHES_MAX, Control, Range, RangeBatch, range_of
from ithaca.engines.raft.replog.sessions import Session, SessionBatch, Sessions, is_anonymous
from ithaca.engines.raft.replog.state import LogState
from ithaca.model.limits import ORDERING_NAMED_SESSIONS_MAX, SESSION_BATCHES_MAX
from ithaca.raft.limits import RAFT_APPEND_BYTES_MAX
from ithaca.sessions.continuing import conflict
from ithaca.wire.batch import Batch
from ithaca.wire.repeats import differs, mark_of


class Placing:
    """A leader's log in one term: made when all of it that others began is applied."""

    def __init__(self, committed: LogState, seed: int) -> None:
        """`seed` is of the lane (`wire.batch.lane_seed`)."""
        self._log = committed.copy()
        self._seed = seed
        self._taken: list[Batch] = []
        self._taken_bytes = 0
        self._sessions: dict[int, Session] = {}
        """Those that what was taken continues, as they will be."""
        self._marks: OrderedDict[int, deque[tuple[int, bytes]]] = OrderedDict()
        """By producer: where the last batches are that this leader has taken, and what tells their records."""

    @property
    def length(self) -> int:
        """Behind everything that was proposed."""
        return self._log.length

    @property
    def taken_bytes(self) -> int:
        """Of what was taken and not proposed yet."""
        return self._taken_bytes

    def is_full(self, batch: Batch) -> bool:
        """Whether what was taken must be proposed before this batch: a range travels in one message, with its bytes."""
        if not self._taken:
            return False
        return self._taken_bytes + batch.total_bytes > RAFT_APPEND_BYTES_MAX or len(self._taken) >= BATCHES_MAX

    def take(self, batch: Batch) -> SessionBatch:
        """Put the batch behind all others, or say where it is if it is there already.

        Raises `SessionExpired`, `SessionFenced`, `SequenceGap`, and `SequenceConflict` for other records under numbers
        that this leader has taken before.
        """
        said = RangeBatch(batch.count, batch.producer_id, batch.producer_epoch, batch.first_seq)
        session = self._sessions.get(batch.producer_id) or self._log.sessions.get(batch.producer_id)
        repeated = session.repeated(said)
        if repeated is not None:
            self._check_same(session.name, repeated, batch)
            return repeated
        lsn = self._taken[-1].end_lsn if self._taken else self._log.length
        batch.placed(lsn, self._seed)
        self._taken.append(batch)
        self._taken_bytes += batch.total_bytes
        after = self._sessions[batch.producer_id] = session.after(said, lsn)
        if not is_anonymous(session):  # nobody numbers those but the client itself
            self._mark(batch)
        return after.placed[-1]

    def _mark(self, batch: Batch) -> None:
        marks = self._marks.setdefault(batch.producer_id, deque(maxlen=SESSION_BATCHES_MAX))
        marks.append((batch.base_lsn, mark_of(batch)))
        self._marks.move_to_end(batch.producer_id)
        if len(self._marks) > ORDERING_NAMED_SESSIONS_MAX:
            self._marks.popitem(last=False)

    def _check_same(self, name: str, repeated: SessionBatch, batch: Batch) -> None:
        for lsn, mark in reversed(self._marks.get(batch.producer_id, ())):
            if lsn == repeated.base_lsn:
                if differs(mark, batch):
                    raise conflict(name, batch.first_seq, batch.count)
                return

    def range(self) -> tuple[Range, list[Batch]] | None:
        """What was taken, to be proposed: then say `proposed`, or `refused` when it was not."""
        return (range_of(self._taken), self._taken) if self._taken else None

    def proposed(self, entry: Range | Control) -> None:
        """This entry is in the log now. Controls are proposed when nothing that was taken waits."""
        if isinstance(entry, Range):
            self.refused()
        assert not self._taken, "what was taken comes before what is asked for later"
        self._log.apply(entry)

    def refused(self) -> None:
        """What was taken will not be in the log; whoever sent it is told."""
        self._taken, self._taken_bytes = [], 0
        self._sessions.clear()

    @property
    def sessions(self) -> Sessions:
        """As they are behind everything that was proposed."""
        return self._log.sessions
