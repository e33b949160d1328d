"""Batches as Arrow and back, over the same memory: a batch's columns are Arrow's binary layout.

pyarrow is an extra, imported at first use, so types here are `Any` where they are its own.
"""

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ithaca.model.errors import BatchTooLarge, InvalidInput
from ithaca.model.interface.tables import arrow_schema, package
from ithaca.model.records import Buffer

Offsets = NDArray[np.int32]


class Parts(NamedTuple):
    """The columns of Arrow arrays as a batch wants them; without keys, `key_offsets` is None.

    Offsets start at 0; the bitmap is Arrow's: bit `i` (lowest first) says whether record `i` has a key.
    """

    record_count: int
    value_offsets: Offsets
    values: memoryview
    key_validity: bytes
    key_offsets: Offsets | None
    keys: memoryview


def to_record_batch(
    positions: NDArray[np.int64],
    shard: int,
    timestamp_us: int,
    count: int,
    value_offsets: Buffer | Offsets,
    values: Buffer,
    key_validity: Buffer | None,
    key_offsets: Buffer | Offsets | None,
    keys: Buffer | None,
) -> Any:
    """A `pyarrow.RecordBatch`: position, shard, timestamp, key, value; the last two over the given memory.

    The offsets have been checked. Without `key_validity` every record has a key; without `keys` none has.
    """
    pa = package("pyarrow")
    if key_offsets is None or keys is None:
        key_column = pa.nulls(count, pa.binary())
    else:
        validity = None if key_validity is None else pa.py_buffer(key_validity)
        key_column = pa.Array.from_buffers(
            pa.binary(), count, [validity, pa.py_buffer(key_offsets), pa.py_buffer(keys)]
        )
    value_column = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(value_offsets), pa.py_buffer(values)])
    stamps = np.full(count, timestamp_us, np.int64)
    columns = [
        pa.array(positions, pa.int64()),
        pa.array(np.full(count, shard, np.int32)),
        pa.Array.from_buffers(pa.timestamp("us", tz="UTC"), count, [None, pa.py_buffer(stamps)]),
        key_column,
        value_column,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(pa))


def from_arrow(values: Any, keys: Any = None) -> Parts:
    """The parts of a batch from arrays of binary or string type, chunked and sliced ones included.

    Bytes are not copied, except by joining chunks. A null value is `InvalidInput`, a null key is no key.
    """
    pa = package("pyarrow")
    value_array = _binary_array(pa, values, "values")
    if value_array.null_count:
        row = int(np.argmin(_validity(value_array)))
        raise InvalidInput(f"the value of record {row} is null: a record needs a value, which may be empty")
    value_offsets, value_data = _offsets_and_data(value_array)
    count = len(value_array)
    if keys is None:
        return Parts(count, value_offsets, value_data, b"", None, memoryview(b""))
    key_array = _binary_array(pa, keys, "keys")
    if len(key_array) != count:
        raise InvalidInput(f"{count} values came with {len(key_array)} keys: pass as many keys as values")
    bitmap = np.packbits(_validity(key_array), bitorder="little").tobytes()
    return Parts(count, value_offsets, value_data, bitmap, *_offsets_and_data(key_array))


def _binary_array(pa: Any, column: Any, what: str) -> Any:
    """The column as one array of type binary."""
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        raise InvalidInput(f"the {what} are {type(column).__name__}, not a pyarrow.Array or ChunkedArray")
    kinds = (pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.null())
    if column.type not in kinds:
        names = ", ".join(map(str, kinds[:-1]))
        raise InvalidInput(f"the {what} are of Arrow type {column.type}: cast them to one of {names}")
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return column.cast(pa.binary())
    except pa.ArrowInvalid as error:  # more bytes than 32-bit offsets can say
        raise BatchTooLarge(f"the {what} do not fit into one batch: append them in parts ({error})") from error


def _validity(array: Any) -> NDArray[np.bool_]:
    return cast("NDArray[np.bool_]", array.is_valid().to_numpy(zero_copy_only=False))


def _offsets_and_data(array: Any) -> tuple[Offsets, memoryview]:
    """Offsets from 0, and the bytes that they point into: just those, whatever the array is a slice of."""
    _, offsets_buffer, data_buffer = array.buffers()
    count = len(array)
    if offsets_buffer is None or not offsets_buffer.size:  # Arrow allows this for an empty array
        return np.zeros(count + 1, np.int32), memoryview(b"")
    offsets = np.frombuffer(offsets_buffer, np.int32, count + 1, 4 * array.offset)
    first, last = int(offsets[0]), int(offsets[-1])
    data = memoryview(b"") if data_buffer is None else memoryview(data_buffer)[first:last]
    return (offsets - np.int32(first) if first else offsets), data
