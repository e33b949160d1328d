"""Closed lanes as columns against a plain dictionary."""

from random import Random

import numpy as np
import pytest

from ithaca.engines.scalog.ordering import closed_lanes
from ithaca.engines.scalog.ordering.closed_lanes import ClosedLane, ClosedLanes
from ithaca.model.cut import pack, unpack
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.positions import LaneId


def some_lane(random: Random) -> LaneId:
    incarnation = random.randint(1, 40) + random.choice((0, PART_INCARNATION_MIN))
    return LaneId(random.randint(0, 3), random.randint(0, 1), incarnation)


def check(lanes: ClosedLanes, plain: dict[LaneId, ClosedLane], random: Random) -> None:
    assert len(lanes) == len(plain)
    probe, first, shard = some_lane(random), random.randint(0, 1000), random.randint(0, 4)
    assert lanes.get(probe) == plain.get(probe)
    assert (probe in lanes) == (probe in plain)
    assert lanes.ended(first) == sorted(lane for lane, closed in plain.items() if closed.end <= first)
    assert lanes.lengths(shard) == {lane: closed.length for lane, closed in plain.items() if lane.shard == shard}
    assert lanes.has_lane_of(shard) == any(lane.shard == shard for lane in plain)


@pytest.mark.parametrize("seed", range(20))
def test_columns_are_as_good_as_a_dictionary(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    monkeypatch.setattr(closed_lanes, "_RECENT_MAX", random.choice((0, 3, 1000)))
    lanes, plain = ClosedLanes(), dict[LaneId, ClosedLane]()
    for _ in range(300):
        lane = some_lane(random)
        if lane in plain:
            gone = sorted({lane, *random.sample(sorted(plain), random.randint(0, min(3, len(plain))))})
            lanes.drop(gone)
            for each in gone:
                del plain[each]
        else:
            plain[lane] = ClosedLane(random.randint(0, 50), random.randint(0, 1000))
            lanes.add(lane, plain[lane])
        check(lanes, plain, random)
        if random.random() < 0.1:
            lanes = ClosedLanes.of_columns(*(unpack(pack(column)) for column in lanes.columns()))
            check(lanes, plain, random)
    assert list(lanes.items()) == sorted(plain.items())
    parts = [lane.shard for lane in plain if lane.is_part]
    assert lanes.parts() == {shard: parts.count(shard) for shard in parts}
    with pytest.raises(KeyError):
        lanes[LaneId(9, 0, 1)]


def test_what_was_taken_for_a_snapshot_does_not_change() -> None:
    lanes = ClosedLanes({LaneId(0, 0, number): ClosedLane(1, number) for number in range(1, 9)})
    before = lanes.columns()
    copies = [column.tolist() for column in before]
    lanes.drop([LaneId(0, 0, 3)])
    lanes.add(LaneId(0, 0, 3), ClosedLane(7, 7))
    lanes.columns()
    assert [column.tolist() for column in before] == copies


@pytest.mark.parametrize(
    ("keys", "lengths", "ends"),
    [
        ([5, 5], [1, 1], [1, 1]),
        ([6, 5], [1, 1], [1, 1]),
        ([5, 6], [1], [1, 1]),
        ([5, 6], [1, 1], [1]),
        ([5], [-1], [1]),
        ([5], [1], [-1]),
        ([5], [1], [1 << 62]),
        ([0], [1], [1]),
    ],
)
def test_columns_that_cannot_be_are_refused(keys: list[int], lengths: list[int], ends: list[int]) -> None:
    with pytest.raises(InvalidInput):
        ClosedLanes.of_columns(*(np.array(column, np.int64) for column in (keys, lengths, ends)))
