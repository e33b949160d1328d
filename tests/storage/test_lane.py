"""A lane on the simulated disk and on the real one: what goes in comes out, through rolls, trims and reopening."""

from pathlib import Path
from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, table_of
from tests.storage.conftest import Place
from tests.storage.lanes import (
    LANE,
    NaiveLane,
    Source,
    Written,
    check_reads,
    control,
    make_lane,
    open_lane,
    read_rows,
    session_table,
    write,
)

from ithaca.model.errors import Corrupt, Trimmed
from ithaca.model.positions import LaneId
from ithaca.model.records import Durability
from ithaca.storage.disk import OsDisk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor
from ithaca.storage.recovery import inspect
from ithaca.storage.state import TrimmedTo
from ithaca.storage.synced import ProgressFile
from ithaca.wire.build import noops

pytestmark = pytest.mark.usefixtures("small_limits")


def files(place: Place, suffix: str) -> list[str]:
    return [name for name in place.disk.list(place.directory) if name.endswith(suffix)]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_a_life_without_accidents(place: Place, durability: Durability) -> None:
    random = Random(21)
    source, written = Source(random), list[Written]()
    make_lane(place.disk, place.directory)
    opened = open_lane(place.disk, place.directory, durability=durability)
    recycled = 0
    for step in range(160):
        group = [source.records() for _ in range(random.randint(1, 3))]
        if step % 7 == 0:
            group += source.opening(opened)
        elif step % 5 == 0:
            group += source.session_records(opened)
        if step % 13 == 12:
            group.append(source.trim(opened))
        write(opened, group)
        written += group
        opened.drop_trimmed()
        recycled += any(name.startswith("recycled-") for name in place.disk.list(place.directory))
        if step % 40 == 39:
            model = NaiveLane(written)
            check_reads(opened, model, random)
            opened.close()
            opened = open_lane(place.disk, place.directory, durability=durability)
            check_reads(opened, model, random)
            assert session_table(opened) == model.session_table()
    assert len(files(place, ".seg")) > 1
    assert recycled


def test_a_group_larger_than_a_segment_goes_whole(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(Random(1))
    groups = [[source.records(60)], [source.records(1)], [source.records(50), source.records(50)], [source.records(1)]]
    for group in groups:
        write(opened, group)
    check_reads(opened, NaiveLane([entry for group in groups for entry in group]), Random(1))


def test_noops_have_lsns_and_no_records(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(Random(2))
    first = source.records(2)
    opened.commit(opened.prepare([first.batch, noops(1_000_000, timestamp_us=3), source.records(1).batch]))
    assert opened.length == 1_000_003
    opened = open_lane(place.disk, place.directory)
    assert opened.length == 1_000_003
    assert len(read_rows(opened, 0, opened.length)) == 3
    assert [batch.count for batch in Cursor(opened, 5).read(6)] == [1_000_000]


def test_what_was_known_before_any_batch_can_be_told(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), ClusterSource(Random(4))
    known: list[tuple[int, bytes]] = []
    for _ in range(40):
        entry = source.batch()
        known.append((opened.length, bytes(opened.state.snapshot_entry().body)))
        write(opened, [entry])
    assert len(opened.first_lsns) > 2
    for lsn, body in known:
        assert bytes(opened.state_before(lsn).snapshot_entry().body) == body
    write(opened, [control(TrimmedTo(opened.first_lsns[1]))])
    opened.drop_trimmed()
    with pytest.raises(Trimmed):
        opened.state_before(0)


def test_a_copy_that_got_a_snapshot_for_what_it_lacks_has_no_holes(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), ClusterSource(Random(5))
    entries = [source.batch() for _ in range(12)]
    write(opened, entries)
    before, last = opened.state_before(opened.length - 1), entries[-1]
    lacking = opened.length - last.batch.count
    make_lane(place.disk, f"{place.directory}-copy")
    copy = open_lane(place.disk, f"{place.directory}-copy")
    copy.commit(copy.prepare([noops(lacking, timestamp_us=0)]))
    assert copy.state.has_holes
    copy.commit(copy.prepare([before.snapshot_entry(), last.batch]))
    for found in (copy, open_lane(place.disk, f"{place.directory}-copy")):
        assert found.length == opened.length
        assert not found.state.has_holes
        assert table_of(found) == table_of(opened)


def test_reading_below_the_trim_point_says_what_is_left(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(Random(3))
    write(opened, [source.records(4), control(TrimmedTo(3))])
    for lsn in range(3):
        with pytest.raises(Trimmed) as caught:
            Cursor(opened, lsn).read(4)
        assert caught.value.first == 4
    assert len(read_rows(opened, 3, 4)) == 1


def test_checkpoints_bound_what_recovery_reads(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory, segment_bytes=1 << 20), Source(Random(4))
    for _ in range(60):
        write(opened, [source.records(2)])
    assert len(opened._writer.segment.index.blocks) > 3
    progress = ProgressFile(place.disk, place.directory, writable=False).load()
    found = inspect(place.disk, place.directory, LANE, progress, writable=False)
    assert found.checkpoint_offset == opened._writer.segment.index.blocks[-1].end_offset
    assert found.state.length == opened.length
    assert found.end_offset == opened._writer.offset


def test_seeking_by_time_follows_the_running_maximum(place: Place) -> None:
    random = Random(5)
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(random, clock_jumps_us=15)
    stamps: list[tuple[int, int]] = []
    for _ in range(120):
        entry = source.records()
        stamps.append((entry.batch.timestamp_us, opened.length))
        write(opened, [entry])

    def check(lane: Lane) -> None:
        for time_us in range(stamps[0][0] - 3, max(stamp for stamp, _ in stamps) + 3, 5):
            expected = next((lsn for stamp, lsn in stamps if stamp >= time_us), lane.length)
            assert lane.seek_time(time_us) == max(lane.trim_lsn, expected)

    check(opened)
    check(open_lane(place.disk, place.directory))
    write(opened, [control(TrimmedTo(opened.length // 2))])
    opened.drop_trimmed()
    check(opened)


def test_retention_by_bytes_counts_what_is_written_and_not_what_is_held_ahead(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(Random(6))
    for _ in range(100):
        write(opened, [source.records()])
    assert len(opened.first_lsns) > 5
    sizes = [opened.segment(first).file.size() for first in opened.first_lsns[:-1]]
    assert max(sizes) <= 2500
    assert opened.oldest_beyond(1 << 30) == 0
    assert opened.oldest_beyond(0) == opened.first_lsns[-1]
    kept = opened._writer.offset + sizes[-1] + sizes[-2]
    assert opened.oldest_beyond(kept) == opened.first_lsns[-3]
    assert opened.oldest_beyond(kept - 1) == opened.first_lsns[-2]


def test_a_lane_of_another_replica_is_not_taken_for_this_one(place: Place) -> None:
    make_lane(place.disk, place.directory)
    write(open_lane(place.disk, place.directory), [Source(Random(7)).records()])
    for other in (LaneId(1, 0, 1), LaneId(0, 1, 1), LaneId(0, 0, 2)):
        with pytest.raises(Corrupt):
            Lane(place.disk, place.directory, other)


def test_a_closed_lane_is_found_as_it_was_left(place: Place) -> None:
    make_lane(place.disk, place.directory)
    opened, source = open_lane(place.disk, place.directory), Source(Random(8))
    written = [source.records(), *source.opening(opened)]
    write(opened, written)
    opened.close()
    before = {name: place.disk.open(f"{place.directory}/{name}").size() for name in files(place, ".seg")}
    again = open_lane(place.disk, place.directory)
    assert {name: place.disk.open(f"{place.directory}/{name}").size() for name in files(place, ".seg")} == before
    check_reads(again, NaiveLane(written), Random(8))


class CountingDisk(OsDisk):
    """Counts how often a directory is listed."""

    lists = 0

    def list(self, directory: str) -> list[str]:
        self.lists += 1
        return super().list(directory)


def test_dropping_segments_does_not_look_at_those_that_stay(tmp_path: Path) -> None:
    disk, directory = CountingDisk(), str(tmp_path / "lane")
    make_lane(disk, directory)
    opened, source = open_lane(disk, directory), Source(Random(8))
    while len(opened.first_lsns) < 50:
        write(opened, [source.records(5)])
    disk.lists = 0
    write(opened, [control(TrimmedTo(opened.first_lsns[40]))])
    opened.drop_trimmed()
    assert len(opened.first_lsns) < 12
    assert disk.lists == 0
    while len(opened.first_lsns) < 20:
        write(opened, [source.records(5)])
    assert disk.lists == 0
    recycled = [name for name in disk.list(directory) if name.startswith("recycled-")]
    assert recycled == [], "they were written over"
