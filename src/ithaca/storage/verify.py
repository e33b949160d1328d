"""Checking every byte of a lane that anything depends on, and saying what is wrong where.

Nothing is changed. Behind damage the walk goes on at the next entry that belongs to the lane, so one
flipped bit is one finding, not a file full of them. Bytes that count for nothing are not judged: what a
crash left behind the last synced entry, and what a recycled file still holds behind its last.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.limits import SEGMENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.storage import index as indexes
from ithaca.storage.disk import Disk
from ithaca.storage.recovery import inspect
from ithaca.storage.segment import Segment, first_lsns
from ithaca.storage.state import LaneState
from ithaca.storage.synced import NAME, Progress, ProgressFile
from ithaca.wire.batch import DATA, HEAD_BYTES, SNAPSHOT, Batch, lane_seed, parse, stored_bytes


class Finding(NamedTuple):
    """One thing that is wrong."""

    file: str
    offset: int
    problem: str


Advance = Callable[[int], object]
"""Called with the number of bytes checked since the last call."""


def verify_lane(disk: Disk, directory: str, lane: LaneId, advance: Advance) -> Iterator[Finding]:
    """Everything that is wrong with a lane; empty when it is sound."""
    progress: Progress | None = None
    if disk.exists(f"{directory}/{NAME}"):
        progress = ProgressFile(disk, directory, writable=False).load()
        if progress is None:
            yield Finding(f"{directory}/{NAME}", 0, "does not match its checksum; the next writer makes it again")
    firsts = first_lsns(disk.list(directory))
    if not firsts:
        yield Finding(directory, 0, "there are no segments")
        return
    for first, following in pairwise(firsts):
        segment = Segment(disk, directory, first, lane_seed(lane))
        sealed_at = segment.index.blocks[-1].end_offset if segment.index.blocks else 0
        yield from _verify_segment(disk, segment, sealed_at, following, advance)
    last = Segment(disk, directory, firsts[-1], lane_seed(lane))
    yield from _verify_segment(disk, last, end_offset(disk, directory, lane, progress), last.first_lsn, advance)


def end_offset(disk: Disk, directory: str, lane: LaneId, progress: Progress | None) -> int:
    """Up to where the last segment counts at least: behind that, the first entry that does not continue is the end."""
    try:
        end = inspect(disk, directory, lane, progress, writable=False).end_offset
    except (Corrupt, FormatTooNew) as error:
        end = getattr(error, "offset", 0) + 1
    if progress is not None and progress.segment == first_lsns(disk.list(directory))[-1]:
        end = max(end, progress.synced_offset)
    return end


def _verify_segment(
    disk: Disk, segment: Segment, until_offset: int, until_lsn: int, advance: Advance
) -> Iterator[Finding]:
    """Walk all entries; one that does not continue is damage below `until_offset` or `until_lsn`, else the end."""
    offset, lsn = 0, segment.first_lsn
    starts: dict[int, int] = {}
    while True:
        try:
            for at, entry in segment.walk(offset, lsn):
                _check_content(entry, segment, at)
                starts[at] = entry.base_lsn
                advance(entry.total_bytes)
                offset, lsn = at + entry.total_bytes, entry.end_lsn
        except (Corrupt, FormatTooNew) as error:
            if offset >= until_offset and lsn >= until_lsn:
                break
            problem = str(error).removeprefix(f"{segment.path} at byte {offset}: ")
            resumed = next_entry(segment, offset + 8, lsn)
            if resumed is None:
                yield Finding(segment.path, offset, f"{problem}; no entry behind it can be read")
                break
            yield Finding(segment.path, offset, f"{problem}; entries go on at byte {resumed[0]}")
            advance(resumed[0] - offset)
            offset, lsn = resumed
    yield from _verify_index(disk, segment, starts)


def _check_content(entry: Batch, segment: Segment, offset: int) -> None:
    """What checksums do not say: that the content can be decoded."""
    try:
        if entry.kind == DATA:
            entry.columns()
        elif entry.kind == SNAPSHOT:
            LaneState.restored(entry)
        else:
            LaneState().apply(entry)
    except Corrupt as error:
        raise Corrupt(str(error), file=segment.path, offset=offset) from None


def next_entry(segment: Segment, offset: int, lsn: int) -> tuple[int, int] | None:
    """Offset and LSN of the next sound entry of the lane at or behind `offset`."""
    for at in segment.possible_entries(offset):
        size = stored_bytes(segment.file.read(at, HEAD_BYTES), 0)
        with suppress(Corrupt, FormatTooNew):
            entry = parse(segment.file.read(at, size))
            if entry.base_lsn >= lsn and entry.belongs_to(segment.seed):
                return at, entry.base_lsn
    return None


def _verify_index(disk: Disk, segment: Segment, starts: dict[int, int]) -> Iterator[Finding]:
    """The index says nothing that the segment does not say too."""
    if not disk.exists(segment.index_path):
        return
    data = disk.open(segment.index_path, writable=False).read(0, SEGMENT_BYTES_MAX)
    index, problem = indexes.load(data, segment_bytes=segment.file.size())
    if problem:
        yield Finding(segment.index_path, index.blocks_bytes, f"{problem}; it is made again from the segment")
    for lsn, offset in index.entries():
        if starts.get(offset) != lsn:
            yield Finding(segment.index_path, 0, f"says that LSN {lsn} starts at byte {offset}, and it does not")
