"""Single records cut out of batches: whatever their lengths, the same as one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.batches import data_of, resealed

from ithaca.model.errors import Corrupt
from ithaca.wire import batch as batches
from ithaca.wire import cutting
from ithaca.wire.batch import HEAD_BYTES
from ithaca.wire.build import build


@given(
    size=st.integers(0, 40),
    count=st.integers(1, 30),
    odd=st.sampled_from([None, 0, -1]),
    low=st.integers(0, 30),
    high=st.integers(0, 30),
    is_viewed=st.booleans(),
)
def test_values_of_one_length_are_cut_as_others_are(
    size: int, count: int, odd: int | None, low: int, high: int, is_viewed: bool
) -> None:
    values = [bytes([number]) * size for number in range(1, count + 1)]
    if odd is not None:
        values[odd] += b"more"
    data = data_of(build(values, timestamp_us=1))
    batch = batches.parse(memoryview(data) if is_viewed else data)
    low, high = sorted((min(low, count), min(high, count)))
    found = batch.records(7, 3, low, high)
    assert [(each.position, each.value, each.key, each.shard) for each in found] == [
        (7 + row, values[row], None, 3) for row in range(low, high)
    ]
    is_even = cutting.even_bytes(data, HEAD_BYTES, len(data), count) > 0
    assert is_even == (len(set(map(len, values))) == 1 and len(values[0]) > 0)


@pytest.mark.parametrize("size", [100, cutting.COPIED_BYTES_MAX + 1])
def test_small_values_are_copied_together_and_large_ones_are_not(size: int) -> None:
    values = [bytes([row]) * (size + row) for row in range(5)]
    batch = batches.parse(memoryview(data_of(build(values, timestamp_us=1))))
    assert [each.value for each in batch.records(1, 0)] == values
    assert [each.value for each in batch.records(1, 0, 1, 4)] == values[1:4]


@pytest.mark.parametrize("words", [[0, 8, 16, 25], [0, 8, 17, 24], [1, 8, 16, 24], [0, 8, 16, 32], [0, -8, 16, 24]])
def test_offsets_that_only_begin_like_those_of_one_length_are_not_taken_for_them(words: list[int]) -> None:
    data = bytearray(data_of(build([b"12345678"] * 3, timestamp_us=1)))
    data[HEAD_BYTES : HEAD_BYTES + 16] = np.array(words, "<i4").tobytes()
    data = bytearray(resealed(bytes(data)))
    assert cutting.even_bytes(data, HEAD_BYTES, len(data), 3) == 0
    if words != [0, 8, 17, 24]:  # which are those of values that are not of one length
        with pytest.raises(Corrupt):
            batches.parse(bytes(data)).records(1, 0)
