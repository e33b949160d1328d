"""All lanes of a replica: found as they were left, made, cut and dropped through crashes, damage named."""

from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, append, check_prefix, copied, lengths
from tests.storage.conftest import Place
from tests.storage.lanes import Written, read_rows, write
from tests.storage.stores import OLD, OWN, PEER, new_store, note, opened

from ithaca.engines.scalog.storage.held_lane import HeldLength
from ithaca.engines.scalog.storage.lane_store import LaneStore, trim
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.sim.disk import PowerLoss
from ithaca.wire.build import noops

pytestmark = pytest.mark.usefixtures("small_limits")
NEVER = 1 << 60


def test_lanes_are_found_as_they_were_left(place: Place) -> None:
    place.disk.make_directory(place.directory)
    store, source = opened(place.disk, place.directory), ClusterSource(Random(1))
    written: dict[LaneId, list[Written]] = {}
    for lane in (PEER, OWN, OLD):
        held = store.create(lane)
        assert held is store.lanes[lane]
        written[lane] = append(held.lane, source, 20)
    assert sorted(store.lanes) == [OLD, OWN, PEER]
    note(store, OWN, 1, 5)
    note(store, OLD, 6, 2)
    store.close()
    place.disk.open(f"{place.directory}/meta", create=True)
    place.disk.make_directory(f"{place.directory}/0-1-01")
    again = opened(place.disk, place.directory)
    assert list(again.lanes) == [OLD, OWN, PEER]
    for lane, batches in written.items():
        check_prefix(again.lanes[lane].lane, batches)
    ends = {lane: lengths(batches)[-1] for lane, batches in written.items()}
    assert again.held() == {
        OLD: HeldLength(ends[OLD], 2, (), 8),
        OWN: HeldLength(ends[OWN], 5, (), 6),
        PEER: HeldLength(ends[PEER], 0, (), 0),
    }


def test_runs_that_reach_beyond_the_records_are_kept_and_said() -> None:
    disk, store = new_store()
    held = store.create(PEER)
    write(held.lane, [ClusterSource(Random(1)).batch(3)])
    for position, count in ((10, 2), (20, 3), (30, 4)):
        note(store, PEER, position, count)
    store.close()
    disk.kill()
    missing = (LaneRun(PEER, 3, 21, 2), LaneRun(PEER, 5, 30, 4))
    assert opened(disk).held() == {PEER: HeldLength(3, 9, missing, 34)}


def test_a_lane_with_holes_is_known_as_such_for_ever() -> None:
    disk, store = new_store()
    whole, held = store.create(OWN), store.create(PEER)
    append(whole.lane, ClusterSource(Random(4)), 3)
    first = append(held.lane, ClusterSource(Random(4)), 3)
    held.lane.commit(held.lane.prepare([noops(5, timestamp_us=0)]))
    for _ in range(2):
        disk.crash(Random(4))
        store = opened(disk)
        assert {lane: found.has_holes for lane, found in store.held().items()} == {OWN: False, PEER: True}
    behind = append(store.lanes[PEER].lane, ClusterSource(Random(5)), 40)
    assert len(store.lanes[PEER].lane.first_lsns) > 2
    trim(store.lanes[PEER], lengths(first)[-1] + 5 + lengths(behind)[-1])
    disk.crash(Random(4))
    store = opened(disk)
    assert store.held()[PEER].has_holes, "its segment is gone, and a snapshot says so"


def test_a_lane_whose_holes_are_cut_off_has_none() -> None:
    _, store = new_store()
    held = store.create(PEER)
    length = lengths(append(held.lane, ClusterSource(Random(4)), 3))[-1]
    held.lane.commit(held.lane.prepare([noops(5, timestamp_us=0)]))
    assert store.held()[PEER].has_holes
    store.truncate(PEER, length)
    assert not store.held()[PEER].has_holes


def test_opening_again_writes_nothing() -> None:
    """Files that nobody writes are closed, and opened again by whoever reads: that must not need the disk to write."""
    disk, _ = new_store()
    store, source = LaneStore(disk, "/store", segment_bytes=2500, lanes_open_max=1), ClusterSource(Random(5))
    written: dict[LaneId, list[Written]] = {}
    for lane in (OLD, OWN, PEER):
        held = store.create(lane)
        written[lane] = append(held.lane, source, 20)
        note(store, lane, 1, lengths(written[lane])[-1])
        held.runs.sync()
        held.is_written = False
    before = disk.operations
    for lane in (OLD, OWN, PEER, OLD, OWN, PEER):
        check_prefix(store.lanes[lane].lane, written[lane])
        assert store.lanes[lane].runs.position_of(0) == 1
        assert store.lanes[lane].runs.end_lsn == lengths(written[lane])[-1]
    assert sum(held.is_open for held in store.lanes.values()) == 1
    assert disk.operations == before
    more = append(store.begin_writing(OLD), source, 5)
    check_prefix(opened(copied(disk)).lanes[OLD].lane, [*written[OLD], *more])


def test_cutting_a_lane_cuts_its_runs_too_and_gives_a_new_one(place: Place) -> None:
    place.disk.make_directory(place.directory)
    store, source = opened(place.disk, place.directory), ClusterSource(Random(2))
    held = store.create(PEER)
    written = append(held.lane, source, 20)
    ends = lengths(written)
    note(store, PEER, 1, ends[20])
    note(store, PEER, 500, ends[-1] - ends[20])
    version = store.version
    before = held.lane
    cut = store.truncate(PEER, ends[15])
    assert store.version > version
    assert store.lanes[PEER] is cut
    assert cut.lane is not before
    for found in (cut, opened(place.disk, place.directory).lanes[PEER]):
        check_prefix(found.lane, written[:15])
        assert (found.runs.end_lsn, found.runs.end_position) == (ends[15], ends[15] + 1)


def test_runs_that_were_written_and_not_adopted_are_cut_all_the_same() -> None:
    disk, store = new_store()
    held = store.create(PEER)
    written = append(held.lane, ClusterSource(Random(2)), 9)
    ends = lengths(written)
    for number in range(ends[-1]):
        note(store, PEER, 1 + 2 * number, 1)
    pending = held.runs.prepare_sync()
    assert pending is not None
    pending.write()
    cut = store.truncate(PEER, ends[2])
    held.runs.adopt(pending)  # comes too late, and does nothing
    assert cut.runs.end_lsn == ends[2]
    disk.crash(Random(1))
    assert opened(disk).held()[PEER][:2] == (ends[2], ends[2])


def test_a_dropped_lane_is_gone(place: Place) -> None:
    place.disk.make_directory(place.directory)
    store = opened(place.disk, place.directory)
    for lane in (OLD, OWN):
        append(store.create(lane).lane, ClusterSource(Random(3)), 15)
    store.drop(OLD)
    assert list(store.lanes) == [OWN]
    assert place.disk.list(place.directory) == [str(OWN)]
    assert list(opened(place.disk, place.directory).lanes) == [OWN]


def test_trimming_gives_space_back(place: Place) -> None:
    place.disk.make_directory(place.directory)
    store = opened(place.disk, place.directory)
    held = store.create(OWN)
    written = append(held.lane, ClusterSource(Random(3)), 40)
    ends = lengths(written)
    segments = len(held.lane.first_lsns)
    trim(held, ends[-5])
    trim(held, 3)
    assert len(held.lane.first_lsns) < segments
    again = opened(place.disk, place.directory).lanes[OWN].lane
    assert (again.trim_lsn, again.length) == (ends[-5], ends[-1])
    rows = [row for entry in written for row in entry.rows]
    assert read_rows(again, ends[-5], ends[-1]) == rows[ends[-5] :]


def test_a_lane_that_was_closed_can_still_be_trimmed_and_is_closed_again() -> None:
    disk, store = new_store()
    held = store.create(OWN)
    written = append(held.lane, ClusterSource(Random(5)), 40)
    held.lane.close()
    trim(held, lengths(written)[-9])
    assert not held.lane.closed
    store.close()
    assert held.lane.closed
    disk.crash(Random(1))
    again = opened(disk).lanes[OWN].lane
    assert (again.trim_lsn, again.length) == (lengths(written)[-9], lengths(written)[-1])


def test_what_was_trimmed_stays_so_when_the_note_of_it_is_cut_off() -> None:
    disk, store = new_store()
    held = store.create(OWN)
    source = ClusterSource(Random(1))
    append(held.lane, source, 60)
    length = held.lane.length
    append(held.lane, source, 3)
    lsn = held.lane.first_lsns[2]
    trim(held, lsn)
    assert held.lane.first_lsns[0] == lsn
    again = store.truncate(OWN, length)
    assert (again.lane.length, again.lane.trim_lsn) == (length, lsn)
    store.close()
    assert opened(disk).lanes[OWN].lane.trim_lsn == lsn


def test_runs_go_on_while_their_lane_is_cut() -> None:
    disk, store = new_store()
    held = store.create(PEER)
    written = append(held.lane, ClusterSource(Random(6)), 12)
    length = lengths(written)[9]
    note(store, PEER, 1, 2)
    pending = held.runs.prepare_sync()  # somebody is about to write them
    assert pending is not None
    cut = store.truncate(PEER, length)
    note(store, PEER, 7, length - 2)
    pending.write()
    cut.runs.adopt(pending)
    assert (cut.runs.end_lsn, cut.lane.length) == (length, length)
    store.close()
    disk.crash(Random(2))
    assert opened(disk).held() == {PEER: HeldLength(length, length, (), length + 5)}


def life(seed: int) -> int:
    """Lanes are made, written, cut and dropped, with a crash at any operation; returns how many there were."""
    random = Random(seed)
    disk, store = new_store()
    source = ClusterSource(random)
    kept: dict[LaneId, list[Written]] = {}
    unsure: dict[LaneId, list[list[Written] | None]] = {}  # what else a crash may leave of a lane
    crashes = 0
    for _ in range(4):
        disk.power_fails_after(random.choice([random.randint(0, 60), NEVER]))
        try:
            for _ in range(random.randint(2, 8)):
                step(store, source, kept, unsure)
        except PowerLoss:
            pass
        for _ in range(10):
            crashes += 1
            disk.kill() if random.random() < 0.3 else disk.crash(random, tear=random.choice(["sector", "byte"]))
            disk.power_fails_after(random.choice([random.randint(0, 25), NEVER]))
            try:
                store = opened(disk)
                break
            except PowerLoss:
                continue
        else:
            disk.kill()
            store = opened(disk)
        disk.power_fails_after(NEVER)
        settle(store, kept, unsure)
    return crashes


def step(
    store: LaneStore,
    source: ClusterSource,
    kept: dict[LaneId, list[Written]],
    unsure: dict[LaneId, list[list[Written] | None]],
) -> None:
    random = source.random
    lane = LaneId(0, random.randint(1, 2), random.randint(1, 3))
    if lane not in kept:
        unsure[lane] = [None, []]
        store.create(lane)
        kept[lane] = []
    elif (chance := random.random()) < 0.7:
        group = source.group()
        unsure[lane] = [[*kept[lane], *group[:count]] for count in range(len(group) + 1)]
        write(store.lanes[lane].lane, group)
        kept[lane] += group
    elif chance < 0.85:
        count = random.randint(0, len(kept[lane]))
        unsure[lane] = [kept[lane][:length] for length in range(count, len(kept[lane]) + 1)]
        store.truncate(lane, lengths(kept[lane])[count])
        kept[lane] = kept[lane][:count]
    else:
        unsure[lane] = [None, kept[lane]]
        store.drop(lane)
        del kept[lane]
    unsure.clear()


def settle(
    store: LaneStore, kept: dict[LaneId, list[Written]], unsure: dict[LaneId, list[list[Written] | None]]
) -> None:
    for lane, states in unsure.items():
        length = store.lanes[lane].lane.length if lane in store.lanes else None
        state = next(state for state in states if length == (None if state is None else lengths(state)[-1]))
        kept.pop(lane, None)
        if state is not None:
            kept[lane] = state
    unsure.clear()
    assert set(store.lanes) == set(kept)
    for lane, written in kept.items():
        check_prefix(store.lanes[lane].lane, written)


def test_a_crash_anywhere_loses_no_lane_and_brings_none_back() -> None:
    crashes = 0
    for seed in range(150):
        try:
            crashes += life(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert crashes > 600


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(150, 3150, 300))
def test_a_crash_anywhere_loses_no_lane_and_brings_none_back_many_times(first: int) -> None:
    for seed in range(first, first + 300):
        life(seed)
