"""Cutting a lane back to its first records, durably (design §2 "incarnation").

A crash at any point leaves a lane that opens, is a prefix of the old one and no shorter than was asked for,
so that the cut can be repeated. The order of the steps sees to that:

1. What a crash left is settled, and the place of the cut is found: nothing is touched if there is no batch
   boundary there.
2. The `synced` file, durably, says nothing of offsets any more.
3. The index of the segment that becomes the last loses the blocks behind the cut: a block that says more
   than the segment holds would be taken for damage.
4. The segments behind go: first all their indexes, for the last block of a sealed segment needs a segment
   behind it, then the files, the last one first. Should one of them be found as the last, it is walked from
   its start, and what no mark vouches for is written again, as after any crash.
5. The segment that is now the last is cut, and only when that is durable a mark is put at its end. In the
   other order, marks further on could outlive the entries before them.

Sessions need no care: every snapshot holds what the entries before it add up to, and those behind it are
replayed when the lane is opened.
"""

from ithaca.model.errors import Corrupt
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.storage import index as indexes
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.segment import Segment, index_name_of, name_of
from ithaca.storage.synced import Progress, ProgressFile
from ithaca.wire.batch import HEAD_BYTES, MARK, lane_seed
from ithaca.wire.build import bookkeeping


def truncate(disk: Disk, directory: str, lane: LaneId, length: int) -> None:
    """Cut a lane that is not open to its first `length` records; one that has no more is left alone."""
    opened = Lane(disk, directory, lane)
    first_lsns, trim_lsn, before = opened.first_lsns, opened.trim_lsn, opened.length
    opened.release()
    if length >= before:
        return
    assert length >= max(first_lsns[0], trim_lsn), "what was trimmed is ordered"
    kept = max(first for first in first_lsns if first <= length)
    segment = Segment(disk, directory, kept, lane_seed(lane), writable=True)
    offset = _offset_behind(segment, length)
    progress = ProgressFile(disk, directory, writable=True)
    progress.store(Progress(length, trim_lsn, kept, 0, 0), durably=True)
    _cut_index(disk, segment, offset)
    _remove_segments(disk, directory, [first for first in first_lsns if first > kept])
    segment.file.truncate(offset)
    segment.file.sync()
    segment.file.write(offset, bookkeeping(MARK).placed(length, segment.seed).buffers())
    segment.file.sync()


def _offset_behind(segment: Segment, length: int) -> int:
    """Where the lane's first `length` records end; `Corrupt` when a batch lies across."""
    lsn, offset = segment.offset_of(length - 1) if length > segment.first_lsn else (length, 0)
    for at, entry in segment.walk(offset, lsn):
        offset = at + entry.total_bytes
        if entry.end_lsn >= length:
            if entry.end_lsn > length:
                raise Corrupt(
                    f"the lane was ordered up to LSN {length}, and the batch here ends at {entry.end_lsn}: "
                    "it is not the batch that was ordered",
                    file=segment.path,
                    offset=at,
                )
            break
    return offset


def _cut_index(disk: Disk, segment: Segment, offset: int) -> None:
    """Keep the blocks whose snapshots stand before `offset`."""
    if not disk.exists(segment.index_path):
        return
    file = disk.open(segment.index_path)
    kept, _ = indexes.load(file.read(0, SEGMENT_BYTES_MAX), segment_bytes=offset - HEAD_BYTES)
    file.truncate(kept.blocks_bytes)
    file.sync()


def _remove_segments(disk: Disk, directory: str, first_lsns: list[int]) -> None:
    for first in first_lsns:
        if disk.exists(f"{directory}/{index_name_of(first)}"):
            disk.remove(f"{directory}/{index_name_of(first)}")
    disk.sync_directory(directory)
    for first in reversed(first_lsns):
        disk.remove(f"{directory}/{name_of(first)}")
        disk.sync_directory(directory)
