"""Many batches as one Arrow batch: the same records, whatever they are made of."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.model.records import KeyFilter, Record
from ithaca.wire.build import build
from ithaca.wire.joined import joined, schema
from ithaca.wire.positioned import AnyPositioned, PositionedBatch, ScatteredBatch

_record = st.tuples(st.binary(max_size=12), st.none() | st.binary(max_size=5))


def rows(table: pa.RecordBatch) -> list[Record]:
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    columns = [table.column(name).to_pylist() for name in ("position", "value", "key")]
    shards = table.column("shard").to_pylist()
    return [Record(*each) for each in zip(*columns, times, shards, strict=True)]


def positioned(records: list[tuple[bytes, bytes | None]], base: int, time_us: int, *, keys: bool) -> PositionedBatch:
    batch = build([value for value, _ in records], [key for _, key in records] if keys else None, timestamp_us=time_us)
    return PositionedBatch(batch, base, base % 3, 0, len(records))


@given(
    st.lists(
        st.tuples(st.lists(_record, min_size=1, max_size=9), st.booleans(), st.integers(0, 8)), min_size=1, max_size=6
    )
)
def test_joined_batches_hold_the_same_records(
    parts: list[tuple[list[tuple[bytes, bytes | None]], bool, int]],
) -> None:
    batches: list[AnyPositioned] = []
    base = 1
    for number, (records, keys, skipped) in enumerate(parts):
        batch = positioned(records, base, number, keys=keys)
        batches.append(batch.since(base + min(skipped, len(records) - 1)))
        base += len(records)
    table = joined([batch.stretch() for batch in batches])
    table.validate(full=True)
    assert table.schema == schema()
    assert rows(table) == [record for batch in batches for record in batch.records()]


@pytest.mark.parametrize("count", [1, 2])
def test_what_a_filter_selected_is_joined(count: int) -> None:
    records: list[tuple[bytes, bytes | None]] = [(b"v%d" % n, b"a" if n % 2 else b"b") for n in range(6)]
    found = [positioned(records, 10 * n + 1, n, keys=True).where(KeyFilter.equals(b"a")) for n in range(count)]
    assert rows(joined([each.stretch() for each in found])) == [record for each in found for record in each.records()]


def test_scattered_positions_are_kept() -> None:
    batch = ScatteredBatch(build([b"a", b"b", b"c"], timestamp_us=5), np.array([3, 70, 71], np.int64), 2).since(4)
    assert rows(joined([batch.stretch()])) == batch.records()


def test_a_batch_that_is_whole_is_not_copied() -> None:
    batch = build([bytes(1000)] * 10, timestamp_us=0)
    body = np.frombuffer(batch.body, np.uint8)
    values = joined([PositionedBatch(batch, 1, 0, 0, 10).stretch()]).column("value").buffers()[2]
    assert body.ctypes.data <= values.address < body.ctypes.data + len(body)


def test_compressed_batches_are_joined() -> None:
    batch = build([b"x" * 500] * 4, timestamp_us=1, compress="zstd")
    found = [PositionedBatch(batch, base, 0, 1, 4) for base in (1, 5)]
    assert rows(joined([each.stretch() for each in found])) == [record for each in found for record in each.records()]
