"""Lane keys sort as lanes do, and vectors travel as bytes (`ithaca.model.cut`, `ithaca.model.view`)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ordering.building import address

from ithaca.model.cut import LaneLengths, lane_key, lane_of, pack, shard_of, shard_rows, shards_of, unpack
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import INCARNATION_MAX, LANE_RECORDS_MAX, REPLICA_NUMBER_MAX, SHARD_NUMBER_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Replica, Shard, View

LANES = st.builds(
    LaneId,
    shard=st.integers(0, SHARD_NUMBER_MAX),
    replica=st.integers(0, REPLICA_NUMBER_MAX),
    incarnation=st.integers(1, INCARNATION_MAX),
)


@given(st.lists(LANES, unique=True, max_size=20))
def test_keys_sort_as_lanes_do(lanes: list[LaneId]) -> None:
    """Invariant 3 rests on this."""
    keys = sorted(map(lane_key, lanes))
    assert [lane_of(key) for key in keys] == sorted(lanes)
    assert all(0 < key < 2**63 for key in keys)
    vector = np.array(keys, np.int64)
    assert shards_of(vector) == sorted({lane.shard for lane in lanes})
    for lane in lanes:
        rows = vector[shard_rows(vector, lane.shard)].tolist()
        assert rows == [key for key in keys if shard_of(key) == lane.shard]


@pytest.mark.parametrize(
    "lane",
    [
        LaneId(SHARD_NUMBER_MAX + 1, 0, 1),
        LaneId(-1, 0, 1),
        LaneId(0, REPLICA_NUMBER_MAX + 1, 1),
        LaneId(0, 0, INCARNATION_MAX + 1),
        LaneId(0, 0, 0),
    ],
)
def test_a_lane_that_cannot_exist_has_no_key(lane: LaneId) -> None:
    with pytest.raises(InvalidInput, match=str(lane)):
        lane_key(lane)


@given(st.dictionaries(LANES, st.integers(0, LANE_RECORDS_MAX), max_size=20))
def test_lengths_come_back_in_lane_order(lengths: dict[LaneId, int]) -> None:
    vectors = LaneLengths.of(lengths)
    vectors.check()
    assert list(vectors.to_dict().items()) == sorted(lengths.items())
    assert LaneLengths(unpack(pack(vectors.keys)), unpack(pack(vectors.lengths))) == vectors


def test_lengths_differ_by_lane_and_by_length() -> None:
    one = LaneLengths.of({LaneId(1, 1, 1): 5})
    assert one != LaneLengths.of({LaneId(1, 1, 1): 6})
    assert one != LaneLengths.of({LaneId(1, 1, 2): 5})
    assert one != 5


def test_the_layout_of_a_key_and_of_a_vector() -> None:
    assert lane_key(LaneId(1, 1, 1)) == (1 << 43) + (1 << 31) + 1
    assert pack(np.array([1, 256], np.int64)).hex() == "0100000000000000" + "0001000000000000"


def test_who_counts_in_a_shard() -> None:
    """Invariant 4: f+1 copies; f+1 replicas, or 2f+1 with masking."""
    replicas = tuple(Replica(n, address(n), boot=1, incarnation=n + 1, is_open=n != 1) for n in range(3))
    shard = Shard(4, 1, True, replicas, replica_last=2)
    assert (shard.copies, shard.size, shard.is_ordering) == (2, 3, True)
    assert shard.open_lanes() == [LaneId(4, 0, 1), LaneId(4, 2, 3)]
    assert shard.find(2) == replicas[2]
    assert shard.find(3) is None
    alone = Shard(5, 1, False, replicas[:1], replica_last=1, phase="finalizing")
    assert (alone.size, alone.is_ordering) == (2, False)
    assert View(1, (shard, alone)).live_lanes() == shard.open_lanes()
