"""A batch at its positions: what readers and Arrow get (`ithaca.Batch`)."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ithaca.model import interface
from ithaca.model.records import KeyFilter, Record
from ithaca.wire import batch as batches
from ithaca.wire import keys
from ithaca.wire.selection import taken


class Stretch(NamedTuple):
    """The records `[low, high)` of a batch, and the position of each; what `wire.joined` joins."""

    batch: batches.Batch
    low: int
    high: int
    positions: NDArray[np.int64]
    shard: int

    @property
    def raw_bytes(self) -> int:
        """About how many bytes keys and values have."""
        return self.batch.raw_bytes * (self.high - self.low) // max(self.batch.count, 1)


class PositionedBatch(interface.Batch):
    """The records `[low, high)` of a batch whose first record is at `base`, or some rows of those."""

    __slots__ = ("_base", "_batch", "_high", "_low", "_rows", "shard", "timestamp_us")

    def __init__(
        self,
        batch: batches.Batch,
        base: int,
        shard: int,
        low: int,
        high: int,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        self._batch = batch
        self._base = base
        self._low = low
        self._high = high
        self._rows = rows
        self.shard = shard
        self.timestamp_us = batch.timestamp_us

    def __len__(self) -> int:
        return self._high - self._low if self._rows is None else len(self._rows)

    @property
    def first_position(self) -> int:
        return self._base + (self._low if self._rows is None else int(self._rows[0]))

    def since(self, position: int) -> "PositionedBatch":
        """The records at this position and behind it."""
        low = max(self._low, position - self._base)
        rows = None if self._rows is None else self._rows[self._rows >= low]
        return PositionedBatch(self._batch, self._base, self.shard, low, self._high, rows)

    def where(self, key_filter: KeyFilter) -> "PositionedBatch":
        """Only the records that the filter selects."""
        assert self._rows is None
        rows = np.empty(0, np.int64)
        if self._batch.has_keys:
            rows = keys.select(key_filter, *self._batch.key_vectors())
            rows = rows[(rows >= self._low) & (rows < self._high)]
        return PositionedBatch(self._batch, self._base, self.shard, self._low, self._high, rows)

    def stretch(self) -> Stretch:
        """The records and where they are; chosen rows are copied out first."""
        if self._rows is not None:
            chosen = taken(self._batch, self._rows)
            return Stretch(chosen, 0, chosen.count, self._rows + self._base, self.shard)
        positions = np.arange(self._base + self._low, self._base + self._high, dtype=np.int64)
        return Stretch(self._batch, self._low, self._high, positions, self.shard)

    def positions(self) -> list[int]:
        if self._rows is None:
            return list(range(self._base + self._low, self._base + self._high))
        return (self._rows + self._base).tolist()  # type: ignore[no-any-return]

    def records(self) -> list[Record]:
        rows = slice(self._low, self._high) if self._rows is None else self._rows
        return self._batch.records(self._base, self.shard, rows)

    def to_arrow(self) -> Any:
        positions = np.arange(self._base, self._base + self._batch.count, dtype=np.int64)
        table = self._batch.to_arrow(positions, self.shard)
        if self._rows is not None:
            return table.take(self._rows)
        return table.slice(self._low, self._high - self._low)


class ScatteredBatch(interface.Batch):
    """A batch made of the records that a filter selected elsewhere, with the position of each."""

    __slots__ = ("_batch", "_places", "_start", "shard", "timestamp_us")

    def __init__(self, batch: batches.Batch, places: NDArray[np.int64], shard: int, start: int = 0) -> None:
        self._batch = batch
        self._places = places
        self._start = start
        self.shard = shard
        self.timestamp_us = batch.timestamp_us

    def __len__(self) -> int:
        return len(self._places) - self._start

    @property
    def first_position(self) -> int:
        return int(self._places[self._start])

    def since(self, position: int) -> "ScatteredBatch":
        """The records at this position and behind it."""
        start = max(self._start, int(np.searchsorted(self._places, position)))
        return ScatteredBatch(self._batch, self._places, self.shard, start)

    def stretch(self) -> Stretch:
        """The records and where they are."""
        return Stretch(self._batch, self._start, self._batch.count, self._places[self._start :], self.shard)

    def positions(self) -> list[int]:
        return self._places[self._start :].tolist()  # type: ignore[no-any-return]

    def records(self) -> list[Record]:
        found = self._batch.records(0, self.shard, slice(self._start, None))
        stamp, shard = self.timestamp_us, self.shard
        return [
            Record(place, record.value, record.key, stamp, shard)
            for place, record in zip(self.positions(), found, strict=True)
        ]

    def to_arrow(self) -> Any:
        return self._batch.to_arrow(self._places, self.shard).slice(self._start)


AnyPositioned: TypeAlias = PositionedBatch | ScatteredBatch
