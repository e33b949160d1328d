"""A cut in a snapshot: what does not fit together is refused when it is decoded."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.scalog.ordering.outcomes import OrderedCut, PackedCut
from ithaca.model.cut import FEW, LaneRun, Vector, lane_key, lane_of, pack
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId

KEYS = [lane_key(LaneId(0, 0, 1)), lane_key(LaneId(0, 1, 1))]


def vector(*numbers: int) -> Vector:
    return np.array(numbers, np.int64)


def packed(
    *, tail: int = 10, lsns: Vector | None = None, counts: Vector | None = None, positions: Vector | None = None
) -> PackedCut:
    """Two lanes, whose runs of two and three records end at the tail."""
    return PackedCut(
        1,
        tail,
        0,
        pack(vector(*KEYS)),
        pack(vector(0, 4) if lsns is None else lsns),
        pack(vector(2, 3) if counts is None else counts),
        b"" if positions is None else pack(positions),
    )


def test_positions_that_follow_from_the_tail_are_left_out() -> None:
    cut = packed().unpacked()
    assert cut.positions.tolist() == [5, 7]
    assert PackedCut.of(cut) == packed()
    elsewhere = OrderedCut(cut.number, cut.tail, cut.time_us, cut.keys, cut.lsns, cut.counts, vector(2, 7))
    assert PackedCut.of(elsewhere).unpacked().positions.tolist() == [2, 7]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lsns": vector(0)}, "lane"),
        ({"lsns": vector(0, -1)}, "length"),
        ({"counts": vector(2)}, "lane"),
        ({"counts": vector(2, -1)}, "length"),
        ({"tail": 4}, "more than there is"),
        ({"positions": vector(5)}, "positions"),
        ({"positions": vector(5, 10)}, "positions"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        packed(**wrong)


LANES = st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 3))


@given(
    st.lists(LANES, unique=True, max_size=FEW + 1) | st.lists(LANES, unique=True, min_size=FEW + 1),
    st.booleans(),
    st.data(),
)
def test_the_runs_of_all_shards_at_once_are_those_of_each(
    lanes: list[tuple[int, int, int]], follows: bool, data: st.DataObject
) -> None:
    keys = sorted(lane_key(LaneId(*lane)) for lane in lanes)
    numbers = st.lists(st.integers(1, 1 << 40), min_size=len(keys), max_size=len(keys))
    lsns, counts, positions, followed = (vector(*data.draw(numbers)) for _ in range(4))
    cut = OrderedCut(7, 1 << 50, 3, vector(*keys), lsns, counts, positions, followed if follows else None)
    assert cut.runs_by_shard() == {shard: cut.of_shard(shard).runs for shard in cut.shards}
    assert [run.lane for runs in cut.runs_by_shard().values() for run in runs] == [lane_of(key) for key in keys]
    assert [run for runs in cut.runs_by_shard().values() for run in runs] == [
        LaneRun(lane_of(key), *each) for key, *each in cut.columns()
    ]


def test_the_last_position_below_the_tail_fits() -> None:
    assert packed(tail=5).unpacked().positions.tolist() == [0, 2]
    assert packed(positions=vector(5, 9)).unpacked().positions.tolist() == [5, 9]
