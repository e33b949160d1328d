"""A replica's `meta`: starts are counted durably, and a directory is one replica's of one log."""

from random import Random
from uuid import UUID

import msgspec
import pytest
from tests.storage.conftest import Place

from ithaca.engines.scalog.storage.replica_meta import ReplicaMeta, bind, identity, kept_aside, quarantine, start
from ithaca.model.errors import ConfigError, Corrupt, LogError, StorageFull
from ithaca.model.limits import COPIES_QUARANTINED_MAX
from ithaca.model.view import Address
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk

LOG, OTHER = UUID(int=1), UUID(int=2)


def test_each_start_has_a_boot_of_its_own(place: Place) -> None:
    assert start(place.disk, place.directory, 3, 1, now_us=1) == ReplicaMeta(None, 3, 1, 1)
    assert start(place.disk, place.directory, 3, 1, now_us=1) == ReplicaMeta(None, 3, 1, 2)
    assert bind(place.disk, place.directory, LOG) == ReplicaMeta(LOG, 3, 1, 2)
    assert bind(place.disk, place.directory, LOG) == ReplicaMeta(LOG, 3, 1, 2)
    assert start(place.disk, place.directory, 3, 1, now_us=1) == ReplicaMeta(LOG, 3, 1, 3)


def test_the_directory_of_another_replica_is_refused(place: Place) -> None:
    start(place.disk, place.directory, 3, 1, now_us=1)
    for shard, replica in ((3, 2), (2, 1)):
        with pytest.raises(ConfigError, match=f"replica 1 of shard 3, and not to replica {replica} of shard {shard}"):
            start(place.disk, place.directory, shard, replica, now_us=1)
    assert start(place.disk, place.directory, 3, 1, now_us=1).boot == 2


def test_another_log_is_refused(place: Place) -> None:
    start(place.disk, place.directory, 0, 1, now_us=1)
    bind(place.disk, place.directory, LOG)
    with pytest.raises(LogError, match=f"log {LOG}, .* log {OTHER}"):
        bind(place.disk, place.directory, OTHER)
    assert start(place.disk, place.directory, 0, 1, now_us=1).log == LOG


def test_lanes_without_meta_are_damage_for_a_boot_must_never_fall(place: Place) -> None:
    place.disk.make_directory(f"{place.directory}/0-1-1")
    with pytest.raises(Corrupt, match="missing"):
        start(place.disk, place.directory, 0, 1, now_us=1)


def test_a_damaged_file_is_refused(place: Place) -> None:
    start(place.disk, place.directory, 0, 1, now_us=1)
    checked_file.replace(place.disk, place.directory, "meta", b"\xc1")
    with pytest.raises(Corrupt, match="cannot be decoded"):
        start(place.disk, place.directory, 0, 1, now_us=1)


def test_a_boot_that_was_returned_is_never_returned_again() -> None:
    for operation in range(12):
        for seed in range(6):
            disk, seen = SimDisk(), 0
            disk.make_directory("/replica")
            disk.sync_directory("/")
            for boot in (1, 2):
                seen = start(disk, "/replica", 0, 1, now_us=1).boot
                assert seen == boot
            disk.power_fails_after(operation)
            try:
                while True:
                    seen = start(disk, "/replica", 0, 1, now_us=1).boot
            except PowerLoss:
                disk.crash(Random(seed))
            assert start(disk, "/replica", 0, 1, now_us=1).boot in (seen + 1, seen + 2)


def test_a_wiped_directory_is_not_taken_for_the_one_before(place: Place) -> None:
    before = start(place.disk, f"{place.directory}/a", 0, 1, now_us=1_000_000).boot
    for _ in range(5):
        before = start(place.disk, f"{place.directory}/a", 0, 1, now_us=1_000_000).boot
    assert start(place.disk, f"{place.directory}/b", 0, 1, now_us=1_000_100).boot > before


BESIDE = ("promises", "disk")


def copied(disk: Disk, directory: str, *, now_us: int = 1) -> None:
    """A learner's directory: somebody else's lane is in it."""
    start(disk, directory, 0, 2, now_us=now_us, address=Address("10.0.0.7", 1))
    disk.make_directory(f"{directory}/lanes/0-0-1")
    file = disk.open(f"{directory}/lanes/0-0-1/runs", create=True)
    file.write(0, [b"x"])
    file.sync()
    disk.sync_directory(f"{directory}/lanes/0-0-1")


def test_a_directory_that_is_given_up_is_nobodys_and_keeps_what_it_held(place: Place) -> None:
    disk, directory = place.disk, place.directory
    assert identity(disk, directory) is None
    copied(disk, directory)
    assert identity(disk, directory) == (0, 2)
    name = quarantine(disk, directory, now_us=1_700_000_000_000_000)
    assert name == "set-aside-0-2-20231114T221320Z"
    assert (identity(disk, directory), kept_aside(disk, directory)) == (None, [name])
    assert disk.open(f"{directory}/{name}/0-0-1/runs").read(0, 9) == b"x"
    assert checked_file.load_value(disk, f"{directory}/{name}/meta", ReplicaMeta).replica == 2
    assert quarantine(disk, directory, now_us=1) is None, "there is nothing left to move"
    assert start(disk, directory, 1, 0, now_us=1).shard == 1


def test_files_of_an_engine_go_with_the_lanes_beside_which_they_are(place: Place) -> None:
    disk, directory = place.disk, place.directory
    copied(disk, directory)
    checked_file.replace(disk, directory, "promises", b"made")
    disk.rename(f"{directory}/meta", f"{directory}/meta.new")
    with pytest.raises(Corrupt, match="not empty"):
        start(disk, directory, 0, 2, now_us=1, beside=BESIDE)
    disk.rename(f"{directory}/meta.new", f"{directory}/meta")
    name = quarantine(disk, directory, now_us=1, beside=BESIDE)
    assert checked_file.load(disk, f"{directory}/{name}/promises") == b"made"
    assert start(disk, directory, 1, 0, now_us=1, beside=BESIDE).shard == 1
    checked_file.replace(disk, directory, "promises", b"made again")
    assert quarantine(disk, directory, now_us=1, beside=BESIDE) is None, "there is no lane that they speak of"
    assert start(disk, directory, 1, 1, now_us=1, beside=BESIDE).replica == 1


def test_a_directory_that_held_nothing_leaves_nothing(place: Place) -> None:
    start(place.disk, place.directory, 0, 2, now_us=1)
    place.disk.make_directory(f"{place.directory}/lanes")
    assert quarantine(place.disk, place.directory, now_us=1) is None
    assert kept_aside(place.disk, place.directory) == []
    assert identity(place.disk, place.directory) is None


def test_no_more_copies_are_kept_than_the_bound_and_none_is_deleted_for_that(place: Place) -> None:
    disk, directory = place.disk, place.directory
    for _ in range(COPIES_QUARANTINED_MAX):
        copied(disk, directory)
        assert quarantine(disk, directory, now_us=1)
    copied(disk, directory, now_us=9)
    with pytest.raises(StorageFull, match="delete those that you do not need"):
        quarantine(disk, directory, now_us=1)
    assert identity(disk, directory) == (0, 2)
    assert disk.exists(f"{directory}/lanes/0-0-1/runs")
    gone = f"{directory}/{kept_aside(disk, directory)[0]}"
    disk.rename(gone, f"{directory}/deleted")
    assert quarantine(disk, directory, now_us=1) is not None


def test_a_power_loss_while_a_copy_is_quarantined_loses_nothing_of_it() -> None:
    for operation in range(25):
        for seed in range(4):
            disk = SimDisk()
            copied(disk, "/replica")
            for beside in BESIDE:
                checked_file.replace(disk, "/replica", beside, beside.encode())
            disk.power_fails_after(operation)
            try:
                quarantine(disk, "/replica", now_us=1, beside=BESIDE)
            except PowerLoss:
                disk.crash(Random(seed))
            disk.power_fails_after(1000)
            quarantine(disk, "/replica", now_us=2, beside=BESIDE)
            assert identity(disk, "/replica") is None
            (name,) = kept_aside(disk, "/replica")
            assert disk.open(f"/replica/{name}/0-0-1/runs").read(0, 9) == b"x"
            for beside in BESIDE:
                assert checked_file.load(disk, f"/replica/{name}/{beside}") == beside.encode()
            assert start(disk, "/replica", 1, 0, now_us=1).shard == 1


def test_what_a_spare_enlisted_as_is_what_it_is_called_ever_after(place: Place) -> None:
    first = start(place.disk, place.directory, 0, 2, now_us=1, address=Address("127.0.0.1", 7))
    again = start(place.disk, place.directory, 0, 2, now_us=1, address=Address("localhost", 7))
    assert first.address == again.address == Address("127.0.0.1", 7)
    assert bind(place.disk, place.directory, LOG, was_added=True).was_added
    assert bind(place.disk, place.directory, LOG).was_added, "that is never taken back"


def test_a_file_from_before_addresses_were_kept_is_read(place: Place) -> None:
    body = msgspec.msgpack.encode({"log": LOG, "shard": 0, "replica": 2, "boot": 7})
    place.disk.make_directory(place.directory)
    checked_file.replace(place.disk, place.directory, "meta", body)
    assert start(place.disk, place.directory, 0, 2, now_us=1, address=Address("a", 1)) == ReplicaMeta(LOG, 0, 2, 8)
