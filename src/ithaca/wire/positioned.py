"""A batch at its positions: what readers and Arrow get (`ithaca.Batch`)."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ithaca.model import interface
from ithaca.model.records import KeyFilter, Record
from ithaca.wire import batch as batches
from ithaca.wire.selection import selected


class PositionedRows(NamedTuple):
    """The records `[low, high)` of a batch, and the position of each; what `wire.joined` joins."""

    batch: batches.Batch
    low: int
    high: int
    positions: NDArray[np.int64]
    shard: int

    @property
    def raw_bytes(self) -> int:
        """About how many bytes keys and values have."""
        return _raw_bytes(self.batch, self.high - self.low)


class PositionedBatch(interface.Batch):
    """The records `[low, high)` of a batch whose first record is at `base`."""

    __slots__ = ("_base", "_batch", "_high", "_low", "shard", "timestamp_us")

    def __init__(self, batch: batches.Batch, base: int, shard: int, low: int, high: int) -> None:
        self._batch = batch
        self._base = base
        self._low = low
        self._high = high
        self.shard = shard
        self.timestamp_us = batch.timestamp_us

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def raw_bytes(self) -> int:
        return _raw_bytes(self._batch, len(self))

    @property
    def first_position(self) -> int:
        return self._base + self._low

    @property
    def stop_position(self) -> int:
        return self._base + self._high

    def since(self, position: int) -> "PositionedBatch":
        low = max(self._low, position - self._base)
        return PositionedBatch(self._batch, self._base, self.shard, low, self._high)

    def between(self, start: int, stop: int | None) -> "PositionedBatch":
        """The records of `[start, stop)`."""
        high = self._high if stop is None else max(self._low, min(self._high, stop - self._base))
        return PositionedBatch(self._batch, self._base, self.shard, min(high, max(self._low, start - self._base)), high)

    def where(self, key_filter: KeyFilter) -> "AnyPositioned":
        """Only the records that the filter selects, copied unless these are all."""
        found = selected(self._batch, self._low, self._high, key_filter)
        if found is None:
            return PositionedBatch(self._batch, self._base, self.shard, self._low, self._low)
        chosen, rows = found
        return self if rows is None else ScatteredBatch(chosen, rows + self._base, self.shard)

    def stretch(self) -> PositionedRows:
        """The records and where they are."""
        positions = np.arange(self._base + self._low, self._base + self._high, dtype=np.int64)
        return PositionedRows(self._batch, self._low, self._high, positions, self.shard)

    def positions(self) -> list[int]:
        return list(range(self._base + self._low, self._base + self._high))

    def records(self) -> list[Record]:
        return self._batch.records(self._base, self.shard, self._low, self._high)

    def record(self, position: int) -> Record:
        """The record at this position, which is one of those here."""
        row = position - self._base
        assert self._low <= row < self._high
        return self._batch.record(self._base, self.shard, row)

    def to_arrow(self) -> Any:
        positions = np.arange(self._base, self._base + self._batch.count, dtype=np.int64)
        return self._batch.to_arrow(positions, self.shard).slice(self._low, self._high - self._low)


class ScatteredBatch(interface.Batch):
    """A batch made of the records that a filter selected elsewhere, with the position of each."""

    __slots__ = ("_batch", "_positions", "_start", "shard", "timestamp_us")

    def __init__(self, batch: batches.Batch, at_positions: NDArray[np.int64], shard: int, start: int = 0) -> None:
        self._batch = batch
        self._positions = at_positions
        self._start = start
        self.shard = shard
        self.timestamp_us = batch.timestamp_us

    def __len__(self) -> int:
        return len(self._positions) - self._start

    @property
    def raw_bytes(self) -> int:
        return _raw_bytes(self._batch, len(self))

    @property
    def first_position(self) -> int:
        return int(self._positions[self._start])

    @property
    def stop_position(self) -> int:
        """Behind the last record."""
        return int(self._positions[-1]) + 1

    def since(self, position: int) -> "ScatteredBatch":
        start = max(self._start, int(np.searchsorted(self._positions, position)))
        return ScatteredBatch(self._batch, self._positions, self.shard, start)

    def stretch(self) -> PositionedRows:
        """The records and where they are."""
        return PositionedRows(self._batch, self._start, self._batch.count, self._positions[self._start :], self.shard)

    def positions(self) -> list[int]:
        return self._positions[self._start :].tolist()  # type: ignore[no-any-return]

    def records(self) -> list[Record]:
        found = self._batch.records(0, self.shard, self._start)
        stamp, shard = self.timestamp_us, self.shard
        return [
            Record(position, record.value, record.key, stamp, shard)
            for position, record in zip(self.positions(), found, strict=True)
        ]

    def to_arrow(self) -> Any:
        return self._batch.to_arrow(self._positions, self.shard).slice(self._start)


AnyPositioned: TypeAlias = PositionedBatch | ScatteredBatch


def _raw_bytes(batch: batches.Batch, rows: int) -> int:
    return batch.raw_bytes * rows // max(batch.count, 1)
