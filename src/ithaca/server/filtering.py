"""Filters, evaluated by a replica without keeping what it decompresses.

A batch of a few kilobytes can be one of 32 MiB once it is decompressed. So batches are looked at one after the other,
large ones in a thread and one at a time for all streams together; what is decompressed is kept for the next streams
that look at the same batch, up to a bound; and records that were selected leave in deliveries of a bounded size.
"""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from ithaca.model.limits import DECOMPRESSED_BYTES_MAX, DELIVER_BYTES_MAX, FILTER_STEP_BYTES
from ithaca.model.records import KeyFilter
from ithaca.wire.batch import Batch, Columns
from ithaca.wire.selection import Rows, Within, fitting, matching, taken


class Selected(NamedTuple):
    """Records of a batch: a batch of them alone and which rows they were, or without rows the batch itself."""

    batch: Batch
    rows: Rows | None
    stop: int
    """No row before this one is left to be selected."""


class Decompressed:
    """The columns of compressed batches that were looked at last, bounded by bytes."""

    def __init__(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._columns: OrderedDict[Batch, Columns] = OrderedDict()

    def get(self, batch: Batch) -> Columns | None:
        columns = self._columns.get(batch)
        if columns is not None:
            self._columns.move_to_end(batch)
        return columns

    def add(self, batch: Batch, columns: Columns) -> None:
        """Keep them, if the batch is compressed and no others are kept for it already."""
        if not batch.is_compressed or batch in self._columns:
            return
        self._columns[batch] = columns
        self.bytes += _kept_bytes(batch)
        while self.bytes > self._bytes_max:
            oldest, _ = self._columns.popitem(last=False)
            self.bytes -= _kept_bytes(oldest)


class Filtering:
    """Evaluates the filters of all streams of a replica."""

    def __init__(self) -> None:
        self.decompressed = Decompressed()
        self._turn = asyncio.Lock()
        self._step_bytes = 0

    async def select(self, batch: Batch, low: int, high: int, key_filter: KeyFilter | Within) -> Selected | None:
        """The next records among `[low, high)` that the filter selects, in one delivery; None when there are none."""
        if not batch.has_keys:
            return None
        if batch.raw_bytes > FILTER_STEP_BYTES:
            columns, found = await self._in_thread(batch, low, high, key_filter)
        else:
            self._step_bytes += batch.raw_bytes
            if self._step_bytes > FILTER_STEP_BYTES:
                self._step_bytes = 0
                await asyncio.sleep(0)
            columns, found = _selected(batch, self.decompressed.get(batch), low, high, key_filter)
        self.decompressed.add(batch, columns)
        return found

    async def _in_thread(
        self, batch: Batch, low: int, high: int, key_filter: KeyFilter | Within
    ) -> tuple[Columns, Selected | None]:
        """Wait for this stream's turn, which lasts until the thread is done, whoever still waits for it."""
        await self._turn.acquire()
        columns = self.decompressed.get(batch)
        work = asyncio.ensure_future(asyncio.to_thread(_selected, batch, columns, low, high, key_filter))
        work.add_done_callback(self._done)
        return await asyncio.shield(work)

    def _done(self, work: "asyncio.Future[tuple[Columns, Selected | None]]") -> None:
        self._turn.release()
        if not work.cancelled():
            work.exception()  # looked at: perhaps nobody waits for it any more


def _kept_bytes(batch: Batch) -> int:
    """What keeping its columns keeps: those, and the memory that the stored batch is a part of."""
    return batch.kept_bytes + batch.raw_bytes + len(batch.data)


def _selected(
    batch: Batch, columns: Columns | None, low: int, high: int, key_filter: KeyFilter | Within
) -> tuple[Columns, Selected | None]:
    if columns is None:
        columns = batch.columns()
    rows = matching(columns, low, high, key_filter)
    if not len(rows):
        return columns, None
    # A batch goes out as it is only if whoever gets it may see all of it, and not just these rows.
    if len(rows) == high - low and (high - low == batch.count or not isinstance(key_filter, Within)):
        return columns, Selected(batch, None, high)
    fit = fitting(columns, rows, DELIVER_BYTES_MAX)
    stop = high if fit >= len(rows) else int(rows[fit])
    return columns, Selected(taken(batch, columns, rows[:fit]), rows[:fit], stop)
