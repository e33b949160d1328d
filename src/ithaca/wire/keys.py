"""Selection of records by key, on columns: no loop over records, memory bounded by a chunk.

The hash of a key, which filters use and which places keys on shards, is a format, and never changes:

```
word(j)   bytes 8j..8j+8 of the key, little-endian u64, the last one filled up with zeros
mix(x)    the finaliser of splitmix64 (Steele, Lea, Flood 2014): x ^= x >> 30; x *= 0xbf58476d1ce4e5b9;
          x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31
hash      mix(GAMMA * (length + 1) + sum over j of mix(word(j) + GAMMA * (j + 1)))
          with GAMMA = 0x9e3779b97f4a7c15, everything modulo 2**64
```

It is a sum over words, so that keys of any mix of lengths are hashed by one pass over all their words. It is
no defence against someone who picks keys in order to make them collide.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ithaca.model.records import HASH_SPACE, KeyFilter

Offsets = NDArray[np.int32]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Rows = NDArray[np.int64]

_GAMMA: Final = 0x9E3779B97F4A7C15
_MULTIPLY: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_MASK: Final = HASH_SPACE - 1
_LITTLE: Final = np.dtype("<u8")
_KEEP: Final = np.array([(1 << 8 * kept) - 1 for kept in range(9)], np.uint64)
"""The mask that keeps the first `kept` bytes of a word."""

CHUNK_BYTES: Final = 1 << 18
"""Key bytes gathered at a time: temporaries stay within the processor's cache."""
GATHERED_KEY_BYTES_MAX: Final = 1 << 10
"""A longer key is compared row by row: so few rows can have it that gathering them gains nothing."""
LOOPED_KEY_BYTES_MAX: Final = 1 << 8
"""A single key up to this is hashed faster by a loop than by vectors."""


def select(key_filter: KeyFilter, offsets: Offsets, data: Bytes, valid: NDArray[np.bool_] | None) -> Rows:
    """The rows that the filter selects, ascending; a row that is not valid has no key, and matches nothing.

    Row `i` has the key `data[offsets[i]:offsets[i + 1]]`; `valid` of None means that all have one.
    """
    if key_filter.kind == "hash":
        if key_filter.low == key_filter.high:
            return np.empty(0, np.int64)
        hashes = hash_keys(offsets, data)
        match = hashes >= np.uint64(key_filter.low)
        if key_filter.high < HASH_SPACE:
            match &= hashes < np.uint64(key_filter.high)
        return np.flatnonzero(match if valid is None else match & valid)
    lengths = np.diff(offsets)
    size = len(key_filter.key)
    match = lengths == size if key_filter.kind == "equals" else lengths >= size
    if valid is not None:
        match &= valid
    rows = np.flatnonzero(match)
    if not size or not len(rows):
        return rows
    starts = offsets[rows].astype(np.int64)
    return rows[_same(key_filter.key, starts, data)]


def are_all(key: bytes, offsets: Offsets, data: Bytes, valid: NDArray[np.bool_]) -> bool:
    """Whether every row has this key, as in a batch of one object's records: told by one comparison of all bytes.

    Not of more than a chunk, so False says nothing.
    """
    count, size = len(offsets) - 1, len(key)
    start, stop = int(offsets[0]), int(offsets[-1])
    if (
        not 0 < stop - start <= CHUNK_BYTES
        or stop - start != count * size
        or data[start : start + size].tobytes() != key
    ):
        return False
    return bool((np.diff(offsets) == size).all()) and bool(valid.all()) and data[start:stop].tobytes() == key * count


def _same(key: bytes, starts: Rows, data: Bytes) -> NDArray[np.bool_]:
    """Whether the key stands at each start; all starts leave room for it."""
    same: NDArray[np.bool_] = data[starts] == key[0]  # most rows of most columns end here
    candidates = np.flatnonzero(same)
    wanted = np.frombuffer(key, np.uint8)
    size = len(key)
    if size > GATHERED_KEY_BYTES_MAX:
        for row, start in zip(candidates.tolist(), starts[candidates].tolist(), strict=True):
            same[row] = np.array_equal(data[start : start + size], wanted)
        return same
    windows = np.lib.stride_tricks.sliding_window_view(data, size)
    step = CHUNK_BYTES // size
    for first in range(0, len(candidates), step):
        chunk = candidates[first : first + step]
        same[chunk] = (windows[starts[chunk]] == wanted).all(axis=1)
    return same


def hash_key(key: bytes) -> int:
    """The hash of one key: what `hash_keys` gives for a column of it alone."""
    if len(key) > LOOPED_KEY_BYTES_MAX:
        return int(hash_keys(np.array([0, len(key)], np.int32), np.frombuffer(key, np.uint8))[0])
    total = _GAMMA * (len(key) + 1)
    for number, at in enumerate(range(0, len(key), 8), 1):
        total += _mix(int.from_bytes(key[at : at + 8], "little") + _GAMMA * number)
    return _mix(total)


def hash_keys(offsets: Offsets, data: Bytes) -> Words:
    """The hash of every key of a column, in `[0, 2**64)`, and of whatever bytes lie under a row without one."""
    bounds = offsets.astype(np.int64)
    lengths = np.diff(bounds)
    hashes = (lengths + 1).astype(np.uint64) * np.uint64(_GAMMA)
    row, count = 0, len(lengths)
    while row < count:
        stop = int(np.searchsorted(bounds, bounds[row] + CHUNK_BYTES, side="right")) - 1
        if stop <= row:
            hashes[row : row + 1] += _sum_long(data[bounds[row] : bounds[row + 1]])
            stop = row + 1
        else:
            _add_sums(hashes[row:stop], bounds[row:stop], lengths[row:stop], data)
        row = stop
    return mixed(hashes)


def _add_sums(hashes: Words, starts: Rows, lengths: Rows, data: Bytes) -> None:
    """Add to each hash the sum over the words of its key."""
    base = int(starts[0])
    padded = np.zeros(int(starts[-1] + lengths[-1]) - base + 8, np.uint8)
    padded[:-8] = data[base : base + len(padded) - 8]
    at_any_byte = np.ndarray((len(padded) - 7,), _LITTLE, buffer=padded, strides=(1,))
    counts = (lengths + 7) >> 3
    firsts = np.cumsum(counts) - counts
    numbers = np.arange(int(counts.sum())) - np.repeat(firsts, counts)
    words = at_any_byte[np.repeat(starts - base, counts) + 8 * numbers].astype(np.uint64, copy=False)
    words &= _KEEP[np.minimum(np.repeat(lengths, counts) - 8 * numbers, 8)]
    words += (numbers + 1).astype(np.uint64) * np.uint64(_GAMMA)
    filled = np.flatnonzero(counts)  # reduceat would take an empty key's sum from its neighbour
    if len(filled):
        hashes[filled] += np.add.reduceat(mixed(words), firsts[filled])


def _sum_long(key: Bytes) -> Words:
    """The sum over the words of one key that is longer than a chunk, as a vector of one."""
    total = np.zeros(1, np.uint64)
    for first in range(0, len(key), CHUNK_BYTES):
        part = key[first : first + CHUNK_BYTES]
        words = np.zeros((len(part) + 7) // 8, _LITTLE)
        words.view(np.uint8)[: len(part)] = part
        numbers = np.arange(first // 8 + 1, first // 8 + 1 + len(words), dtype=np.uint64)
        total += np.add.reduce(mixed(words.astype(np.uint64, copy=False) + numbers * np.uint64(_GAMMA)))
    return total


def mixed(words: Words) -> Words:
    """`_mix` of every word, in place. Arrays wrap around silently, where numpy's scalars would warn."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(_MULTIPLY[0])
    words ^= words >> np.uint64(27)
    words *= np.uint64(_MULTIPLY[1])
    words ^= words >> np.uint64(31)
    return words


def _mix(word: int) -> int:
    word &= _MASK
    word = (word ^ word >> 30) * _MULTIPLY[0] & _MASK
    word = (word ^ word >> 27) * _MULTIPLY[1] & _MASK
    return word ^ word >> 31
