"""A batch of the records that a filter selects: the same records, and nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wire.batches import Row, compressions, data_of, rows_of, rows_with_keys
from tests.wire.test_view import matches

from ithaca.model.records import Compression, KeyFilter
from ithaca.wire.batch import parse
from ithaca.wire.build import build, noops
from ithaca.wire.selection import selected

filters = st.one_of(
    st.binary(max_size=2).map(KeyFilter.equals),
    st.binary(max_size=2).map(KeyFilter.prefix),
    st.tuples(st.integers(0, 1 << 64), st.integers(0, 1 << 64)).map(
        lambda bounds: KeyFilter.hash_range(min(bounds), max(bounds))
    ),
)


@given(rows_with_keys, compressions, filters, st.integers(0, 20), st.integers(0, 20))
def test_a_selection_is_what_a_reader_would_select(
    rows: list[Row], compress: Compression, key_filter: KeyFilter, low: int, count: int
) -> None:
    low = min(low, len(rows) - 1)
    high = min(low + 1 + count, len(rows))
    values, keys = zip(*rows, strict=True)
    batch = build(values, keys, timestamp_us=77, compress=compress, producer=(5, 6, 7))
    batch = parse(data_of(batch))
    expected = [each for each in batch.records(100, 0, low, high) if matches(key_filter, each.key)]
    found = selected(batch, low, high, key_filter)
    if found is None:
        assert len(expected) == 0
        return
    made, numbers = found
    if numbers is None:
        assert made is batch
        assert [each.position for each in expected] == list(range(100 + low, 100 + high))
        return
    assert numbers.dtype == np.int64
    assert (numbers + 100).tolist() == [each.position for each in expected]
    again = parse(data_of(made))
    assert rows_of(again.records(0, 0)) == rows_of(expected)
    assert (again.timestamp_us, again.producer_id, again.producer_epoch, again.first_seq) == (77, 5, 6, 7)
    assert again.raw_bytes == again.body_bytes


@pytest.mark.parametrize("key_filter", [KeyFilter.prefix(b""), KeyFilter.hash_range(0, 1 << 64)])
def test_records_without_keys_match_nothing(key_filter: KeyFilter) -> None:
    for batch in (build([b"a", b"b"], timestamp_us=1), noops(9, timestamp_us=1)):
        assert selected(batch, 0, batch.count, key_filter) is None
    mixed = build([b"a", b"b", b"c"], [None, b"", None], timestamp_us=1)
    found = selected(mixed, 0, 3, key_filter)
    assert found is not None
    assert found[1] is not None
    assert found[1].tolist() == [1]
    assert rows_of(found[0].records(0, 0)) == [(b"b", b"")]


def test_a_large_selection_keeps_every_byte() -> None:
    count = 5000
    values = [b"%d" % number * (number % 9) for number in range(count)]
    keys = [None if number % 11 == 0 else b"%d" % (number // 7 % 13) for number in range(count)]
    batch = build(values, keys, timestamp_us=1, compress="zstd")
    found = selected(batch, 10, 4990, KeyFilter.prefix(b"1"))
    assert found is not None
    assert found[1] is not None
    chosen = [number for number in range(10, 4990) if (keys[number] or b"").startswith(b"1")]
    assert found[1].tolist() == chosen
    assert rows_of(found[0].records(0, 0)) == [(values[number], keys[number]) for number in chosen]
