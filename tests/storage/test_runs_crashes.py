"""Runs on disks that lose power, fail to sync, or are full: what was synced is there."""

from random import Random

import pytest
from tests.storage.naive_runs import NEVER, NaiveRuns, check, fill, new_disk, opened

from ithaca.model.errors import Fenced, StorageFull
from ithaca.sim.disk import PowerLoss, SimDisk

pytestmark = pytest.mark.usefixtures("small_page_files")


def live(seed: int) -> int:
    """A life with crashes at any operation; returns how many there were."""
    random, disk = Random(seed), new_disk()
    found, model = opened(disk), NaiveRuns()
    allowed = [NaiveRuns()]  # what a crash may leave: the last synced state, or the one being synced
    crashes = 0
    for _ in range(random.randint(2, 5)):
        disk.power_fails_after(random.choice([random.randint(0, 30), NEVER]))
        try:
            for _ in range(random.randint(1, 10)):
                fill(found, model, random, random.randint(1, 7))
                allowed = [allowed[-1], model.truncated(len(model.positions))]
                chance = random.random()
                if chance < 0.15:
                    length = random.randint(found.first_lsn, found.end_lsn)
                    cut = model.truncated(length)
                    allowed = [allowed[0], cut]
                    found.truncate(length)
                    model = cut
                    allowed = [allowed[0], model.truncated(len(model.positions))]
                if chance > 0.85:
                    found.trim(random.randint(0, found.end_lsn))
                if chance > 0.4:
                    found.sync()
                    allowed = [allowed[-1]]
                    continue
                pending = found.prepare_sync()
                fill(found, model, random, random.randint(0, 9))  # while it is being written
                if pending is not None:
                    pending.write()
                    allowed = [allowed[-1]]
                    found.adopt(pending)
        except PowerLoss:
            pass
        for attempt in range(10):
            crashes += 1
            if random.random() < 0.3:
                disk.kill()
            else:
                disk.crash(random, tear=random.choice(["sector", "byte"]))
            disk.power_fails_after(random.randint(0, 8) if attempt < 8 and random.random() < 0.4 else NEVER)
            try:
                found = opened(disk)
                break
            except PowerLoss:
                continue
        disk.power_fails_after(NEVER)
        matching = [state for state in allowed if len(state.positions) == found.end_lsn]
        assert matching, f"{found.end_lsn} LSNs, and not {[len(state.positions) for state in allowed]}"
        model = matching[-1]
        check(found, model)
        allowed = [model.truncated(len(model.positions))]
    return crashes


def test_a_crash_anywhere_leaves_what_was_synced() -> None:
    crashes = 0
    for seed in range(300):
        try:
            crashes += live(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
    assert crashes > 600


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(300, 5300, 250))
def test_a_crash_anywhere_leaves_what_was_synced_many_times(first: int) -> None:
    for seed in range(first, first + 250):
        live(seed)


def test_a_failed_sync_fences_and_a_restart_does_not_launder_it() -> None:
    for seed in range(60):
        disk, model, random = new_disk(), NaiveRuns(), Random(seed)
        found = opened(disk)
        fill(found, model, random, 9)
        found.sync()
        synced = found.end_lsn
        fill(found, model, random, random.randint(1, 12))
        disk.fail_next_sync()
        with pytest.raises(Fenced):
            found.sync()
        with pytest.raises(Fenced):
            found.sync()
        disk.kill()
        reported = opened(disk).end_lsn
        assert reported in (synced, len(model.positions))
        disk.crash(random)
        again = opened(disk)
        assert again.end_lsn == reported
        check(again, model.truncated(reported))


def test_a_failed_sync_of_the_directory_is_not_laundered_either() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(4)
    found = opened(disk)
    fill(found, model, random, 40)
    found.sync()
    synced = model.truncated(found.end_lsn)
    disk.fail_next_sync("/lane")
    fill(found, model, random, 40)
    with pytest.raises(Fenced):
        found.sync()
    disk.kill()
    model = synced
    found = opened(disk)
    fill(found, model, random, 3)
    found.sync()
    disk.crash(random)
    check(opened(disk), model)


def test_a_full_disk_loses_nothing_and_recovers() -> None:
    disk, model, random = new_disk(), NaiveRuns(), Random(5)
    found = opened(disk)
    fill(found, model, random, 9)
    found.sync()
    disk.capacity_bytes = sum(disk.open(f"/lane/{name}").size() for name in disk.list("/lane")) + 100
    synced = found.end_lsn
    fill(found, model, random, 20)
    for _ in range(3):
        with pytest.raises(StorageFull):
            found.sync()
        check(found, model)
    copy = SimDisk()  # a power loss now leaves what was synced before
    copy.make_directory("/lane")
    copy.sync_directory("/")
    for name in disk.list("/lane"):
        copy.open(f"/lane/{name}", create=True).write(0, [disk.open(f"/lane/{name}").read(0, 1 << 20)])
    assert opened(copy).end_lsn == synced
    disk.capacity_bytes = None
    found.sync()
    disk.crash(random)
    check(opened(disk), model)
