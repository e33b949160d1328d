"""Reading a lane of many segments: few of them are open at a time."""

from random import Random

import pytest
from tests.storage.lanes import DIRECTORY, LANE, Source, make_lane, open_lane, read_rows, write

from ithaca.model.errors import Corrupt
from ithaca.sim.disk import SimDisk, SimFile
from ithaca.storage import index, reader
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.wire.batch import HEAD_BYTES

pytestmark = pytest.mark.usefixtures("small_limits")


OPEN_MAX = 3


class Counting(SimDisk):
    """Notes which segments are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> SimFile:
        if path.endswith(".seg"):
            self.opened.append(path)
        return super().open(path, create=create, writable=writable)


def reader_beside(disk: SimDisk, lane: Lane) -> LaneReader:
    """A reader that knows what is committed of the lane, as one in another process does."""
    other = LaneReader(disk, DIRECTORY, LANE)
    other.first_lsns, other.length = lane.first_lsns, lane.length
    return other


def test_as_many_segments_stay_open_as_the_bound_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "OPEN_SEGMENTS_MAX", OPEN_MAX)
    disk = Counting()
    make_lane(disk)
    lane, source = open_lane(disk), Source(Random(1))
    while len(lane.first_lsns) < OPEN_MAX + 4:
        write(lane, [source.records(4)])
    firsts = lane.first_lsns[: OPEN_MAX + 1]
    assert lane.lane == LANE
    assert lane.directory == DIRECTORY

    def read(segments: list[int]) -> int:
        disk.opened.clear()
        for first in segments:
            Cursor(lane, first).read(first + 1, bytes_max=1)
        return len(disk.opened)

    kept = firsts[1:]
    assert read(firsts) >= len(kept)
    assert read(kept) == 0, "the newest that were read are still open"
    assert read(firsts[:1]) == 1, "and the oldest of them was closed"
    assert read(kept[1:]) == 0


def test_a_reader_that_is_told_of_no_trim_reads_from_the_first_record_on() -> None:
    disk = SimDisk()
    make_lane(disk)
    lane = open_lane(disk)
    written = [Source(Random(2)).records(3)]
    write(lane, written)
    other = reader_beside(disk, lane)
    assert read_rows(other, 0, lane.length) == list(written[0].rows)


def test_a_record_behind_a_damaged_batch_is_read_and_who_reads_on_meets_the_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(index, "INDEX_STRIDE_BYTES", 1 << 20)  # the index knows where the segment begins, and no more
    disk = SimDisk()
    make_lane(disk)
    lane, source = open_lane(disk), Source(Random(3))
    written = [source.records(1) for _ in range(8)]
    write(lane, written)
    other = reader_beside(disk, lane)
    [damaged] = Cursor(other, 3).read(4, bytes_max=1)
    segment = other.segment(0)
    offset = next(at for at, batch in segment.walk(0, 0) if batch.count and batch.base_lsn == 3)
    byte = segment.file.read(offset + damaged.total_bytes - 1, 1)
    disk.open(segment.path).write(offset + damaged.total_bytes - 1, [bytes([byte[0] ^ 1])])

    assert read_rows(other, 5, 6) == list(written[5].rows)
    assert read_rows(other, 2, 3) == list(written[2].rows)
    for start in (2, 3):
        with pytest.raises(Corrupt):
            read_rows(other, start, 5)


def test_a_damaged_head_on_the_way_is_found_by_a_walk_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "INDEX_STRIDE_BYTES", 1 << 20)
    disk = SimDisk()
    make_lane(disk)
    lane, source = open_lane(disk), Source(Random(4))
    write(lane, [source.records(1) for _ in range(8)])
    other = reader_beside(disk, lane)
    segment = other.segment(0)
    offset = next(at for at, batch in segment.walk(0, 0) if batch.count and batch.base_lsn == 3)
    disk.open(segment.path).write(offset + 16, [b"\xf8\xff\x00\x00"])  # its length
    with pytest.raises(Corrupt) as found:
        read_rows(other, 5, 6)
    assert found.value.offset == offset


def test_many_small_batches_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()
    make_lane(disk)
    lane, source = open_lane(disk, segment_bytes=1 << 20), Source(Random(5))
    written = [source.records(1) for _ in range(60)]
    write(lane, written)
    other = reader_beside(disk, lane)
    cursor, reads, read = Cursor(other, 0), [0], SimFile.read

    def counted(file: SimFile, offset: int, count: int) -> bytes:
        reads[0] += file is other.segment(0).file
        return read(file, offset, count)

    cursor.read(other.length, bytes_max=1)
    at = cursor.lsn
    monkeypatch.setattr(SimFile, "read", counted)
    batches = cursor.read(other.length, bytes_max=1 << 20)
    assert (at, [batch.base_lsn for batch in batches]) == (1, list(range(1, 60)))
    assert reads[0] <= 2


def test_whether_the_next_read_waits_for_a_disk_is_asked_of_the_place_where_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimDisk()
    make_lane(disk)
    lane, source = open_lane(disk), Source(Random(6))
    write(lane, [source.records(1) for _ in range(3)])
    other = reader_beside(disk, lane)
    second = next(offset for offset, batch in other.segment(0).walk(0, 0) if batch.count and batch.base_lsn == 1)
    asked: list[tuple[int, int]] = []

    def is_resident(_: SimFile, offset: int, count: int) -> bool:
        asked.append((offset, count))
        return len(asked) > 1

    monkeypatch.setattr(SimFile, "is_resident", is_resident)
    cursor = Cursor(other, 0)
    assert not cursor.is_resident(10), "nobody knows yet where it is"
    cursor.read(1, bytes_max=1)
    assert [cursor.is_resident(1 << 20) for _ in range(2)] == [False, True]
    assert asked == [(second, 1 << 20)] * 2
    assert cursor.is_resident(1)
    assert asked[-1][1] > HEAD_BYTES, "the next batch is as large as the last one was"
    cursor.read(3)
    assert not cursor.is_resident(10), "there is nothing to read yet"
    assert len(asked) == 3
