"""Values and keys of a batch as objects of their own: many at a time, for it is done for every record that is read.

Values that all have one length, as those of one batch often do, are cut by numpy in one call, and their offsets are
compared with what these must be; of others the bytes are copied once more where they are small, since a slice of
`bytes` takes a third of what one of a view takes.
"""

import struct
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ithaca.model.records import Buffer

EVEN_RECORDS_MAX: Final = 4096
"""Of larger batches the offsets are not kept for comparison."""
COPIED_BYTES_MAX: Final = 16 * 1024
"""So long may values be on average to be copied together first."""
_FIRST_TWO = struct.Struct("<2i")


def even_bytes(raw: Buffer, at: int, end: int, count: int) -> int:
    """How long each of `count` values is whose offsets are at `at`, if all are as long and end at `end`; else 0."""
    after = at + (4 * count + 11 & ~7)
    if after > end or count > EVEN_RECORDS_MAX:
        return 0
    first: int
    size: int
    first, size = _FIRST_TWO.unpack_from(raw, at)
    if first or size <= 0 or after + (count * size + 7 & ~7) != end:
        return 0
    return size if count == 1 or bytes(raw[at : at + 4 * count + 4]) == _even(count, size)[0] else 0


def cut_evenly(raw: Buffer, at: int, count: int, size: int, low: int, high: int) -> list[bytes]:
    """The values `[low, high)` of `count` that are so long, and whose offsets are at `at`."""
    if high <= low:
        return []
    start = at + (4 * count + 11 & ~7) + low * size
    if high - low == 1:
        return [bytes(raw[start : start + size])]
    return np.frombuffer(raw, _even(count, size)[1], high - low, start).tolist()  # type: ignore[no-any-return]


def cut(raw: Buffer, at: int, offsets: NDArray[np.int32], low: int, high: int) -> list[bytes]:
    """What is between the offsets, from the one of row `low` to that of row `high`; they count from `at`."""
    bounds = offsets[low : high + 1]
    if isinstance(raw, bytes):  # slicing bytes copies once; slicing a view makes a view first
        return [raw[start:stop] for start, stop in pairwise((bounds + np.int64(at)).tolist())]
    view = memoryview(raw)
    first, last = int(bounds[0]), int(bounds[-1])
    if last - first > COPIED_BYTES_MAX * (high - low):
        return [bytes(view[start:stop]) for start, stop in pairwise((bounds + np.int64(at)).tolist())]
    copied = bytes(view[at + first : at + last])
    return [copied[start:stop] for start, stop in pairwise((bounds - np.int32(first)).tolist())]


@lru_cache(maxsize=64)
def _even(count: int, size: int) -> "tuple[bytes, np.dtype[Any]]":
    """The offsets of so many values of so many bytes each, and what numpy takes one of these for."""
    offsets = np.arange(count + 1, dtype="<i8") * size
    return offsets.astype("<i4").tobytes(), np.dtype((np.void, size))
