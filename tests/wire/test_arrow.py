"""Arrow arrays to batches and back: the same memory, sliced and chunked arrays included."""

import itertools
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ithaca.model.errors import InvalidInput, Unsupported
from ithaca.wire import arrow


def address(buffer: Any) -> int:
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def rows_of(parts: arrow.Parts) -> list[tuple[bytes, bytes | None]]:
    """The records of the parts, one at a time."""
    bounds = parts.value_offsets.tolist()
    values = [bytes(parts.values[low:high]) for low, high in itertools.pairwise(bounds)]
    if parts.key_offsets is None:
        return [(value, None) for value in values]
    bounds = parts.key_offsets.tolist()
    keys = [bytes(parts.keys[low:high]) for low, high in itertools.pairwise(bounds)]
    valid = [parts.key_validity[row // 8] >> row % 8 & 1 for row in range(parts.record_count)]
    return [(value, key if has else None) for value, key, has in zip(values, keys, valid, strict=True)]


def batch_of(parts: arrow.Parts) -> Any:
    positions = np.arange(5, 5 + parts.record_count, dtype=np.int64)
    keys = (None, None, None) if parts.key_offsets is None else (parts.key_validity, parts.key_offsets, parts.keys)
    return arrow.to_record_batch(
        positions, 3, 1_700_000_000_000_001, parts.record_count, parts.value_offsets, parts.values, *keys
    )


columns = st.lists(st.tuples(st.binary(max_size=12), st.none() | st.binary(max_size=12)), max_size=20)
TYPES = [pa.binary(), pa.large_binary()]


@given(
    rows=columns,
    value_type=st.sampled_from(TYPES),
    key_type=st.sampled_from(TYPES),
    low=st.integers(0, 20),
    high=st.integers(0, 20),
    chunk=st.none() | st.integers(1, 20),
)
@settings(max_examples=150, deadline=None)
def test_round_trip_of_slices_and_chunks(
    rows: list[tuple[bytes, bytes | None]],
    value_type: Any,
    key_type: Any,
    low: int,
    high: int,
    chunk: int | None,
) -> None:
    values = pa.array([value for value, _ in rows], value_type)
    keys = pa.array([key for _, key in rows], key_type)
    if chunk is not None:
        values = pa.chunked_array([values[at : at + chunk] for at in range(0, len(rows), chunk)], value_type)
    values, keys = values[low:high], keys[low:high]
    parts = arrow.from_arrow(values, keys)
    assert parts.value_offsets[0] == 0
    assert rows_of(parts) == rows[low:high]
    table = batch_of(parts)
    table.validate(full=True)
    assert list(zip(table["value"].to_pylist(), table["key"].to_pylist(), strict=True)) == rows[low:high]


def test_columns_and_their_types() -> None:
    table = batch_of(arrow.from_arrow(pa.array([b"a", b"b"]), pa.array([b"k", None])))
    table.validate(full=True)
    assert table.schema.names == ["position", "shard", "timestamp", "key", "value"]
    assert [str(kind) for kind in table.schema.types] == [
        "int64",
        "int32",
        "timestamp[us, tz=UTC]",
        "binary",
        "binary",
    ]
    assert [field.nullable for field in table.schema] == [False, False, False, True, False]
    assert table["position"].to_pylist() == [5, 6]
    assert table["shard"].to_pylist() == [3, 3]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_700_000_000_000_001] * 2


def test_without_keys_the_column_is_null() -> None:
    table = batch_of(arrow.from_arrow(pa.array([b"a", b""])))
    table.validate(full=True)
    assert table["key"].to_pylist() == [None, None]
    assert table["value"].to_pylist() == [b"a", b""]


def test_without_validity_every_record_has_a_key() -> None:
    parts = arrow.from_arrow(pa.array([b"a", b"b"]), pa.array([b"", b"k"]))
    positions = np.arange(2, dtype=np.int64)
    table = arrow.to_record_batch(
        positions, 0, 0, 2, parts.value_offsets, parts.values, None, parts.key_offsets, parts.keys
    )
    assert table["key"].to_pylist() == [b"", b"k"]
    assert table["key"].null_count == 0


def test_bytes_are_not_copied_either_way() -> None:
    values, keys = pa.array([b"alpha", b"beta", b"gamma"])[1:], pa.array(["x", None, "yy"])[1:]
    parts = arrow.from_arrow(values, keys)
    assert address(parts.values) == values.buffers()[2].address + len(b"alpha")
    assert address(parts.keys) == keys.buffers()[2].address + len(b"x")
    assert parts.key_offsets is not None
    table = batch_of(parts)
    assert [buffer and buffer.address for buffer in table["value"].buffers()] == [
        None,
        address(parts.value_offsets),
        address(parts.values),
    ]
    assert [buffer.address for buffer in table["key"].buffers()] == [
        address(parts.key_validity),
        address(parts.key_offsets),
        address(parts.keys),
    ]


def test_one_chunk_is_not_copied() -> None:
    values = pa.array([b"alpha", b"beta"])
    parts = arrow.from_arrow(pa.chunked_array([values]))
    assert address(parts.values) == values.buffers()[2].address


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_are_their_utf8(kind: Any) -> None:
    parts = arrow.from_arrow(pa.array(["é", ""], kind), pa.array(["k", None], kind))
    assert rows_of(parts) == [("é".encode(), b"k"), (b"", None)]


def test_keys_of_the_null_type_are_no_keys() -> None:
    assert rows_of(arrow.from_arrow(pa.array([b"a", b"b"]), pa.nulls(2))) == [(b"a", None), (b"b", None)]


@pytest.mark.parametrize("low", [0, 1])
def test_null_values_are_refused_by_row(low: int) -> None:
    values = pa.array([b"a", b"b", b"c", None, None])[low:]
    with pytest.raises(InvalidInput, match=f"record {3 - low} is null"):
        arrow.from_arrow(values)


def test_other_types_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="values are of Arrow type int64"):
        arrow.from_arrow(pa.array([1, 2]))
    with pytest.raises(InvalidInput, match="keys are list"):
        arrow.from_arrow(pa.array([b"a"]), [b"k"])
    with pytest.raises(InvalidInput, match="2 values came with 1 keys"):
        arrow.from_arrow(pa.array([b"a", b"b"]), pa.array([b"k"]))


def test_without_pyarrow_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unsupported, match="pip install pyarrow"):
        arrow.from_arrow(None)
