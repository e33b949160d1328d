"""Reading forward by position: from the lane's batches to batches at positions, cut and filtered."""

from collections import deque

from ithaca.model.limits import READ_CHUNK_BYTES
from ithaca.model.positions import position_of
from ithaca.model.records import KeyFilter
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.wire.batch import DATA, Batch
from ithaca.wire.positioned import AnyPositioned, PositionedBatch


class Scan:
    """The records of `[lsn, stop)` that a filter selects; without `stop`, up to whatever the tail is."""

    def __init__(self, reader: LaneReader, lsn: int, stop: int | None, where: KeyFilter | None) -> None:
        self._reader = reader
        self._cursor = Cursor(reader, lsn)
        self._stop = stop
        self._where = where
        self._batches: deque[Batch] = deque()
        """Read, as they are stored, and not looked at yet."""
        self.lsn = lsn
        """Everything below was looked at."""

    @property
    def position(self) -> int:
        """Everything below was looked at."""
        return position_of(self.lsn)

    @property
    def stop_position(self) -> int | None:
        """Where it ends; None when it goes on for ever."""
        return None if self._stop is None else position_of(self._stop)

    @property
    def finished(self) -> bool:
        return self._stop is not None and self.lsn >= self._stop

    @property
    def in_memory(self) -> bool:
        """Whether `read` would not touch the disk."""
        return bool(self.lsn >= self._reader.length or self._batches or self._reader.cache.get(self.lsn, 0))

    def read(self) -> list[AnyPositioned]:
        """The next batches, about a chunk of them; empty at the tail, and when a chunk has no match.

        What a filter selects is not compressed any more, and so a chunk of stored batches is looked at in several
        calls where it becomes more.
        """
        stop = self._reader.length if self._stop is None else min(self._stop, self._reader.length)
        if self.lsn >= stop:
            return []
        if not self._batches:
            self._batches.extend(self._cursor.read(stop))
        found: list[AnyPositioned] = []
        size = 0
        while self._batches and (self._where is None or size < READ_CHUNK_BYTES):
            view = self._view(self._batches[0], stop)
            self.lsn = min(stop, self._batches.popleft().end_lsn)
            if view is not None:
                found.append(view)
                size += view.raw_bytes
        if not self._batches and self._cursor.lsn > stop:
            self._cursor = Cursor(self._reader, stop)
        return found

    def _view(self, batch: Batch, stop: int) -> AnyPositioned | None:
        """What is wanted of a batch."""
        if batch.kind != DATA:
            return None
        base = batch.base_lsn
        low, high = max(self.lsn, base) - base, min(stop, batch.end_lsn) - base
        view = PositionedBatch(batch, position_of(base), self._reader.lane.shard, low, high)
        found = view if self._where is None else view.where(self._where)
        return found if len(found) else None
