"""A full disk: a typed refusal that leaves nothing behind, reads go on, and appends too when space returns."""

from contextlib import suppress
from random import Random

import pytest
from tests.storage.lanes import NaiveLane, Source, Written, check_reads, make_lane, open_lane, session_table, write

from ithaca.model.errors import StorageFull
from ithaca.sim.disk import SimDisk
from ithaca.storage.lane import Lane

pytestmark = pytest.mark.usefixtures("small_limits")

SEEDS = range(60)


def used_bytes(disk: SimDisk) -> int:
    return sum(disk.open(f"/lane/{name}").size() for name in disk.list("/lane"))


def entries(source: Source, opened: Lane) -> list[Written]:
    group = [source.records() for _ in range(source.random.randint(1, 3))]
    if source.random.random() < 0.3:
        group += source.opening(opened)
    return group


def check(opened: Lane, written: list[Written], random: Random) -> None:
    model = NaiveLane(written)
    check_reads(opened, model, random)
    assert session_table(opened) == model.session_table()


@pytest.mark.parametrize("power", ["on", "lost"])
def test_a_full_disk_refuses_whole_groups_and_works_again_later(power: str) -> None:
    refused = 0
    for seed in SEEDS:
        random = Random(seed)
        disk, source = SimDisk(), Source(random)
        make_lane(disk)
        opened, written = open_lane(disk), list[Written]()
        for _ in range(4):
            disk.capacity_bytes = used_bytes(disk) + random.randrange(4000)
            for _ in range(random.randint(3, 20)):  # it fills up, and is asked again and again
                group = entries(source, opened)
                try:
                    write(opened, group)
                    written += group
                except StorageFull:
                    refused += 1
                if random.random() < 0.3:
                    check(opened, written, random)
            if power == "lost":
                disk.capacity_bytes = None
                disk.crash(random, tear=random.choice(["sector", "byte"]))
                opened = open_lane(disk)
            check(opened, written, random)
            disk.capacity_bytes = None
            group = entries(source, opened)
            write(opened, group)
            written += group
            check(opened, written, random)
    assert refused > 5 * len(SEEDS)


def test_a_small_group_after_a_roll_that_failed_is_not_lost() -> None:
    """Once the next segment may have its name, the old one must not be written any more."""
    for spare in range(0, 1500, 8):
        random = Random(spare)
        disk, source = SimDisk(), Source(random)
        make_lane(disk)
        opened, written = open_lane(disk), list[Written]()
        while opened._writer.offset < 2000:
            written.append(source.records(1))
            write(opened, written[-1:])
        disk.capacity_bytes = used_bytes(disk) + spare
        with suppress(StorageFull):
            large = [source.records(8) for _ in range(3)]
            write(opened, large)
            written += large
        with suppress(StorageFull):
            small = [source.records(1)]
            write(opened, small)
            written += small
        disk.kill()
        disk.capacity_bytes = None
        check(open_lane(disk), written, random)


def test_closing_on_a_full_disk_needs_no_space() -> None:
    for seed in range(30):
        random = Random(seed)
        disk, source = SimDisk(), Source(random)
        make_lane(disk)
        opened, written = open_lane(disk), list[Written]()
        for _ in range(seed):
            group = entries(source, opened)
            write(opened, group)
            written += group
        disk.capacity_bytes = 0
        opened.close()
        disk.crash(random)
        disk.capacity_bytes = None
        check(open_lane(disk), written, random)


def test_a_lane_that_may_open_no_file_refuses_what_needs_one_and_goes_on_later() -> None:
    refused = 0
    for seed in SEEDS[:20]:
        random = Random(seed)
        disk, source = SimDisk(), Source(random)
        make_lane(disk)
        opened, written = open_lane(disk), list[Written]()
        for _ in range(6):
            disk.lacks_descriptors = not disk.lacks_descriptors
            for _ in range(20):
                group = entries(source, opened)
                try:
                    write(opened, group)
                    written += group
                except StorageFull:
                    assert disk.lacks_descriptors
                    refused += 1
        disk.lacks_descriptors = False
        check(opened, written, random)
        disk.crash(random)
        check(open_lane(disk), written, random)
    assert refused
