"""Lanes that are damaged are quarantined, and those that find no space can be made later."""

from contextlib import suppress
from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, append, check_prefix, copied
from tests.storage.lanes import read_rows
from tests.storage.stores import OLD, OWN, new_store, note, opened

from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.limits import RUNS_PAGE_ENTRIES
from ithaca.model.errors import Corrupt, StorageFull
from ithaca.model.positions import LaneId
from ithaca.sim.disk import PowerLoss, SimDisk


def two_lanes() -> tuple[SimDisk, LaneStore]:
    """A disk with two lanes of several segments each, closed."""
    disk, store = new_store()
    for lane in (OLD, OWN):
        append(store.create(lane).lane, ClusterSource(Random(4)), 10)
        for number in range(9):
            note(store, lane, 1 + 2 * number, 1)
    store.close()
    return disk, store


def files_of(disk: SimDisk, directory: str) -> dict[str, bytes]:
    return {name: disk.open(f"{directory}/{name}").read(0, 1 << 20) for name in disk.list(directory)}


def test_a_damaged_lane_is_quarantined_and_the_others_are_there() -> None:
    disk, store = two_lanes()
    last = f"{store.lanes[OWN].lane.first_lsns[-1]:020d}.seg"
    for name in (last, "runs"):
        damaged = copied(disk)
        damaged.flip_bit(f"/store/{OWN}/{name}", 8)
        files = files_of(damaged, f"/store/{OWN}")
        found = opened(damaged)
        assert list(found.lanes) == [OLD]
        assert set(found.held()) == {OLD}
        aside = found.quarantined[0]
        assert (aside.lane, aside.name) == (OWN, f"{OWN}.damaged-1")
        assert aside.error is not None
        assert aside.error.file == f"/store/{OWN}/{name}"
        assert f"lane {OWN} is damaged" in str(aside.error)
        assert files_of(damaged, f"/store/{aside.name}").keys() == files.keys()
        if name == last:
            assert files_of(damaged, f"/store/{aside.name}") == files, "it is kept as it was found"


def test_a_lane_without_segments_is_quarantined() -> None:
    disk, _ = two_lanes()
    for name in disk.list(f"/store/{OWN}"):
        if name.endswith(".seg"):
            disk.remove(f"/store/{OWN}/{name}")
    assert [aside.lane for aside in opened(disk).quarantined] == [OWN]


def test_a_lane_that_was_quarantined_is_made_again_and_may_be_quarantined_again() -> None:
    disk, _ = two_lanes()
    for count in (1, 2):
        disk.flip_bit(f"/store/{OWN}/runs", 8)
        store = opened(disk)
        assert [aside.name for aside in store.quarantined] == [f"{OWN}.damaged-{n + 1}" for n in range(count)]
        assert [aside.error is None for aside in store.quarantined] == [True] * (count - 1) + [False]
        append(store.create(OWN).lane, ClusterSource(Random(5)), 3)
        note(store, OWN, 50, 1)
        store.close()
    assert list(opened(disk).lanes) == [OLD, OWN]
    assert len(disk.list(f"/store/{OWN}.damaged-1")) > 2, "nothing removes what was quarantined"


def test_damage_that_is_found_later_has_the_lane_quarantined_at_the_next_opening() -> None:
    disk, _ = two_lanes()
    segment = disk.list(f"/store/{OWN}")[1]
    disk.flip_bit(f"/store/{OWN}/{segment}", disk.open(f"/store/{OWN}/{segment}").size() // 2)
    store = opened(disk)
    assert not store.quarantined, "only the tail is looked at when a lane is opened"
    with pytest.raises(Corrupt) as caught:
        read_rows(store.lanes[OWN].lane, 0, store.lanes[OWN].lane.length)
    assert store.mark_damaged(caught.value) == OWN
    assert store.damaged == {OWN: str(caught.value)}
    assert store.mark_damaged(caught.value) is None, "it is known"
    assert store.mark_damaged(Corrupt("elsewhere", file="/other/3-1-4/runs")) is None
    assert store.mark_damaged(Corrupt("of a batch from the network")) is None
    assert list(store.lanes) == [OLD, OWN]
    disk.crash(Random(1))
    again = opened(disk)
    assert list(again.lanes) == [OLD]
    assert segment in str(again.quarantined[0].error)


def test_a_damaged_newest_page_of_runs_has_the_lane_quarantined() -> None:
    """Runs beyond the records are read when the store is opened."""
    disk, store = new_store()
    store.create(OWN)
    for number in range(2 * RUNS_PAGE_ENTRIES):
        note(store, OWN, 1 + 2 * number, 1)
    store.close()
    pages = f"/store/{OWN}/runs-{0:012d}"
    disk.flip_bit(pages, disk.open(pages).size() - 8)
    found = opened(disk)
    assert (found.lanes, [aside.lane for aside in found.quarantined]) == ({}, [OWN])


def test_a_crash_while_a_lane_is_quarantined_changes_nothing() -> None:
    whole, _ = two_lanes()
    whole.flip_bit(f"/store/{OWN}/runs", 8)
    names = set()
    for operations in range(60):
        disk = copied(whole)
        disk.power_fails_after(operations)
        try:
            opened(disk)
            break
        except PowerLoss:
            disk.crash(Random(operations))
        names.add(tuple(disk.list("/store")))
        store = opened(disk)
        assert list(store.lanes) == [OLD]
        assert [aside.name for aside in store.quarantined] == [f"{OWN}.damaged-1"]
    else:
        pytest.fail("the store was never opened")
    assert (str(OLD), str(OWN)) in names
    assert (str(OLD), f"{OWN}.damaged-1") in names


def test_a_lane_that_finds_no_space_can_be_made_later() -> None:
    disk, store = new_store()
    refused = 0
    for spare in range(0, 12_000, 100):
        lane = LaneId(0, 1, spare + 1)
        disk.capacity_bytes = spare + sum(
            disk.open(f"/store/{known}/{name}").size() for known in store.lanes for name in disk.list(f"/store/{known}")
        )
        with suppress(StorageFull):
            store.create(lane)
        disk.capacity_bytes = None
        refused += lane not in store.lanes
        if lane not in store.lanes:
            check_prefix(store.create(lane).lane, [])
    assert 0 < refused < len(store.lanes)
    assert list(opened(disk).lanes) == list(store.lanes)
    disk.capacity_bytes = 0
    with pytest.raises(StorageFull, match=str(OWN)):
        store.create(OWN)
