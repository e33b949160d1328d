"""Walking a segment: every entry, whatever the chunks, and nothing that does not continue the lane."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage.lanes import disk_of

from ithaca.model.errors import Corrupt
from ithaca.model.limits import AHEAD_BYTES_MIN, ALLOCATE_AHEAD_BYTES, MIB
from ithaca.model.positions import LaneId
from ithaca.storage.disk import OsDisk
from ithaca.storage.segment import Segment, SegmentWriter, first_lsns, index_name_of, name_of
from ithaca.wire.batch import SNAPSHOT, Batch, lane_seed
from ithaca.wire.build import bookkeeping, build

SEED = lane_seed(LaneId(0, 0, 1))


@settings(max_examples=100)
@given(
    shapes=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 300)), max_size=25),
    first=st.integers(0, 1 << 40),
    chunk_bytes=st.integers(1, 2000),
    behind=st.binary(max_size=100),
)
def test_walking_a_segment_gives_every_entry_whatever_the_chunks(
    shapes: list[tuple[int, int]], first: int, chunk_bytes: int, behind: bytes
) -> None:
    entries = [bookkeeping(SNAPSHOT, b"s").placed(first, SEED)]
    lsn = first
    for count, size in shapes:
        entries.append(build([bytes(size)] * count, timestamp_us=0).placed(lsn, SEED))
        lsn += count
    data = b"".join(bytes(part) for entry in entries for part in entry.buffers())
    segment = Segment(disk_of({name_of(first): data + behind}), "/lane", first, SEED)
    at, found = 0, list[Batch]()
    walk = segment.walk(0, first, chunk_bytes=chunk_bytes)
    for entry in entries:
        offset, batch = next(walk)
        assert offset == at
        at += entry.total_bytes
        found.append(batch)
    with pytest.raises(Corrupt) as caught:
        next(walk)
    assert (caught.value.file, caught.value.offset) == (f"/lane/{name_of(first)}", len(data))
    assert [(batch.head, bytes(batch.body)) for batch in found] == [
        (entry.head, bytes(entry.body)) for entry in entries
    ]


def test_a_walk_refuses_what_does_not_continue_the_lane() -> None:
    batch = build([b"x"], timestamp_us=0)
    cases = {
        "another LSN": batch.placed(6, SEED),
        "another lane": batch.placed(5, lane_seed(LaneId(0, 0, 2))),
    }
    for entry in cases.values():
        data = b"".join(map(bytes, entry.buffers()))
        segment = Segment(disk_of({name_of(5): data}), "/lane", 5, SEED)
        with pytest.raises(Corrupt, match="does not continue the lane at LSN 5"):
            next(segment.walk(0, 5))


def test_what_is_held_ahead_grows_with_what_is_there(tmp_path: Path) -> None:
    disk = OsDisk()
    disk.open(f"{tmp_path}/{name_of(0)}", create=True)
    writer = SegmentWriter(Segment(disk, str(tmp_path), 0, SEED, writable=True), 0)
    end = 0
    for size in (100, 1000, 50_000, 100_000, MIB, 20 * MIB, MIB, 100, 100):
        writer.write(end, [bytes(size)], size, durably=False)
        end += size
        held = os.stat(tmp_path / name_of(0)).st_blocks * 512 - end
        assert held <= 2 * max(end, AHEAD_BYTES_MIN) + 8192, f"{held} bytes are held ahead of {end}"
        assert held <= ALLOCATE_AHEAD_BYTES + MIB
    assert held > 10 * MIB, "and no less where there is much"


def test_names_of_segments() -> None:
    names = [name_of(12), name_of(3), index_name_of(12), "synced", "recycled-" + name_of(1), "7.seg", "x" * 20 + ".seg"]
    assert first_lsns(names) == [3, 12]
