"""Batches at their positions: slices and filters give what a loop over the records gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.batches import Row, compressions, data_of, rows_with_keys

from ithaca.model.records import HASH_SPACE, Compression, KeyFilter, Record
from ithaca.wire import batch as batches
from ithaca.wire import build as building
from ithaca.wire.keys import hash_key
from ithaca.wire.positioned import AnyPositioned, PositionedBatch


def view_of(rows: list[Row], compress: Compression, keyed: bool, low: int, high: int) -> PositionedBatch:
    keys = [key for _, key in rows] if keyed else None
    built = building.build([value for value, _ in rows], keys, timestamp_us=9, compress=compress)
    return PositionedBatch(batches.parse(data_of(built)), 100, 2, low, high)


def expected(rows: list[Row], keyed: bool, low: int, high: int) -> list[Record]:
    return [
        Record(
            position=100 + row,
            value=rows[row][0],
            key=rows[row][1] if keyed else None,
            timestamp_us=9,
            shard=2,
        )
        for row in range(low, high)
    ]


def matches(key_filter: KeyFilter, key: bytes | None) -> bool:
    if key is None:
        return False
    if key_filter.kind == "equals":
        return key == key_filter.key
    if key_filter.kind == "prefix":
        return key.startswith(key_filter.key)
    return key_filter.low <= hash_key(key) < key_filter.high


def agrees(view: AnyPositioned, records: list[Record]) -> None:
    assert len(view) == len(records)
    assert view.records() == records
    assert view.positions() == [record.position for record in records]
    table = view.to_arrow()
    table.validate(full=True)
    assert table.num_rows == len(records)
    assert table["position"].to_pylist() == [record.position for record in records]
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["value"].to_pylist() == [record.value for record in records]
    assert set(table["shard"].to_pylist()) <= {2}


bounds = st.tuples(st.integers(0, 20), st.integers(0, 20))
filters = st.one_of(
    st.binary(max_size=2).map(KeyFilter.equals),
    st.binary(max_size=2).map(KeyFilter.prefix),
    st.tuples(st.integers(0, HASH_SPACE), st.integers(0, HASH_SPACE)).map(
        lambda pair: KeyFilter.hash_range(min(pair), max(pair))
    ),
)


@given(rows=rows_with_keys, compress=compressions, keyed=st.booleans(), pair=bounds)
@settings(max_examples=100, deadline=None)
def test_slices(rows: list[Row], compress: Compression, keyed: bool, pair: tuple[int, int]) -> None:
    low, high = sorted(bound % (len(rows) + 1) for bound in pair)
    agrees(view_of(rows, compress, keyed, low, high), expected(rows, keyed, low, high))


@given(
    rows=rows_with_keys,
    compress=compressions,
    keyed=st.booleans(),
    pair=bounds,
    key_filter=filters,
    pick=st.none() | st.integers(0, 19),
)
@settings(max_examples=200, deadline=None)
def test_filters(
    rows: list[Row],
    compress: Compression,
    keyed: bool,
    pair: tuple[int, int],
    key_filter: KeyFilter,
    pick: int | None,
) -> None:
    low, high = sorted(bound % (len(rows) + 1) for bound in pair)
    present = None if pick is None else rows[pick % len(rows)][1]
    if present is not None:  # also look for a key that is there
        key_filter = KeyFilter.equals(present)
    records = [record for record in expected(rows, keyed, low, high) if matches(key_filter, record.key)]
    agrees(view_of(rows, compress, keyed, low, high).where(key_filter), records)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_uncompressed_slices_share_the_memory_of_the_batch(count: int) -> None:
    built = building.build([b"value %d" % row for row in range(count)], [b"k"] * count, timestamp_us=0)
    data = data_of(built)
    table = PositionedBatch(batches.parse(data), 1, 0, count // 2, count).to_arrow()
    low = np.frombuffer(data, np.uint8).ctypes.data
    for name in ("key", "value"):
        buffer = table[name].buffers()[2]
        assert low <= buffer.address < low + len(data)
