"""Exactly once at the session's home: what continues it, what repeats it, and what it takes along when it moves.

The ordering layer says which sessions live in the own lane (`engines.scalog.ordering.sessions`); the lane is new with
each start of the replica, so that what is known of a session here is what it brought along and what was accepted since,
all of it in memory. `storage.sessions` keeps the same for lanes on the disk, for `GetSessionTail`.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable

import msgspec

from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError, SequenceGap, SessionExpired, SessionFenced, WrongLane
from ithaca.model.limits import (
    SEQUENCE_MAX,
    SESSION_BATCHES_MAX,
    SESSION_CARRIED_BYTES_MAX,
    SESSIONS_MAX,
    SHARD_NUMBER_MAX,
)
from ithaca.wire.batch import Batch

Carried = tuple[int, int, int, int]
"""A batch of a session that is ordered: its first number, its records, its position (0 when that was trimmed, and is
not known any more), and its shard."""

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Carried])


def encode_carried(placed: Iterable[Carried]) -> bytes:
    """What a session takes along to its next home: its last batches, in order.

    >>> decode_carried(encode_carried([(1, 2, 17, 0), (3, 1, 40, 2)]))
    [(1, 2, 17, 0), (3, 1, 40, 2)]
    """
    data = _encoder.encode(list(placed)[-SESSION_BATCHES_MAX:])
    assert len(data) <= SESSION_CARRIED_BYTES_MAX
    return data


def decode_carried(data: bytes) -> list[Carried]:
    """The inverse of `encode_carried`; a session that has done nothing takes along nothing."""
    if not data:
        return []
    try:
        placed = _decoder.decode(data)
    except UNDECODABLE as error:
        raise ProtocolError(f"what a session carries cannot be decoded: {error}") from error
    after = 1
    for first_seq, count, position, shard in placed:
        if first_seq < after or count < 1 or position < 0 or not 0 <= shard <= SHARD_NUMBER_MAX:
            raise ProtocolError(f"what a session carries is not a list of batches in order: {placed}")
        after = first_seq + count
    if after > SEQUENCE_MAX:
        raise ProtocolError(f"what a session carries ends with number {after - 1}, above the last, {SEQUENCE_MAX - 1}")
    return placed[-SESSION_BATCHES_MAX:]


def merged_carried(older: Iterable[Carried], newer: Iterable[Carried]) -> list[Carried]:
    """What a session takes along that brought `older` with it, and did `newer` since.

    >>> merged_carried([(1, 2, 17, 0), (3, 1, 40, 0)], [(3, 1, 40, 0), (4, 1, 55, 2)])
    [(1, 2, 17, 0), (3, 1, 40, 0), (4, 1, 55, 2)]
    """
    by_number = {batch[0]: batch for batch in (*older, *newer)}
    return [by_number[first_seq] for first_seq in sorted(by_number)][-SESSION_BATCHES_MAX:]


class KnownBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch of a session: in the own lane at `lsn`, or in a former home, which gave it this position (or 0)."""

    first_seq: int
    count: int
    lsn: int
    position: int


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
        if batch.first_seq == known.next_seq:
            return None
        for placed in reversed(known.placed):
            if placed.first_seq == batch.first_seq and placed.count == batch.count:
                return placed
        oldest = known.placed[0].first_seq if known.placed else known.next_seq
        raise SequenceGap(
            f"session {known.name!r} expects number {known.next_seq}, and knows the batches since number {oldest}: "
            f"{batch.count} record(s) numbered from {batch.first_seq} are neither next nor one of those"
        )

    def accepted(self, batch: Batch) -> None:
        """The batch, which is the next, has its place in the own lane."""
        known = self._by_id[batch.producer_id]
        known.placed.append(KnownBatch(batch.first_seq, batch.count, batch.base_lsn, 0))
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
        if epoch < known.epoch:
            raise SessionFenced(
                f"session {known.name!r} was opened again (epoch {known.epoch}); this handle has epoch {epoch} "
                "and may not append any more"
            )
        if epoch > known.epoch:
            raise WrongLane(
                f"session {known.name!r} is known here with epoch {known.epoch}, and epoch {epoch} not yet: try again"
            )
        return known
