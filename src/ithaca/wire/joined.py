"""Many small batches as one Arrow record batch, by one copy: what readers of tables want (design §4, `ithaca.spark`).

Nothing here looks at a record: offsets are shifted as vectors, and bytes are joined a batch at a time.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ithaca.wire.batch import Columns
from ithaca.wire.positioned import PositionedRows

Offsets = NDArray[np.int32]


def schema() -> Any:
    """position, shard, timestamp, key, value; every field may be null, as Spark declares its own."""
    import pyarrow as pa

    return pa.schema(
        [
            ("position", pa.int64()),
            ("shard", pa.int32()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
        ]
    )


def joined(stretches: Sequence[PositionedRows]) -> Any:
    """One `pyarrow.RecordBatch` of all their records, in this order; of a single stretch, over its own memory."""
    import pyarrow as pa

    columns = [each.batch.columns() for each in stretches]
    counts = [each.high - each.low for each in stretches]
    rows = sum(counts)
    positions = np.concatenate([each.positions for each in stretches])
    shards = np.repeat(np.array([each.shard for each in stretches], np.int32), counts)
    times = np.repeat(np.array([each.batch.timestamp_us for each in stretches], np.int64), counts)
    arrays = [
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(positions)]),
        pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(shards)]),
        pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), rows, [None, pa.py_buffer(times)]),
        _keys(pa, stretches, columns, rows),
        _values(pa, stretches, columns, rows),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _values(pa: Any, stretches: Sequence[PositionedRows], columns: Sequence[Columns], rows: int) -> Any:
    parts = [
        (each.value_offsets[stretch.low : stretch.high + 1], memoryview(each.raw)[each.values_at :])
        for stretch, each in zip(stretches, columns, strict=True)
    ]
    return pa.Array.from_buffers(pa.binary(), rows, [None, *_joined_buffers(pa, parts)])


def _keys(pa: Any, stretches: Sequence[PositionedRows], columns: Sequence[Columns], rows: int) -> Any:
    if all(each.key_offsets is None for each in columns):
        return pa.nulls(rows, pa.binary())
    valid, parts = [], []
    for stretch, each in zip(stretches, columns, strict=True):
        count = stretch.high - stretch.low
        if each.key_offsets is None:
            valid.append(np.zeros(count, np.bool_))
            parts.append((np.zeros(count + 1, np.int32), memoryview(b"")))
        else:
            valid.append(each.key_vectors()[2][stretch.low : stretch.high])
            parts.append(
                (each.key_offsets[stretch.low : stretch.high + 1], memoryview(each.raw)[each.keys_at :]),
            )
    bitmap = np.packbits(np.concatenate(valid), bitorder="little")
    return pa.Array.from_buffers(pa.binary(), rows, [pa.py_buffer(bitmap), *_joined_buffers(pa, parts)])


def _joined_buffers(pa: Any, parts: list[tuple[Offsets, memoryview]]) -> tuple[Any, Any]:
    """Offsets and data of one binary column; a single part that starts at 0 is not copied."""
    if len(parts) == 1 and not parts[0][0][0]:
        offsets, data = parts[0]
        return pa.py_buffer(offsets), pa.py_buffer(data[: int(offsets[-1])])
    bounds = [(int(offsets[0]), int(offsets[-1])) for offsets, _ in parts]
    joined_offsets = np.zeros(sum(len(offsets) - 1 for offsets, _ in parts) + 1, np.int32)
    row, size = 1, 0
    for (offsets, _), (low, high) in zip(parts, bounds, strict=True):
        count = len(offsets) - 1
        np.add(offsets[1:], size - low, out=joined_offsets[row : row + count])
        row += count
        size += high - low
    joined_data = b"".join([data[low:high] for (_, data), (low, high) in zip(parts, bounds, strict=True)])
    return pa.py_buffer(joined_offsets), pa.py_buffer(joined_data)
