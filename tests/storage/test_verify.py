"""What `verify_lane` finds: each damage once, where it is, and nothing on a lane that is sound."""

from contextlib import suppress
from random import Random

import pytest
from tests.storage.lanes import DIRECTORY, LANE, Source, Written, control, make_lane, open_lane, write

from ithaca.model.errors import Corrupt
from ithaca.sim.disk import SimDisk
from ithaca.storage.segment import Segment, index_name_of, name_of
from ithaca.storage.state import TrimmedTo
from ithaca.storage.verify import Finding, verify_lane
from ithaca.wire.batch import CONTROL, Batch, lane_seed
from ithaca.wire.build import build

pytestmark = pytest.mark.usefixtures("small_limits")


def walked(disk: SimDisk, first_lsn: int) -> list[tuple[int, Batch]]:
    """The entries of a segment with their offsets."""
    found = []
    with suppress(Corrupt):  # what is behind the last entry is none
        for at, entry in Segment(disk, DIRECTORY, first_lsn, lane_seed(LANE)).walk(0, first_lsn):
            found.append((at, entry))
    return found


class Verified:
    """A lane of several segments, with its files at hand."""

    def __init__(self, *, closed: bool = True) -> None:
        self.disk = SimDisk()
        make_lane(self.disk)
        lane = open_lane(self.disk)
        source = Source(Random(3))
        while len(lane.first_lsns) < 4:
            write(lane, [*source.opening(lane), source.records(3)])
            write(lane, source.session_records(lane))
        write(lane, [control(TrimmedTo(2)), source.records(2)])
        self.firsts = list(lane.first_lsns)
        if closed:
            lane.close()

    def findings(self) -> list[Finding]:
        self.checked = 0
        return list(verify_lane(self.disk, DIRECTORY, LANE, self._advance))

    def _advance(self, count: int) -> None:
        self.checked += count

    def path(self, segment: int) -> str:
        return f"{DIRECTORY}/{name_of(self.firsts[segment])}"

    def index_path(self, segment: int) -> str:
        return f"{DIRECTORY}/{index_name_of(self.firsts[segment])}"

    def entries(self, segment: int) -> list[tuple[int, int]]:
        """Offset and size of each entry."""
        return [(at, entry.total_bytes) for at, entry in walked(self.disk, self.firsts[segment])]

    def flip(self, path: str, offset: int) -> None:
        file = self.disk.open(path)
        file.write(offset, [bytes([file.read(offset, 1)[0] ^ 0x40])])


@pytest.mark.parametrize("closed", [True, False])
def test_a_sound_lane_has_no_findings_and_every_entry_is_looked_at(closed: bool) -> None:
    lane = Verified(closed=closed)
    assert lane.findings() == []
    assert lane.checked == sum(size for segment in range(len(lane.firsts)) for _, size in lane.entries(segment))


@pytest.mark.parametrize("segment", [0, 1, 2, 3])
def test_a_flipped_bit_is_one_finding_at_its_entry(segment: int) -> None:
    lane = Verified()
    entries = lane.entries(segment)
    at, size = entries[len(entries) // 2]
    behind = entries[len(entries) // 2 + 1][0]
    lane.flip(lane.path(segment), at + size - 1)
    (found,) = lane.findings()
    assert (found.file, found.offset) == (lane.path(segment), at)
    assert f"entries go on at byte {behind}" in found.problem


def test_damage_to_the_last_entry_of_a_full_segment_is_found() -> None:
    lane = Verified()
    at, size = lane.entries(1)[-1]
    lane.flip(lane.path(1), at + size - 1)
    found = lane.findings()[0]
    assert (found.file, found.offset) == (lane.path(1), at)
    assert "no entry behind it can be read" in found.problem


def test_all_damage_to_what_was_synced_of_the_last_segment_is_found() -> None:
    lane = Verified()
    entries = lane.entries(3)
    damaged = [entries[at] for at in (1, len(entries) - 2)]
    for at, size in damaged:
        lane.flip(lane.path(3), at + size - 1)
    assert len(entries) > 3
    assert [found.offset for found in lane.findings()] == [at for at, _ in damaged]


def test_damage_to_a_control_entry_behind_the_last_record_of_a_full_segment_is_found() -> None:
    disk = SimDisk()
    make_lane(disk)
    lane = open_lane(disk)
    for lsn in range(3):  # each record fills a segment, and a trim stands behind it
        write(lane, [Written(build([bytes(1700)], timestamp_us=lsn))])
        write(lane, [control(TrimmedTo(0))])
    assert lane.first_lsns == [0, 1, 2]
    path = f"{DIRECTORY}/{name_of(1)}"
    at, last = walked(disk, 1)[-1]
    assert (last.kind, last.count, last.base_lsn) == (CONTROL, 0, 2)
    file = disk.open(path)
    file.write(at + last.total_bytes - 1, [bytes([file.read(at + last.total_bytes - 1, 1)[0] ^ 1])])
    found = list(verify_lane(disk, DIRECTORY, LANE, lambda count: None))
    assert (found[0].file, found[0].offset) == (path, at)


def test_entries_of_another_lane_are_not_taken_for_what_goes_on_behind_damage() -> None:
    """A file that was recycled may hold them."""
    lane = Verified()
    entries = lane.entries(1)
    at = max(range(1, len(entries) - 1), key=lambda place: entries[place + 1][1])
    (damaged, size), (taken, room), (behind, _) = entries[at], entries[at + 1], entries[at + 2]
    foreign = build([b"x"], timestamp_us=0).placed(1 << 20, lane_seed(LANE._replace(replica=7)))
    assert foreign.total_bytes <= room
    lane.flip(lane.path(1), damaged + size - 1)
    lane.disk.open(lane.path(1)).write(taken, foreign.buffers())
    found = [each for each in lane.findings() if each.file == lane.path(1)]
    assert [each.offset for each in found] == [damaged]
    assert f"entries go on at byte {behind}" in found[0].problem


def test_damage_behind_the_last_entry_counts_for_nothing() -> None:
    lane = Verified()
    for segment in range(len(lane.firsts)):
        at, size = lane.entries(segment)[-1]
        if lane.disk.open(lane.path(segment)).size() > at + size:
            lane.flip(lane.path(segment), at + size)
    assert lane.findings() == []


def test_a_segment_that_is_gone_and_progress_that_does_not_check_out_are_named() -> None:
    lane = Verified()
    lane.flip(f"{DIRECTORY}/synced", 9)
    assert [found.file for found in lane.findings()] == [f"{DIRECTORY}/synced"]
    for segment in range(len(lane.firsts)):
        lane.disk.remove(lane.path(segment))
    assert [found.problem for found in lane.findings()][-1] == "there are no segments"


def test_an_index_is_compared_with_its_segment() -> None:
    lane = Verified()
    lane.flip(lane.index_path(0), 20)
    (found,) = lane.findings()
    assert found.file == lane.index_path(0)
    assert "made again" in found.problem
    lane = Verified()
    other = lane.disk.open(lane.index_path(1)).read(0, 1 << 20)
    file = lane.disk.open(lane.index_path(0))
    file.truncate(0)
    file.write(0, [other])
    assert {found.file for found in lane.findings()} == {lane.index_path(0)}
