"""The own lane: what it accepts, and whom it owes an answer."""

from collections import deque

from ithaca.engines.scalog.ordering.outcomes import ExpiredSession, SessionMoved, SessionOpened
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    AcknowledgeAt,
    Appended,
    DiskFull,
    Effect,
    Refuse,
    Request,
    Write,
)
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.sessions import HomeSessions, KnownBatch
from ithaca.model.cut import LaneRun
from ithaca.model.errors import IthacaError, Overloaded, SessionError, StorageFull, Unavailable, WrongLane
from ithaca.model.limits import APPEND_REPEATS_MAX, LANE_PENDING_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.wire.batch import Batch, lane_seed


class _Pending:
    """A batch in the lane that no cut has covered, and who waits for it."""

    __slots__ = ("base_lsn", "end_lsn", "requests", "size_bytes")

    def __init__(self, batch: Batch, request: Request) -> None:
        self.base_lsn = batch.base_lsn
        self.end_lsn = batch.end_lsn
        self.size_bytes = batch.total_bytes
        self.requests = [request]


class Appends:
    """Accepts batches into the lane of this boot, once there is one, until it is closed."""

    def __init__(self, effects: list[Effect]) -> None:
        self._effects = effects
        self._copy: LaneCopy | None = None
        self._seed = 0
        self._pending: deque[_Pending] = deque()
        self._pending_at: dict[int, _Pending] = {}
        self.pending_bytes = 0
        self.sessions = HomeSessions()
        self.is_full = False
        """Whether the disk is."""

    def open(self, copy: LaneCopy) -> None:
        """This is the lane of this boot."""
        self._copy = copy
        self._seed = lane_seed(copy.lane)

    def is_own(self, copy: LaneCopy) -> bool:
        return copy is self._copy

    def append(self, event: Appended) -> None:
        request, lane, batch = event
        copy = self._copy
        if copy is None or lane != copy.lane or not copy.is_open:
            self._effects.append(Refuse(request, self._wrong_lane(lane)))
        elif not copy.is_ready:
            self._effects.append(Refuse(request, Unavailable(f"lane {lane} is being made: try again")))
        elif batch.producer_id:
            self._append_to_session(copy, request, batch)
        else:
            self._accept(copy, request, batch)

    def next_seq(self, lane: LaneId, producer_id: int, epoch: int) -> int:
        """The number that continues the session in this lane; raises what an append would be refused with."""
        if self._copy is None or lane != self._copy.lane or not self._copy.is_open:
            raise self._wrong_lane(lane)
        next_seq = self.sessions.next_seq(producer_id, epoch)
        last = self.sessions.last_lsn(producer_id)
        if last in self._pending_at:
            # If the lane were closed now, these batches would be gone, and nothing could follow the number.
            raise Unavailable(f"batches of producer {producer_id} are not ordered yet: ask again")
        return next_seq

    def session_came(self, event: SessionOpened | SessionMoved) -> None:
        """A session of this shard was opened, or has moved from it or to it."""
        if self._copy is not None and event.session.home == self._copy.lane:
            self.sessions.arrived(event.session)
        else:
            self.sessions.left(event.session)

    def session_expired(self, event: ExpiredSession) -> None:
        if self._copy is not None and event.session.home == self._copy.lane:
            self.sessions.expired(event.session)

    def ordered(self, run: LaneRun) -> None:
        """A run of the lane is known: who waits for a batch in it gets its position."""
        pending, stop = self._pending, run.lsn + run.count
        while pending and pending[0].base_lsn < stop:
            batch = pending.popleft()
            assert batch.base_lsn >= run.lsn, f"the batch at {batch.base_lsn} straddles {run}"
            assert batch.end_lsn <= stop, f"the batch at {batch.base_lsn} straddles {run}"
            self._forget(batch)
            position = run.position + batch.base_lsn - run.lsn
            for request in batch.requests:
                self._effects.append(Acknowledge(request, position))

    def closed(self, length: int) -> None:
        """Nothing of the lane beyond this length is ordered, ever."""
        assert self._copy is not None
        while self._pending and self._pending[-1].base_lsn >= length:
            self._refuse(self._pending.pop(), self._wrong_lane(self._copy.lane))

    def disk_full(self, event: DiskFull) -> None:
        self.is_full = event.is_full

    def dropped(self) -> None:
        """The lane was closed and trimmed whole before this replica heard how much of it was ordered."""
        assert self._copy is not None
        while self._pending:
            self._refuse(self._pending.popleft(), _outcome_gone(self._copy.lane))

    def abandoned(self) -> None:
        """The replica was removed: what became of the lane is known to others alone."""
        assert self._copy is not None
        error = Unavailable(f"the replica of lane {self._copy.lane} was removed: ask another what was ordered of it")
        while self._pending:
            self._refuse(self._pending.popleft(), error)

    def ended(self) -> None:
        """The lane is closed, and not that of this boot any more: who waits asks what was ordered of it."""
        copy, self._copy = self._copy, None
        while copy is not None and self._pending:  # ordered, at positions that are not known here yet
            self._refuse(
                self._pending.popleft(), Unavailable(f"lane {copy.lane} is closed: ask what was ordered of it")
            )
        self.sessions.only(())

    def position_unknown(self, stop: int) -> None:
        """The lane is ordered up to here, at positions that nobody knows any more."""
        while self._pending and self._pending[0].base_lsn < stop:
            self._refuse(self._pending.popleft(), position_gone())

    def _append_to_session(self, copy: LaneCopy, request: Request, batch: Batch) -> None:
        try:
            placed = self.sessions.place_of(batch)
        except SessionError as error:
            self._effects.append(Refuse(request, error))
            return
        if placed is not None:
            self._repeat(copy, request, placed)
        elif self._accept(copy, request, batch):
            self.sessions.accepted(batch)

    def _accept(self, copy: LaneCopy, request: Request, batch: Batch) -> bool:
        """Have it written, if there is room; says whether there is."""
        lane = copy.lane
        if self.is_full:
            error = StorageFull(f"the disk of lane {lane} is full: make room, or append to another shard")
            self._effects.append(Refuse(request, error))
            return False
        if self.pending_bytes + batch.total_bytes > LANE_PENDING_BYTES_MAX:
            self._effects.append(Refuse(request, self._overloaded(lane)))
            return False
        batch.placed(copy.received, self._seed)
        copy.received = batch.end_lsn
        pending = _Pending(batch, request)
        self._pending.append(pending)
        self._pending_at[pending.base_lsn] = pending
        self.pending_bytes += pending.size_bytes
        self._effects.append(Write(lane, batch))
        return True

    def _repeat(self, copy: LaneCopy, request: Request, placed: KnownBatch) -> None:
        """The batch is there already: it gets the answer of the one it repeats."""
        pending = self._pending_at.get(placed.lsn)
        if placed.lsn < 0 and not placed.position:
            self._effects.append(Refuse(request, position_gone()))
        elif placed.lsn < 0:
            self._effects.append(Acknowledge(request, placed.position))
        elif pending is None:
            self._effects.append(AcknowledgeAt(request, placed.lsn))
        elif len(pending.requests) >= APPEND_REPEATS_MAX:
            self._effects.append(Refuse(request, self._overloaded(copy.lane)))
        else:
            pending.requests.append(request)

    def _forget(self, batch: _Pending) -> None:
        del self._pending_at[batch.base_lsn]
        self.pending_bytes -= batch.size_bytes

    def _refuse(self, batch: _Pending, error: IthacaError) -> None:
        self._forget(batch)
        for request in batch.requests:
            self._effects.append(Refuse(request, error))

    def _wrong_lane(self, lane: LaneId) -> WrongLane:
        if self._copy is not None and lane == self._copy.lane:
            return WrongLane(f"lane {lane} is closed: append to another lane")
        return WrongLane(f"lane {lane} is not accepted here: append to a lane of the present view")

    def _overloaded(self, lane: LaneId) -> Overloaded:
        return Overloaded(
            f"lane {lane} holds {self.pending_bytes} bytes that are not ordered yet, and takes at most "
            f"{LANE_PENDING_BYTES_MAX}: try again later, or append to another lane"
        )


def _outcome_gone(lane: LaneId) -> Unavailable:
    error = Unavailable(
        f"lane {lane} was closed, and trimmed, while this replica could not follow: whether the batch was ordered is "
        "not known any more"
    )
    error.outcome_unknown = True
    return error


def position_gone() -> Unavailable:
    """The answer for a batch that is there, at a position that nobody knows any more."""
    error = Unavailable("the batch was ordered, and trimmed since: its position is not known any more")
    error.outcome_unknown = True
    return error
