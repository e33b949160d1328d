"""Trims against a naive model."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.corfu.sequencing.trims import Trims

_row = st.integers(0, 30)


@given(st.lists(st.tuples(st.booleans(), _row, _row), max_size=12))
def test_trims_are_a_set_of_rows(steps: list[tuple[bool, int, int]]) -> None:
    trims, rows = Trims(), set[int]()
    for is_watermark, low, high in steps:
        if is_watermark:
            trims.raise_to(high)
            rows |= set(range(high))
        else:
            trims.add(low, high)
            rows |= set(range(low, high))
        assert {row for row in range(40) if row in trims} == rows
        ranges = trims.ranges
        assert all(low < high for low, high in ranges)
        assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges))
        assert not ranges or ranges[0][0] > trims.below
        restored = Trims(trims.below, ranges)
        assert {row for row in range(40) if row in restored} == rows
