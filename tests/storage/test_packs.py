"""Packs: what goes in comes out; a crash anywhere, a flip anywhere, merges, and few files open."""

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, append, lengths, table_of
from tests.storage.lanes import Row, read_rows

from ithaca.engines.scalog.storage import lane_store, pack, packing, packs
from ithaca.engines.scalog.storage import settled as settled_lanes
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.limits import PACKS_MERGED
from ithaca.engines.scalog.storage.runs_format import Run
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, FormatTooNew, IthacaError, StorageFull, WrongLane
from ithaca.model.limits import DESCRIPTORS_PER_LANE, SEGMENT_BYTES_MIN
from ithaca.model.positions import LaneId
from ithaca.runtime.machine import descriptors_open
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage.disk import OsDisk
from ithaca.wire.batch import crc32c

pytestmark = pytest.mark.usefixtures("small_limits")
LANES = [LaneId(0, replica, incarnation) for replica in (0, 1) for incarnation in (1, 2, 1 << 30)]
Content = tuple[int, list[Row], list[Run], object, bool]


def opened(disk: SimDisk, lanes_open_max: int | None = None) -> LaneStore:
    return LaneStore(disk, "/store", segment_bytes=2500, lanes_open_max=lanes_open_max)


def new_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/store")
    disk.sync_directory("/")
    return disk


def content(store: LaneStore, lane: LaneId) -> Content:
    held = store.get(lane)
    assert held is not None
    rows = read_rows(held.lane, held.lane.trim_lsn, held.lane.length)
    return held.lane.length, rows, held.runs.all(), table_of(held.lane), held.lane.state.has_holes


def fill(store: LaneStore, lanes: list[LaneId], seed: int = 1, batches: int = 6) -> dict[LaneId, Content]:
    """Lanes with records and positions, settled."""
    source, position = ClusterSource(Random(seed)), 1 + 1000 * seed
    for lane in lanes:
        held = store.create(lane)
        ends = lengths(append(held.lane, source, batches)) if batches else [0]
        for before, after in pairwise(ends):
            store.note((LaneRun(lane, before, position, after - before),), position)
            position += after - before + 1
        held.is_written, held.is_settled = False, True
    return {lane: content(store, lane) for lane in lanes}


def check(store: LaneStore, expected: dict[LaneId, Content]) -> None:
    assert {lane: content(store, lane) for lane in expected} == expected


def test_lanes_in_a_pack_are_what_they_were() -> None:
    disk = new_disk()
    store = opened(disk)
    expected = fill(store, LANES) | fill(store, [LaneId(0, 2, 1)], 2, batches=0)
    assert store.pack() is None
    assert store.lanes == {}
    assert [name for name in disk.list("/store") if not name.startswith("pack-")] == []
    check(store, expected)
    for _ in range(2):
        disk.crash(Random(3))
        store = opened(disk)
        assert (store.held(), len(store.settled)) == ({}, len(expected))
        assert {lane: length for lane, length, _ in store.settled.lengths()} == {
            lane: each[0] for lane, each in expected.items()
        }
        check(store, expected)


def test_a_lane_that_is_large_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(new_disk())
    expected = fill(store, LANES[:2]) | fill(store, LANES[2:3], 2, batches=40)
    monkeypatch.setattr(packing, "PACK_LANE_BYTES_MAX", 6000)
    assert store.pack() is None
    assert list(store.lanes) == LANES[2:3]
    assert store.packable() == []
    check(store, expected)


def life(seed: int, operations: int) -> bool:
    """Fill, pack, merge and drop, with a power cut after so many operations; says whether it came to that."""
    random, disk = Random(seed), new_disk()
    store = opened(disk)
    expected: dict[LaneId, Content] = {}
    gone: set[LaneId] = set()
    lanes = [LaneId(0, 0, number) for number in range(1, 9)]
    for at in range(0, len(lanes), 2):
        expected |= fill(store, lanes[at : at + 2], 1 + at, batches=2)
    for held in store.lanes.values():
        held.runs.sync()
    disk.power_fails_after(operations)
    was_cut = False
    try:
        for at in range(0, len(lanes), 2):
            for held in store.lanes.values():
                held.is_settled = held.lane_id in lanes[: at + 2]
            store.pack()
            store.tidy()
        gone.update(lanes[:3])
        store.forget(lanes[:3])
        store.tidy()
    except (PowerLoss, IthacaError):
        was_cut = True
    for again in range(3):
        disk.crash(random)
        disk.power_fails_after(random.randint(0, 12) if was_cut and not again else 1 << 60)
        with suppress(PowerLoss, IthacaError):
            opened(disk)
    disk.power_fails_after(1 << 60)
    disk.crash(random)
    store = opened(disk)
    check(store, {lane: each for lane, each in expected.items() if lane not in gone})
    return was_cut


def test_a_crash_anywhere_loses_no_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "PACKS_MERGED", 2)
    cuts = 0
    while life(cuts, cuts):
        cuts += 1
    assert cuts > 60


def test_a_failed_sync_of_a_packs_name_is_not_laundered() -> None:
    for seed in range(20):
        disk = new_disk()
        store = opened(disk)
        expected = fill(store, LANES, batches=1)
        store.close()
        disk.fail_next_sync("/store")
        with pytest.raises(IthacaError):
            store.pack()
        disk.kill()
        check(opened(disk), expected)
        disk.crash(Random(seed))
        check(opened(disk), expected)


def test_a_full_disk_leaves_the_lanes_where_they_are() -> None:
    disk = new_disk()
    store = opened(disk)
    expected = fill(store, LANES)
    disk.capacity_bytes = disk.used_bytes + 2000
    with pytest.raises(StorageFull):
        store.pack()
    check(store, expected)
    assert not any(name.endswith(".new") for name in disk.list("/store"))
    disk.capacity_bytes = None
    assert store.pack() is None
    check(store, expected)


def test_damage_before_packing_stays_in_its_lane() -> None:
    disk = new_disk()
    store = opened(disk, lanes_open_max=0)
    expected = fill(store, LANES)
    disk.flip_bit(f"/store/{LANES[1]}/{0:020d}.seg", 700)
    store.lanes[LANES[1]].close_files()
    damaged = store.pack()
    assert damaged is not None
    assert list(store.damaged) == [LANES[1]]
    assert store.pack() is None
    assert list(store.lanes) == [LANES[1]]
    store = opened(disk)
    assert [aside.lane for aside in store.quarantined] == [LANES[1]]
    del expected[LANES[1]]
    check(store, expected)


def test_every_flipped_byte_of_a_pack_is_detected_or_harmless() -> None:
    disk = new_disk()
    store = opened(disk)
    expected = fill(store, LANES[:3], batches=1)
    store.pack()
    path = f"/store/{pack.name_of(1)}"
    size = disk.open(path).size()
    outcomes = {"harmless": 0, "one": 0, "all": 0}
    for at in range(size):
        disk.flip_bit(path, at, at % 8)
        outcomes[judged(disk, expected)] += 1
        disk.flip_bit(path, at, at % 8)
        for name in disk.list("/store"):
            if name.startswith(f"{pack.name_of(1)}.damaged"):
                disk.remove(f"/store/{name}")
    assert outcomes["all"] == 0, "there are two heads"
    assert outcomes["one"] > outcomes["harmless"]


def damage(store: LaneStore, lane: LaneId, was: Content) -> Corrupt | None:
    try:
        assert content(store, lane) == was
    except Corrupt as error:
        return error
    return None


def judged(disk: SimDisk, expected: dict[LaneId, Content]) -> str:
    """What became of the lanes of a pack that was damaged: whoever meets that marks it, for the next opening."""
    store = opened(disk)
    bad: list[LaneId] = [lane for lane in expected if lane not in store.settled]
    for lane, was in expected.items():
        found = None if lane in bad else damage(store, lane, was)
        if found is not None:
            assert store.mark_damaged(found) == lane
            bad.append(lane)
    if not bad:
        return "harmless"
    again = opened(disk)
    assert {lane for lane in expected if lane not in again.settled} == set(bad)
    assert again.quarantined
    check(again, {lane: was for lane, was in expected.items() if lane not in bad})
    return "all" if len(bad) == len(expected) else "one"


def test_a_pack_that_cannot_be_read_at_all_is_quarantined_and_kept() -> None:
    disk = new_disk()
    store = opened(disk)
    fill(store, LANES[:3])
    store.pack()
    path = f"/store/{pack.name_of(1)}"
    for at in (3, disk.open(path).size() - 3):
        disk.flip_bit(path, at)
    store = opened(disk)
    assert (len(store.settled), store.lanes) == (0, {})
    assert [aside.name for aside in store.quarantined] == [f"{pack.name_of(1)}.damaged-1"]
    assert disk.list("/store") == [f"{pack.name_of(1)}.damaged-1"]
    expected = fill(store, LANES[:3])  # they come from a peer
    store.pack()
    check(opened(disk), expected)


def test_a_damaged_lane_comes_back_from_a_peer_and_the_pack_is_kept_when_it_is_rewritten() -> None:
    disk = new_disk()
    store = opened(disk)
    expected = fill(store, LANES[:3])
    store.pack()
    found = store.settled.find(LANES[1])
    assert found is not None
    disk.flip_bit(f"/store/{pack.name_of(1)}", found[1].offset + 300)
    with pytest.raises(Corrupt) as caught:
        content(store, LANES[1])
    assert store.mark_damaged(caught.value) == LANES[1]
    assert store.mark_damaged(caught.value) is None
    store = opened(disk)
    assert LANES[1] not in store.settled
    again = fill(store, [LANES[1]], 5)
    store.pack()
    check(store, expected | again)
    store.forget([LANES[0]])
    del expected[LANES[0]]
    store.tidy()
    assert f"{pack.name_of(1)}.damaged-1" in disk.list("/store")
    check(opened(disk), expected | again)


def test_packs_are_merged_and_rewritten_and_removed() -> None:
    disk = new_disk()
    store = opened(disk)
    expected: dict[LaneId, Content] = {}
    for number in range(1, 41):
        expected |= fill(store, [LaneId(0, 1, number)], number, batches=2)
        store.pack()
        store.tidy()
        assert len(disk.list("/store")) <= 2 * PACKS_MERGED
    check(store, expected)
    for number in range(1, 40):
        store.forget([LaneId(0, 1, number)])
        store.tidy()
    assert len(disk.list("/store")) == 1
    left = {LaneId(0, 1, 40): expected[LaneId(0, 1, 40)]}
    check(store, left)
    assert disk.open(f"/store/{disk.list('/store')[0]}").size() < 5000
    store.forget(list(left))
    assert disk.list("/store") == []
    assert len(opened(disk).settled) == 0


def test_lanes_are_found_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled_lanes, "_BLOCK", 3)
    store = opened(new_disk())
    for number in range(1, 30):
        fill(store, [LaneId(0, 1, number)], number % 7 + 1, batches=number % 4)
        if number % 3 == 0:
            store.pack()
    store.pack()
    settled = store.settled
    ranges = {
        lane: (at.start_position, at.end_position) for lane, _, _ in settled.lengths() for at in [_at(store, lane)]
    }
    for position in range(1, 8200, 3):
        around = [lane for lane, (start, end) in ranges.items() if start <= position < end]
        assert sorted(settled.around(position)) == sorted(around)
        behind = [start for start, end in ranges.values() if start > position and end]
        found = settled.next_after(position)
        assert (None if found is None else found[0]) == min(behind, default=None)


def _at(store: LaneStore, lane: LaneId) -> pack.PackedAt:
    found = store.settled.find(lane)
    assert found is not None
    return found[1]


def test_a_newer_format_is_refused_by_name() -> None:
    disk = new_disk()
    store = opened(disk)
    fill(store, LANES[:1])
    store.pack()
    file = disk.open(f"/store/{pack.name_of(1)}")
    head = file.read(0, 8) + (pack.VERSION + 1).to_bytes(4, "little") + file.read(12, 16)
    file.write(0, [head, crc32c(head).to_bytes(4, "little")])
    with pytest.raises(FormatTooNew):
        opened(disk)


def test_few_files_are_open_however_many_lanes_wait_for_their_runs(tmp_path: Path) -> None:
    lanes = [LaneId(0, 0, (1 << 30) + number) for number in range(30)]
    before, few = descriptors_open(), 3 * DESCRIPTORS_PER_LANE
    store = LaneStore(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES_MIN, lanes_open_max=2)
    expected = fill(store, lanes)
    assert all(held.opened_runs is not None for held in store.lanes.values()), "they are not durable"
    assert descriptors_open() - before <= few
    for held in store.lanes.values():
        held.runs.sync()
        store.close_unneeded()
        assert descriptors_open() - before <= few
    check(store, expected)
    assert descriptors_open() - before <= few


def test_lanes_that_are_written_stay_open_and_are_closed_once_they_are_not(tmp_path: Path) -> None:
    store = LaneStore(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES_MIN, lanes_open_max=2)
    written = [store.create(lane) for lane in LANES]
    opened = [held.opened_lane for held in written]
    assert all(opened)
    for held in written:
        held.runs.sync()
    assert [held.opened_lane for held in written] == opened
    for held in written:
        held.is_written = False
    store.close_unneeded()
    assert sum(held.is_open for held in written) == 2


def test_lanes_of_which_only_the_records_are_looked_at_are_closed_again(tmp_path: Path) -> None:
    store = LaneStore(OsDisk(), str(tmp_path), segment_bytes=SEGMENT_BYTES_MIN, lanes_open_max=2)
    for lane in LANES:
        held = store.create(lane)
        held.runs.sync()
        held.is_written = False
    assert len(LANES) > 2
    for held in store.lanes.values():
        held.close_files()
    for held in store.lanes.values():
        assert held.lane.length == 0
    assert sum(held.is_open for held in store.lanes.values()) <= 2


def test_lanes_that_are_forgotten_are_found_no_more() -> None:
    store = opened(new_disk())
    fill(store, LANES)
    assert store.pack() is None
    store._packs.forget(LANES[:2])
    assert [lane for lane in LANES if store._packs.settled.find(lane) is None] == LANES[:2]
    assert [lane for lane in LANES if store._packs.lane(lane) is None] == LANES[:2]


def test_no_change_of_the_lanes_brings_back_an_earlier_version() -> None:
    """Cursors begin again when it differs from the one that they know."""
    store = opened(new_disk())
    versions = [store.version]
    fill(store, LANES)
    for change in (store.pack, lambda: store.forget(LANES[:1]), lambda: store.forget(LANES[1:2])):
        change()
        versions.append(store.version)
    lane = LaneId(0, 7, 1)
    append(store.create(lane).lane, ClusterSource(Random(3)), 4)
    store.truncate(lane, 0)
    versions.append(store.version)
    assert versions == sorted(set(versions))


def test_a_pack_takes_no_more_than_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(new_disk())
    expected = fill(store, LANES)
    sizes = [packing.bytes_of(store.lanes[lane].lane) for lane in sorted(LANES)]
    monkeypatch.setattr(lane_store, "PACK_BYTES_MAX", sum(sizes[:2]))
    assert store.pack() is None
    assert sorted(store.lanes) == sorted(LANES)[2:]
    check(store, expected)


def test_whoever_holds_a_lane_reads_on_when_it_is_packed_and_is_told_when_it_goes() -> None:
    store = opened(new_disk())
    expected = fill(store, LANES)
    held = {lane: store.lanes[lane] for lane in LANES}
    assert store.pack() is None
    for lane, (length, rows, runs, _, _) in expected.items():
        assert held[lane].lane.length == length
        assert read_rows(held[lane].lane, 0, length) == rows
        assert held[lane].runs.all() == runs
    store.forget(LANES[:1])
    with pytest.raises(WrongLane, match=str(LANES[0])):
        _ = held[LANES[0]].lane


def test_the_files_of_the_shortest_lane_there_is_may_be_closed() -> None:
    store = opened(new_disk())
    held = store.create(LANES[0])
    length = lengths(append(held.lane, ClusterSource(Random(4)), 1))[-1]
    store.note((LaneRun(LANES[0], 0, 7, 1),), 5)
    held.runs.sync()
    held.is_written = False
    assert held.close_files()
    assert held.runs.all() == [Run(0, 7, 1, 5)]
    assert held.lane.length == length


def test_what_an_attempt_at_a_pack_has_left_behind_is_no_part_of_the_next() -> None:
    """A pack ends with its second head, which is needed when the first is damaged."""
    disk = new_disk()
    store = opened(disk)
    expected = fill(store, LANES)
    left = disk.open(f"/store/{pack.name_of(store._packs._next)}{pack.NEW_SUFFIX}", create=True)
    left.write(0, [bytes(1 << 17)])
    assert store.pack() is None
    (path,) = (path for path in disk.files() if pack.number_of(path.removeprefix("/store/")) is not None)
    disk.flip_bit(path, 3, 1)
    check(opened(disk), expected)
