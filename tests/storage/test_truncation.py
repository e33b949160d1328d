"""Cutting a lane: exactly the prefix, sessions included, whatever happens in the middle of it."""

from random import Random

import pytest
from tests.storage.cluster_lanes import ClusterSource, append, check_prefix, copied, lengths
from tests.storage.lanes import LANE, Written, disk_of, make_lane, open_lane

from ithaca.model.errors import Corrupt
from ithaca.sim.disk import PowerLoss, SimDisk
from ithaca.storage.truncation import truncate

pytestmark = pytest.mark.usefixtures("small_limits")

NEVER = 1 << 60


def grown(seed: int) -> tuple[SimDisk, list[Written]]:
    """A lane of several segments that was killed and lost power now and then, so that recovery wrote some of it."""
    random = Random(seed)
    disk, source = SimDisk(), ClusterSource(random)
    make_lane(disk)
    written: list[Written] = []
    durability = random.choice(["fsync", "os"])
    for _ in range(random.randint(1, 4)):
        opened = open_lane(disk, durability="os" if durability == "os" else "fsync")
        written += append(opened, source, random.randint(2, 9))
        if random.random() < 0.4:
            opened.close()
        disk.kill()
        if random.random() < 0.3:  # the last group is torn, or unproven
            disk.remove("/lane/synced")
    opened = open_lane(disk)
    assert opened.length == lengths(written)[-1]
    disk.kill()
    return disk, written


def prefix(written: list[Written], length: int) -> list[Written]:
    return written[: lengths(written).index(length)]


def test_every_boundary_of_a_lane_can_be_cut_at() -> None:
    segments = set()
    for seed in range(12):
        whole, written = grown(seed)
        segments.add(len([name for name in whole.list("/lane") if name.endswith(".seg")]))
        for length in lengths(written):
            disk = copied(whole)
            truncate(disk, "/lane", LANE, length)
            kept = prefix(written, length)
            disk.crash(Random(length))  # it was durable when it returned
            opened = open_lane(disk)
            check_prefix(opened, kept)
            kept += append(opened, ClusterSource(Random(length), range(11, 20)), 3)
            disk.kill()
            check_prefix(open_lane(disk), kept)
    assert max(segments) > 3


def test_a_lane_that_is_cut_needs_no_more_of_the_index_than_is_left() -> None:
    whole, written = grown(2)
    opened = open_lane(whole, segment_bytes=1 << 20)
    written += append(opened, ClusterSource(Random(1), range(11, 20)), 60)
    assert len(opened._writer.segment.index.blocks) > 4
    opened.close()
    length = lengths(written)[-30]
    truncate(whole, "/lane", LANE, length)
    again = open_lane(whole)
    assert 1 <= len(again._writer.segment.index.blocks) < len(opened._writer.segment.index.blocks)
    check_prefix(again, prefix(written, length))


def fall(disk: SimDisk, random: Random) -> None:
    if random.random() < 0.3:
        disk.kill()
    else:
        disk.crash(random, tear=random.choice(["sector", "byte"]))


def crash_everywhere(seed: int) -> tuple[int, set[str]]:
    """Cut at some boundaries, with a crash at every operation; returns how many, and how the lane was found."""
    whole, written = grown(seed)
    random = Random(seed)
    outcomes, crashes = set(), 0
    ends = lengths(written)
    for length in {*random.sample(ends, min(4, len(ends))), 0}:
        operation = 0
        while True:
            disk = copied(whole)
            disk.power_fails_after(operation)
            try:
                truncate(disk, "/lane", LANE, length)
                break
            except PowerLoss:
                pass
            crashes += 1
            operation += 1
            fall(disk, random)
            if random.random() < 0.5:
                opened = open_lane(disk)
                assert opened.length >= length
                check_prefix(opened, prefix(written, opened.length))
                outcomes.add({length: "cut", ends[-1]: "whole"}.get(opened.length, "between"))
                fall(disk, random)
            truncate(disk, "/lane", LANE, length)
            fall(disk, random)
            check_prefix(open_lane(disk), prefix(written, length))
    return crashes, outcomes


def test_a_crash_in_the_middle_leaves_a_lane_that_can_be_cut_again() -> None:
    crashes, outcomes = 0, set[str]()
    for seed in range(25):
        try:
            found = crash_everywhere(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        crashes += found[0]
        outcomes |= found[1]
    assert crashes > 1000
    assert outcomes == {"cut", "whole", "between"}


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(25, 1025, 100))
def test_a_crash_in_the_middle_leaves_a_lane_that_can_be_cut_again_many_times(first: int) -> None:
    for seed in range(first, first + 100):
        crash_everywhere(seed)


def test_a_lane_that_is_short_enough_is_left_alone() -> None:
    whole, written = grown(3)
    for length in (lengths(written)[-1], lengths(written)[-1] + 5):
        truncate(whole, "/lane", LANE, length)
        check_prefix(open_lane(whole), written)


def test_a_cut_through_a_batch_is_refused_and_nothing_is_touched() -> None:
    whole, written = grown(4)
    before = {name: whole.open(f"/lane/{name}").read(0, 1 << 20) for name in whole.list("/lane")}
    inside = set(range(lengths(written)[-1])) - set(lengths(written))
    assert len(inside) > 10
    for length in inside:
        disk = disk_of(before)
        with pytest.raises(Corrupt, match=f"ordered up to LSN {length}") as caught:
            truncate(disk, "/lane", LANE, length)
        assert caught.value.file.endswith(".seg")
        check_prefix(open_lane(disk), written)
