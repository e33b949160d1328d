"""The parts that are written here: what they accept, and whom they owe an answer (design §5 "Prepared appends").

A part is a lane that one client writes once, with batches that name their places in it, so that a retry is told from
what comes next. Nothing of it is ordered until it is published; the ordering layer says when it is sealed or gone.
"""

from collections import deque
from collections.abc import Mapping

from ithaca.engines.scalog.ordering.prepared.outcomes import StagedPart
from ithaca.engines.scalog.replica.appends import Appends
from ithaca.engines.scalog.replica.events import AnswerStaged, Effect, PartAppended, Refuse, Request, Unfollow, Write
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.model.errors import InvalidInput, IthacaError, Overloaded, PartGone, StorageFull, Unavailable, WrongLane
from ithaca.model.limits import APPEND_REPEATS_MAX, LANE_PENDING_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.wire.batch import lane_seed


class _Written:
    """A part that is being written: its token, and the batches that are not synced."""

    __slots__ = ("early", "pending", "pending_bytes", "token")

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.pending: deque[tuple[int, int, Request]] = deque()
        """Where each ends, its bytes, and who waits for it."""
        self.pending_bytes = 0
        self.early: list[PartAppended] = []
        """What came before the part was made on the disk."""


class Staging:
    """Accepts batches into the unfinished parts of this boot."""

    def __init__(self, replica: int, lanes: Mapping[LaneId, LaneCopy], appends: Appends, effects: list[Effect]) -> None:
        self._replica = replica
        self._lanes = lanes
        self._appends = appends
        self._effects = effects
        self._written: dict[LaneId, _Written] = {}

    def is_written_here(self, lane: LaneId) -> bool:
        return lane in self._written

    def opened(self, part: StagedPart) -> None:
        """There is this part, which is not sealed."""
        if part.lane.replica == self._replica and part.lane not in self._written:
            self._written[part.lane] = _Written(part.token)

    def made(self, lane: LaneId) -> None:
        """The part can be written."""
        written = self._written.get(lane)
        if written is not None:
            early, written.early = written.early, []
            for event in early:
                self.append(event)

    def append(self, event: PartAppended) -> None:
        try:
            self._append(event)
        except IthacaError as error:
            self._effects.append(Refuse(event.request, error))

    def synced(self, copy: LaneCopy) -> None:
        """More of a part is durable: who waits for that is told."""
        written = self._written.get(copy.lane)
        while written is not None and written.pending and written.pending[0][0] <= copy.durable:
            end, size, request = written.pending.popleft()
            written.pending_bytes -= size
            self._effects.append(AnswerStaged(request, end))

    def ended(self, lane: LaneId) -> None:
        """The part is sealed, or gone: nothing more is written."""
        written = self._written.pop(lane, None)
        if written is not None:
            self._effects.append(Unfollow(lane))
            requests = [*(request for _, _, request in written.pending), *(event.request for event in written.early)]
            self._effects += (Refuse(request, part_gone(lane)) for request in requests)

    def abandoned(self) -> None:
        """The replica was removed, and with it whatever it had not finished."""
        for lane in list(self._written):
            self.ended(lane)

    def _append(self, event: PartAppended) -> None:
        written, copy = self._written.get(event.lane), self._lanes.get(event.lane)
        if written is None or copy is None:
            raise WrongLane(f"part {event.lane} is not written here: it is gone, or not known yet")
        if event.token != written.token:
            raise InvalidInput(f"part {event.lane} belongs to another client: its token is not this one")
        if len(written.pending) + len(written.early) >= APPEND_REPEATS_MAX:
            raise Overloaded(f"{APPEND_REPEATS_MAX} batches of part {event.lane} are not synced: await some first")
        if not copy.is_ready:
            size = sum(each.batch.total_bytes for each in written.early)
            if size + event.batch.total_bytes > LANE_PENDING_BYTES_MAX:
                raise _overloaded(event, size)
            written.early.append(event)
            return
        end = event.lsn + event.batch.count
        if event.lsn > copy.received or event.lsn < copy.received < end:
            raise Unavailable(f"part {event.lane} goes on at {copy.received}, not at {event.lsn}: send what is before")
        if end <= copy.received:
            self._wait(written, copy, end, 0, event.request)
            return
        self._check_room(written, event)
        event.batch.placed(copy.received, lane_seed(event.lane))
        copy.received = end
        self._effects.append(Write(event.lane, event.batch))
        self._wait(written, copy, end, event.batch.total_bytes, event.request)

    def _wait(self, written: _Written, copy: LaneCopy, end: int, size: int, request: Request) -> None:
        """Answer once the part is durable up to here; a repeat may come behind what it repeats."""
        if end <= copy.durable:
            self._effects.append(AnswerStaged(request, end))
            return
        written.pending.append((end, size, request))
        written.pending_bytes += size

    def _check_room(self, written: _Written, event: PartAppended) -> None:
        if self._appends.is_full:
            raise StorageFull(f"the disk of part {event.lane} is full: make room, or prepare it in another shard")
        if written.pending_bytes + event.batch.total_bytes > LANE_PENDING_BYTES_MAX:
            raise _overloaded(event, written.pending_bytes)


def _overloaded(event: PartAppended, size: int) -> Overloaded:
    return Overloaded(
        f"part {event.lane} has {size} bytes that are not synced, and takes at most {LANE_PENDING_BYTES_MAX}: try "
        "again later"
    )


def part_gone(lane: LaneId) -> PartGone:
    return PartGone(
        f"part {lane} takes no more: it was finished, aborted or has expired, or its replica was removed or started "
        "again before it was finished: prepare it again"
    )
