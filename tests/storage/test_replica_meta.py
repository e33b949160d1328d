"""A replica's `meta`: starts are counted durably, and a directory is one replica's of one log."""

from random import Random
from uuid import UUID

import pytest
from tests.storage.conftest import Place

from ithaca.model.errors import ConfigError, Corrupt, LogError
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage import checked_file
from ithaca.storage.replica_meta import ReplicaMeta, bind, forget, identity, start

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


def test_a_directory_that_is_forgotten_is_nobodys(place: Place) -> None:
    disk, directory = place.disk, place.directory
    assert identity(disk, directory) is None
    start(disk, directory, 0, 2, now_us=1)
    assert identity(disk, directory) == (0, 2)
    for path in ("lanes", "lanes/0-0-1"):
        disk.make_directory(f"{directory}/{path}")
    disk.open(f"{directory}/lanes/0-0-1/runs", create=True).write(0, [b"x"])
    forget(disk, directory)
    assert identity(disk, directory) is None
    assert start(disk, directory, 1, 0, now_us=1).shard == 1
