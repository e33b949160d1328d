"""Putting small settled lanes into packs."""

from ithaca.engines.scalog.storage.held_lane import StoredLane
from ithaca.engines.scalog.storage.limits import PACK_LANE_BYTES_MAX, PACK_LANE_RUNS_MAX
from ithaca.engines.scalog.storage.pack import HAS_HOLES, SAYS_FOLLOWS, PackedAt, PackWriter
from ithaca.engines.scalog.storage.runs_format import DENSE, FOLLOWING, encode_runs
from ithaca.storage.index import Index
from ithaca.storage.lane import Lane
from ithaca.wire.batch import MARK, crc32c


def fits(held: StoredLane) -> bool:
    """Whether a settled lane is small enough for a pack."""
    return bytes_of(held.lane) <= PACK_LANE_BYTES_MAX and held.runs.count <= PACK_LANE_RUNS_MAX


def bytes_of(lane: Lane) -> int:
    return sum(map(lane.bytes_of, lane.first_lsns))


def write_lane(writer: PackWriter, held: StoredLane) -> PackedAt:
    """Copy a settled lane; every batch of it is checked on the way. `Corrupt` if one does not check out."""
    lane, runs, offset = held.lane, held.runs.all(), writer.offset
    entries_bytes, index = _write_entries(writer, lane)
    snapshot = lane.state.snapshot_entry().placed(lane.length, lane.seed)
    snapshot_bytes = writer.write(snapshot.buffers())
    is_dense = not any(run.follows for run in runs)
    tables = index.encoded() + encode_runs(runs, DENSE if is_dense else FOLLOWING)
    writer.write([tables])
    first, last = (runs[0], runs[-1]) if runs else (None, None)
    return PackedAt(
        lane=held.lane_id,
        length=lane.length,
        first_lsn=lane.first_lsns[0],
        trim_lsn=lane.trim_lsn,
        start_position=first.position if first else 0,
        end_position=last.position + last.count if last else 0,
        start_us=first.time_us if first else 0,
        end_us=last.time_us if last else 0,
        offset=offset,
        entries_bytes=entries_bytes,
        snapshot_bytes=snapshot_bytes,
        index_count=len(index),
        runs_count=len(runs),
        tables_crc=crc32c(tables),
        flags=(HAS_HOLES if lane.state.has_holes else 0) | (0 if is_dense else SAYS_FOLLOWS),
        follows=first.follows if first else 0,
    )


def _write_entries(writer: PackWriter, lane: Lane) -> tuple[int, Index]:
    """Copy the entries of all segments, one behind the other, without marks."""
    index, size, time_us = Index(), 0, 0
    ends = [*lane.first_lsns[1:], lane.length]
    for first_lsn, end in zip(lane.first_lsns, ends, strict=True):
        for _, entry in lane.segment(first_lsn).walk(0, first_lsn):
            if entry.kind != MARK:
                time_us = max(time_us, entry.timestamp_us)
                if entry.count:
                    index.note(entry.base_lsn, size, time_us)
                size += writer.write(entry.buffers())
            if entry.end_lsn >= end:
                break
    return size, index
