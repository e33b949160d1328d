"""Building batches: from values and keys, from Arrow arrays, and the bookkeeping entries of a lane.

Everything that a caller can get wrong is found here, before anything is queued: types, sizes, counts.
"""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, islice
from typing import Any, Final, TypeVar

import numpy as np

from ithaca.model.arguments import items
from ithaca.model.errors import BatchTooLarge, InvalidInput, RecordTooLarge
from ithaca.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, PIECE_BYTES_MIN, RECORD_BYTES_MAX
from ithaca.model.records import Buffer, Compression
from ithaca.wire import arrow, compression
from ithaca.wire.batch import BOOKKEEPING, DATA, HEAD_BYTES, KEYS, NOOPS, PLACE, Batch, Offsets, sealed

T = TypeVar("T")

_PLAIN: Final = frozenset({bytes, bytearray})
_FEW: Final = 256  # records: below, numpy costs more than it saves, all the more on a core that a sync left cold
_VALUES: Final = 'a list, such as [b"a", b"b"]'
_KEYS: Final = "a list with a key for each value, None where there is none"
_PADDING: Final = tuple(bytes(n) for n in range(8))


def build(
    values: Iterable[Buffer],
    keys: Iterable[Buffer | None] | None = None,
    *,
    timestamp_us: int,
    compress: Compression = "none",
    producer: tuple[int, int, int] = (0, 0, 0),
) -> Batch:
    """A data batch; `producer` is (id, epoch, number of the first record), zeros for none."""
    parts = _listed(values, "values", _VALUES)
    value_offsets = _offsets(parts, "value")
    if keys is None:
        _check_sizes(value_offsets)
        return build_columns(value_offsets, parts, None, timestamp_us, compress, producer)
    key_parts = _listed(keys, "keys", _KEYS)
    if len(key_parts) != len(parts):
        raise InvalidInput(f"{len(parts)} values came with {len(key_parts)} keys: pass as many keys as values")
    valid = np.fromiter((key is not None for key in key_parts), np.bool_, len(key_parts))
    key_data: list[Buffer] = [b"" if key is None else key for key in key_parts]
    key_offsets = _offsets(key_data, "key")
    _check_sizes(value_offsets, key_offsets)
    bitmap = np.packbits(valid, bitorder="little").tobytes()
    return build_columns(value_offsets, parts, (bitmap, key_offsets, key_data), timestamp_us, compress, producer)


def record_bytes(value: bytes, key: bytes | None) -> int:
    """What a single record counts for while it is under way: as much as in a batch of its own."""
    return len(value) + (len(key) if key else 0) + HEAD_BYTES


def checked_record(value: Buffer, key: Buffer | None) -> tuple[bytes, bytes | None]:
    """A single record that may wait to become part of a batch; it is copied if the caller could change it."""
    if type(value) is not bytes:
        value = bytes(_plain(value, "the value"))
    if key is not None and type(key) is not bytes:
        key = bytes(_plain(key, "the key"))
    size = len(value) + (len(key) if key else 0)
    if size > RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"the record has {size} bytes of key and value, and a record holds at most {RECORD_BYTES_MAX}: "
            "split it, or store it elsewhere and append a reference"
        )
    return value, key


def build_columns(
    value_offsets: "Offsets | array[int]",
    values: Sequence[Buffer],
    keys: "tuple[Buffer, Offsets | array[int], Sequence[Buffer]] | None",
    timestamp_us: int,
    compress: Compression = "none",
    producer: tuple[int, int, int] = (0, 0, 0),
) -> Batch:
    """A data batch from columns; `values` (and the keys' data) may be in any number of pieces."""
    pieces: list[Any] = [value_offsets, _pad(4 * len(value_offsets)), *values, _pad(int(value_offsets[-1]))]
    if keys is not None:
        bitmap, key_offsets, key_data = keys
        pieces += (bitmap, _pad(len(bitmap)), key_offsets, _pad(4 * len(key_offsets)))
        pieces += chain(key_data, (_pad(int(key_offsets[-1])),))
    count = len(value_offsets) - 1
    is_large = compress == "none" and int(value_offsets[-1]) >= count * PIECE_BYTES_MIN
    body = _pieces(pieces) if is_large else (b"".join(pieces),)
    raw_bytes, flags = sum(map(len, body)), KEYS if keys is not None else 0
    if raw_bytes + HEAD_BYTES > BATCH_BYTES_MAX:
        raise BatchTooLarge(f"a batch of {raw_bytes} bytes exceeds {BATCH_BYTES_MAX}: append it in parts")
    if compress != "none":
        packed = compression.compress(compress, body[0])
        if len(packed) < raw_bytes:
            body = (packed + _pad(len(packed)),)
            flags |= compression.code_of(compress)
    return sealed(DATA, flags, count, timestamp_us, producer, body, raw_bytes)


def _pieces(parts: Sequence[Any]) -> tuple[bytes, ...]:
    """Neighbours joined, but large bytes as they are: nobody can change them, and new memory for them costs faults."""
    pieces: list[bytes] = []
    small: list[Any] = []
    for part in parts:
        if type(part) is bytes and len(part) >= PIECE_BYTES_MIN:
            pieces += (b"".join(small), part)
            small = []
        else:
            small.append(part)
    pieces.append(b"".join(small))
    return tuple(filter(None, pieces))


def build_arrow(values: Any, keys: Any = None, *, timestamp_us: int, compress: Compression = "none") -> Batch:
    """A data batch from Arrow arrays of binary or string type, by one copy of their buffers."""
    _, value_offsets, value_data, bitmap, key_offsets, key_data = arrow.from_arrow(values, keys)
    _check_sizes(value_offsets, key_offsets)
    columns = None if key_offsets is None else (bitmap, key_offsets, [key_data])
    return build_columns(value_offsets, [value_data], columns, timestamp_us, compress)


def place(at: int, time_us: int) -> Batch:
    """The entry that says where in the log the next entry of the lane stands, and its order time."""
    return sealed(PLACE, 0, 0, time_us, (0, 0, at), b"", 0)


def bookkeeping(kind: int, body: bytes = b"", *, timestamp_us: int = 0) -> Batch:
    """An entry of the lane's own: it counts no records."""
    assert kind in BOOKKEEPING
    return sealed(kind, 0, 0, timestamp_us, (0, 0, 0), body + _pad(len(body)), len(body))


def noops(count: int, *, timestamp_us: int) -> Batch:
    """A run of no-ops: positions that readers skip."""
    return sealed(NOOPS, 0, count, timestamp_us, (0, 0, 0), b"", 0)


def _pad(count: int) -> bytes:
    return _PADDING[-count & 7]


def _listed(parts: Iterable[T], what: str, wanted: str) -> list[T]:
    """The caller's parts in a list of our own; of more than a batch holds only so many that it shows."""
    if type(parts) is list and len(parts) <= BATCH_RECORDS_MAX:
        return parts.copy()
    return list(islice(items(parts, what, wanted), BATCH_RECORDS_MAX + 1))


def _offsets(parts: list[Buffer], what: str) -> "Offsets | array[int]":
    """Offsets of the parts laid end to end; turns views of wide items into bytes, and names what is no buffer."""
    if not set(map(type, parts)) <= _PLAIN:
        for index, part in enumerate(parts):
            parts[index] = _plain(part, f"the {what} of record {index}")
    if len(parts) < _FEW:
        try:
            return array("i", list(accumulate(map(len, parts), initial=0)))
        except OverflowError:
            pass  # far too large, which is said below
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=offsets[1:])
    if offsets[-1] > BATCH_BYTES_MAX:
        _check_sizes(offsets)
    return offsets.astype("<i4")


def _plain(part: object, what: str) -> Buffer:
    if isinstance(part, memoryview):
        return part if part.itemsize == 1 and part.ndim == 1 and part.c_contiguous else part.tobytes()
    if not isinstance(part, bytes | bytearray):
        raise InvalidInput(f"{what} is {type(part).__name__}, not bytes, bytearray or memoryview: encode it first")
    return part


def _check_sizes(value_offsets: Any, key_offsets: Any = None) -> None:
    count = len(value_offsets) - 1
    if count == 0:
        raise InvalidInput("a batch needs at least one record")
    if count > BATCH_RECORDS_MAX:
        raise BatchTooLarge(f"a batch holds at most {BATCH_RECORDS_MAX} records: append it in parts")
    total = int(value_offsets[-1]) + (0 if key_offsets is None else int(key_offsets[-1]))
    if total <= RECORD_BYTES_MAX:
        return
    sizes = np.diff(value_offsets) if key_offsets is None else np.diff(value_offsets) + np.diff(key_offsets)
    largest = int(sizes.argmax())
    if sizes[largest] > RECORD_BYTES_MAX:
        raise RecordTooLarge(
            f"record {largest} has {int(sizes[largest])} bytes of key and value, and a record holds at most "
            f"{RECORD_BYTES_MAX}: split it, or store it elsewhere and append a reference"
        )
    if total > BATCH_BYTES_MAX - HEAD_BYTES:
        raise BatchTooLarge(f"a batch of {total} bytes exceeds {BATCH_BYTES_MAX}: append it in parts")
