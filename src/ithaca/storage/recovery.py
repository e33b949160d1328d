"""Opening a lane after a crash (design §4).

Only the last segment is looked at, from its last checkpoint on. A *bound* says what is known to have been
synced: the last mark, the last block of the index, the `synced` file. Entries are walked until one does
not continue the lane:

* below the bound, or with a mark behind it, that is damage to synced bytes: `Corrupt`, nothing is touched;
* above the bound it is where a crash cut the lane: the rest was never acknowledged, and goes.

What stands between the bound and that end may be in the page cache only, left there by a sync that failed,
and would be acknowledged on the strength of a read. So it is written again, into a new segment that is
synced before it counts. The same goes for the name of a segment to which nothing was committed yet.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from ithaca.model.errors import Corrupt
from ithaca.model.positions import LaneId
from ithaca.storage.disk import Disk
from ithaca.storage.segment import Segment, first_lsns, index_name_of, name_of
from ithaca.storage.state import LaneState
from ithaca.storage.synced import Progress, ProgressFile
from ithaca.wire.batch import HEAD_BYTES, MARK, Batch, lane_seed, parse
from ithaca.wire.build import bookkeeping

NEW_SUFFIX = ".new"
_KIND_AT = 9
"""Where a head says of which kind its batch is."""


class Inspected(NamedTuple):
    """What a lane's directory holds; looking changed nothing."""

    first_lsns: list[int]
    segment: Segment
    state: LaneState
    end_offset: int
    """Where the first entry that does not continue the lane stands."""
    bound_offset: int
    bound_lsn: int
    checkpoint_offset: int
    entries_end: int
    """Where the last entry that is not a mark ends: behind the bound, it may not have been synced."""
    notes: list[tuple[int, int, int]]
    """Entries for the index: LSN, offset, time."""
    named: bool
    """Whether something was committed to the segment, which proves that its name is durable."""


def inspect(disk: Disk, directory: str, lane: LaneId, progress: Progress | None, *, writable: bool) -> Inspected:
    """Walk the tail of a lane; raises `Corrupt` for damage below the bound."""
    firsts = first_lsns(disk.list(directory))
    if not firsts:
        raise Corrupt("a lane without segments: they were removed from outside", file=directory)
    if progress is not None and progress.segment > firsts[-1]:
        raise Corrupt(f"the segment {name_of(progress.segment)} is missing", file=directory)
    segment = Segment(disk, directory, firsts[-1], lane_seed(lane), writable=writable)
    found = _walk(segment, firsts)
    if progress is not None and progress.segment == segment.first_lsn:
        found = _raise_bound(found, progress)
    if _mark_behind(segment, found.end_offset, found.state.length):
        raise Corrupt("synced entries are damaged: a mark stands behind", file=segment.path, offset=found.end_offset)
    return found


def _walk(segment: Segment, firsts: list[int]) -> Inspected:
    size = segment.file.size()
    if segment.index.synced_offset > size:
        message = f"entries up to byte {segment.index.synced_offset} were synced, and the file ends here"
        raise Corrupt(message, file=segment.path, offset=size)
    offset, lsn = checkpoint_of(segment)
    entries = segment.walk(offset, lsn)
    snapshot = next(entries)[1]  # written and synced before the segment or the block was: no crash excuses it
    state = LaneState.restored(snapshot)
    checkpoint = offset
    end_offset = bound_offset = offset + snapshot.total_bytes
    entries_end, bound_lsn = end_offset, lsn
    notes: list[tuple[int, int, int]] = []
    named = checkpoint > 0
    try:
        for offset, entry in entries:
            end_offset = offset + entry.total_bytes
            if entry.kind == MARK:
                bound_offset, bound_lsn, named = offset, entry.base_lsn, True
            else:
                entries_end = end_offset
            if entry.count:
                notes.append((entry.base_lsn, offset, max(state.time_us, entry.timestamp_us)))
            state.apply(entry)
    except Corrupt:
        pass  # judged by the caller, who knows the bound
    return Inspected(
        first_lsns=firsts,
        segment=segment,
        state=state,
        end_offset=end_offset,
        bound_offset=bound_offset,
        bound_lsn=bound_lsn,
        checkpoint_offset=checkpoint,
        entries_end=entries_end,
        notes=notes,
        named=named,
    )


def checkpoint_of(segment: Segment) -> tuple[int, int]:
    """Offset and LSN of the last snapshot that is known to be in the segment."""
    blocks = segment.index.blocks
    return (blocks[-1].end_offset, blocks[-1].end_lsn) if blocks else (0, segment.first_lsn)


def _raise_bound(found: Inspected, progress: Progress) -> Inspected:
    if progress.synced_offset > found.end_offset:
        raise Corrupt(
            f"entries up to byte {progress.synced_offset} were synced, and one does not check out",
            file=found.segment.path,
            offset=found.end_offset,
        )
    if progress.synced_offset == 0:
        return found
    if progress.synced_offset <= found.bound_offset:
        return found._replace(named=True)
    return found._replace(bound_offset=progress.synced_offset, bound_lsn=progress.synced_length, named=True)


def _mark_behind(segment: Segment, offset: int, lsn: int) -> bool:
    """Whether a mark of this lane stands anywhere behind `offset`: then what precedes it was synced."""
    for at in segment.possible_entries(offset):
        head = segment.file.read(at, HEAD_BYTES)
        if len(head) < HEAD_BYTES or head[_KIND_AT] != MARK:
            continue
        with suppress(Corrupt):
            entry = parse(head)
            if entry.base_lsn >= lsn and entry.belongs_to(segment.seed):
                return True
    return False


def settle(disk: Disk, directory: str, found: Inspected, progress_file: ProgressFile) -> Inspected:
    """Make what was found count: cut what a crash tore, rewrite what may not have been synced."""
    for name in disk.list(directory):
        if name.endswith(NEW_SUFFIX):
            disk.remove(f"{directory}/{name}")
    segment = found.segment
    if found.entries_end <= found.bound_offset and found.named:
        return _cut(found)
    if found.bound_lsn == segment.first_lsn and found.named:
        # Its name goes to another file below; what is said of offsets must not outlive this one.
        progress = Progress(found.bound_lsn, found.state.trim_lsn, segment.first_lsn, 0, 0)
        progress_file.store(progress, durably=True)
    rewritten = _rewrite(disk, directory, found)
    if rewritten.segment.first_lsn != segment.first_lsn:
        for note in found.notes:
            if note[1] < found.bound_offset:
                segment.index.note(*note)
        segment.file.truncate(found.bound_offset)
        segment.file.sync()
        segment.index.store_block(disk.open(segment.index_path, create=True), found.bound_offset, found.bound_lsn)
    return rewritten


def _cut(found: Inspected) -> Inspected:
    """End the file behind its last synced entry; a mark there may be in the page cache only, so it is written again."""
    file, end_offset = found.segment.file, found.bound_offset
    if found.end_offset > end_offset:
        mark = bookkeeping(MARK).placed(found.bound_lsn, found.segment.seed)
        file.write(end_offset, mark.buffers())
        end_offset += mark.total_bytes
    file.truncate(end_offset)
    file.sync()
    return found._replace(end_offset=end_offset)


def _rewrite(disk: Disk, directory: str, found: Inspected) -> Inspected:
    first, old = found.bound_lsn, found.segment
    path = f"{directory}/{name_of(first)}"
    file = disk.open(path + NEW_SUFFIX, create=True)
    file.truncate(0)
    seed = old.seed
    times = {lsn: time_us for lsn, _, time_us in found.notes}
    snapshot = _state_at_bound(found).snapshot_entry().placed(first, seed)
    file.write(0, snapshot.buffers())
    offset = snapshot.total_bytes
    notes: list[tuple[int, int, int]] = []
    for entry in _loose(found):
        file.write(offset, entry.buffers())
        if entry.count:
            notes.append((entry.base_lsn, offset, times[entry.base_lsn]))
        offset += entry.total_bytes
    file.sync()
    if disk.exists(f"{directory}/{index_name_of(first)}"):
        disk.remove(f"{directory}/{index_name_of(first)}")
    disk.rename(path + NEW_SUFFIX, path)
    disk.sync_directory(directory)
    firsts = sorted({*found.first_lsns, first})
    segment = Segment(disk, directory, first, seed, writable=True)
    return Inspected(
        first_lsns=firsts,
        segment=segment,
        state=found.state,
        end_offset=offset,
        bound_offset=offset,
        bound_lsn=found.state.length,
        checkpoint_offset=0,
        entries_end=offset,
        notes=notes,
        named=True,
    )


def _state_at_bound(found: Inspected) -> LaneState:
    """The state before the entries that are written again behind its snapshot."""
    state: LaneState | None = None
    for offset, entry in found.segment.walk(*checkpoint_of(found.segment)):
        if state is None:
            state = LaneState.restored(entry)
        else:
            state.apply(entry)
        if offset + entry.total_bytes >= found.bound_offset:
            break
    assert state is not None
    return state


def _loose(found: Inspected) -> Iterator[Batch]:
    """The entries behind the bound, without marks."""
    if found.entries_end <= found.bound_offset:
        return
    for offset, entry in found.segment.walk(found.bound_offset, found.bound_lsn):
        if entry.kind != MARK:
            yield entry
        if offset + entry.total_bytes >= found.entries_end:
            return
