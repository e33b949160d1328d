"""A cut as an aggregator is told of it: the shards that it asks for, as they are in the whole."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from ithaca.engines.scalog.ordering.cut_slices import CutPart, shard_vector
from ithaca.engines.scalog.ordering.outcomes import OrderedCut, PackedCut
from ithaca.model.cut import followed, lane_key, pack
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId

LANES = (LaneId(0, 0, 1), LaneId(0, 1, 1), LaneId(3, 0, 2), LaneId(7, 1, 1))


def vector(*numbers: int) -> "np.typing.NDArray[np.int64]":
    return np.array(numbers, np.int64)


CUT = OrderedCut(
    9, 111, 5, vector(*map(lane_key, LANES)), vector(0, 4, 2, 9), vector(1, 2, 3, 4), vector(101, 102, 104, 107)
)


def test_a_part_says_of_its_shards_what_the_whole_says() -> None:
    part = CutPart.of(CUT, shard_vector({3, 0, 5})).unpacked()
    assert (part.number, part.tail, part.time_us) == (9, 111, 5)
    assert part.shards == [0, 3]
    for shard in (0, 3, 5):
        assert part.of_shard(shard) == CUT.of_shard(shard)


def test_without_shards_it_is_the_whole() -> None:
    whole = CutPart.of(CUT).unpacked()
    assert [whole.of_shard(shard) for shard in (0, 3, 7)] == [CUT.of_shard(shard) for shard in (0, 3, 7)]


def test_positions_need_not_rise_with_the_lanes() -> None:
    """Prepared parts are published in an order of their own."""
    positions = vector(110, 108, 105, 101)
    cut = OrderedCut(9, 111, 5, CUT.keys, vector(0, 0, 0, 0), vector(1, 2, 3, 4), positions)
    part = CutPart.of(cut, shard_vector({0, 7})).unpacked()
    assert [part.of_shard(shard) for shard in (0, 7)] == [cut.of_shard(shard) for shard in (0, 7)]


def test_a_part_may_be_empty() -> None:
    assert CutPart.of(CUT, shard_vector([])).unpacked().shards == []
    assert CutPart(1, 1, 0, b"", b"", b"", b"").unpacked().of_shard(4).runs == ()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keys", pack(vector(5, 5, 6, 7)), "not in order"),
        ("keys", b"short", "not a whole number"),
        ("lsns", pack(vector(1)), "has 1 lengths"),
        ("counts", pack(vector(1, -2, 3, 4)), "outside"),
        ("positions", pack(vector(1, 2)), "2 positions for 4 runs"),
        ("positions", pack(vector(0, 1, 2, 3)), "positions outside 1..110"),
        ("positions", pack(vector(1, 2, 3, 111)), "positions outside 1..110"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(CutPart.of(CUT), **{name: value})


SPARSE_POSITIONS = vector(20, 31, 41, 60)
SPARSE = OrderedCut(
    9, 111, 5, CUT.keys, CUT.lsns, CUT.counts, SPARSE_POSITIONS, followed(SPARSE_POSITIONS, CUT.counts, 12)
)
"""The same in a log with empty positions, in which the record before the cut ends at 12."""


def test_what_runs_follow_goes_with_them() -> None:
    assert SPARSE.follows is not None
    assert SPARSE.follows.tolist() == [12, 21, 33, 44]
    assert [run.follows for shard in (0, 3, 7) for run in SPARSE.of_shard(shard).runs] == [12, 21, 33, 44]
    part = CutPart.of(SPARSE, shard_vector({3, 7})).unpacked()
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(PackedCut.of(SPARSE)), type=PackedCut).unpacked()
    for shard in (3, 7):
        assert part.of_shard(shard) == kept.of_shard(shard) == SPARSE.of_shard(shard)


def test_in_a_dense_order_each_run_follows_its_own_start() -> None:
    assert followed(CUT.positions, CUT.counts, 101) is None
    assert [run.follows for shard in (0, 3, 7) for run in CUT.of_shard(shard).runs] == [0] * 4
    assert followed(vector(110, 108, 105, 101), vector(1, 2, 3, 4), 101) is None  # in another order than the lanes'


def test_what_older_versions_kept_says_nothing_of_it() -> None:
    older = msgspec.msgpack.encode(msgspec.structs.astuple(PackedCut.of(CUT))[:-1])
    cut = msgspec.msgpack.decode(older, type=PackedCut).unpacked()
    assert cut.follows is None
    assert cut.of_shard(3) == CUT.of_shard(3)


@pytest.mark.parametrize(
    ("follows", "message"),
    [(vector(1, 2), "of 2 runs what they follow"), (vector(12, 21, 42, 44), "behind"), (vector(-1, 0, 0, 0), "behind")],
)
def test_what_no_run_can_follow_is_refused(follows: "np.typing.NDArray[np.int64]", message: str) -> None:
    for packed in (CutPart.of(SPARSE), PackedCut.of(SPARSE)):
        with pytest.raises(InvalidInput, match=message):
            replace(packed, follows=pack(follows))


MOST = (1 << 62) - 1
EMPTY = CutPart(MOST, MOST, MOST, b"", b"", b"", b"")


def test_a_part_is_what_it_was_behind_a_connection() -> None:
    for part in (CutPart.of(CUT), EMPTY, CutPart(0, 0, 0, b"", b"", b"", b"")):
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=CutPart) == part


@pytest.mark.parametrize("name", ["number", "tail", "time_us"])
@pytest.mark.parametrize("number", [-1, MOST + 1])
def test_numbers_that_no_log_reaches_are_refused_when_they_come_in(name: str, number: int) -> None:
    sent = msgspec.msgpack.encode(replace(EMPTY, **{name: number}))
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(sent, type=CutPart)
