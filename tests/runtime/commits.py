"""A queue before a small lane on the simulated disk."""

from collections.abc import Callable

from tests.storage.lanes import make_lane, open_lane

from ithaca.runtime.group_commit import EVERY_SESSION, GroupCommit, Ticket
from ithaca.sim.disk import SimDisk
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.sessions import SessionOpened
from ithaca.storage.state import LaneState, TrimmedTo, control_entry
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


def new_lane(disk: SimDisk | None = None, *, through: Disk | None = None, segment_bytes: int = 2500) -> Lane:
    """An empty lane; `through` is the disk that it uses, if not the simulated one itself."""
    disk = disk or SimDisk()
    make_lane(disk)
    return open_lane(through or disk, segment_bytes=segment_bytes)


def queue_before(
    lane: Lane, *, inflight_bytes_max: int = 1 << 20, after_commit: Callable[[], None] | None = None
) -> GroupCommit:
    return GroupCommit(
        lane,
        compression="none",
        clock_us=lambda: 1,
        inflight_bytes_max=inflight_bytes_max,
        after_commit=after_commit or (lambda: None),
    )


def batch_of(values: list[bytes], producer: tuple[int, int, int] = (0, 0, 0)) -> Batch:
    return build(values, timestamp_us=1, producer=producer)


def opening(name: str) -> Ticket:
    """Opens a session, as the embedded log does."""

    def decide(state: LaneState) -> list[Batch]:
        entry, expired = state.sessions.opening(name)
        return [control_entry(change) for change in (expired, entry) if change is not None]

    return Ticket(decide=decide, touches=EVERY_SESSION)


def session_append(opened: SessionOpened, seq: int, values: list[bytes]) -> Ticket:
    """Appends to a session unless an equal batch was."""
    batch = batch_of(values, (opened.producer_id, opened.epoch, seq))

    def decide(state: LaneState) -> list[Batch] | int:
        known = state.sessions.place_of(opened.producer_id, opened.epoch, seq, len(values))
        return [batch] if known is None else known

    return Ticket(batch=batch, decide=decide, touches=opened.producer_id)


def trimming(lsn: int) -> Ticket:
    return Ticket(decide=lambda state: [control_entry(TrimmedTo(lsn))], touches=EVERY_SESSION)
