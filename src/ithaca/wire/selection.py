"""A batch of the records that a filter selects, for streams that carry only those."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ithaca.model.records import Buffer, KeyFilter
from ithaca.wire import keys
from ithaca.wire.batch import Batch, Columns, Offsets
from ithaca.wire.build import build_columns

Rows = NDArray[np.int64]

LOOPED_ROWS_MAX: Final = 16
"""So few rows are compared one by one."""


@dataclass(frozen=True, slots=True)
class Within:
    """What a filter selects among the keys that begin with one of these; without a filter, all of those."""

    prefixes: tuple[bytes, ...]
    where: KeyFilter | None = None


def selected(batch: Batch, low: int, high: int, key_filter: KeyFilter) -> tuple[Batch, Rows | None] | None:
    """A batch of the records among `[low, high)` that the filter selects, and which rows of `batch` they are.

    None when there are none. When all are selected it is `batch` itself, and no rows. Otherwise it is a new
    batch, uncompressed and without a place in any lane, which says the same of its producer and its time.
    """
    if not batch.has_keys:
        return None
    columns = batch.columns()
    rows = matching(columns, low, high, key_filter)
    if not len(rows):
        return None
    if len(rows) == high - low:
        return batch, None
    return taken(batch, columns, rows), rows


def matching(columns: Columns, low: int, high: int, key_filter: KeyFilter | Within) -> Rows:
    """The rows among `[low, high)` of a batch with keys that the filter selects, ascending."""
    if isinstance(key_filter, Within):
        return _matching_within(columns, low, high, key_filter)
    if high - low <= LOOPED_ROWS_MAX and key_filter.kind != "hash":
        return _few(columns, low, high, key_filter)
    offsets, data, valid = columns.key_vectors()
    if key_filter.kind == "equals" and keys.are_all(key_filter.key, offsets[low : high + 1], data, valid[low:high]):
        return np.arange(low, high)
    return keys.select(key_filter, offsets[low : high + 1], data, valid[low:high]) + low


def _matching_within(columns: Columns, low: int, high: int, within: Within) -> Rows:
    by_prefix = [matching(columns, low, high, KeyFilter("prefix", key=prefix)) for prefix in within.prefixes]
    allowed = np.unique(np.concatenate(by_prefix)) if by_prefix else np.empty(0, np.int64)
    if within.where is None or not len(allowed):
        return allowed
    return np.intersect1d(allowed, matching(columns, low, high, within.where), assume_unique=True)


def _few(columns: Columns, low: int, high: int, key_filter: KeyFilter) -> Rows:
    """The same by a loop: of a lone record a dozen vectors would cost more than all else."""
    assert columns.key_offsets is not None
    raw, wanted, is_exact = memoryview(columns.raw), key_filter.key, key_filter.kind == "equals"
    bounds = columns.key_offsets[low : high + 1].tolist()
    found = []
    for number, row in enumerate(range(low, high)):
        start, size = columns.keys_at + bounds[number], bounds[number + 1] - bounds[number]
        if size != len(wanted) if is_exact else size < len(wanted):
            continue
        if raw[columns.key_valid_at + row // 8] >> row % 8 & 1 and raw[start : start + len(wanted)] == wanted:
            found.append(row)
    return np.array(found, np.int64)


def fitting(columns: Columns, rows: Rows, bytes_max: int) -> int:
    """How many of the rows, from the first on, make a batch of about so many bytes with their numbers; at least one."""
    sizes = 12 + np.diff(columns.value_offsets)[rows].astype(np.int64)
    if columns.key_offsets is not None:
        sizes += np.diff(columns.key_offsets)[rows]
    return max(1, int(np.searchsorted(np.cumsum(sizes), bytes_max, side="right")))


def taken(batch: Batch, columns: Columns, rows: Rows) -> Batch:
    """A batch with keys cut down to these rows; `columns` are its own."""
    key_offsets, _, valid = columns.key_vectors()
    raw = memoryview(columns.raw)
    bounds = _bounds(rows)
    bitmap = np.packbits(valid[rows], bitorder="little").tobytes()
    return build_columns(
        _offsets(columns.value_offsets, rows),
        _pieces(raw[columns.values_at :], columns.value_offsets, bounds),
        (bitmap, _offsets(key_offsets, rows), _pieces(raw[columns.keys_at :], key_offsets, bounds)),
        batch.timestamp_us,
        producer=(batch.producer_id, batch.producer_epoch, batch.first_seq),
    )


def _bounds(rows: Rows) -> tuple[list[int], list[int]]:
    """Rows that follow each other lie next to each other, and are copied at once: first ones, and ends."""
    breaks = np.flatnonzero(np.diff(rows) != 1)
    firsts = rows[np.concatenate(([0], breaks + 1))]
    ends = rows[np.concatenate((breaks, [len(rows) - 1]))] + 1
    return firsts.tolist(), ends.tolist()


def _pieces(data: memoryview, offsets: Offsets, bounds: tuple[list[int], list[int]]) -> list[Buffer]:
    firsts, ends = bounds
    return [data[start:stop] for start, stop in zip(offsets[firsts].tolist(), offsets[ends].tolist(), strict=True)]


def _offsets(offsets: Offsets, rows: Rows) -> Offsets:
    found = np.zeros(len(rows) + 1, "<i4")
    np.cumsum(offsets[rows + 1] - offsets[rows], out=found[1:])
    return found
