"""Reading forward by position: from the lane's batches to batches at positions, cut and filtered."""

from ithaca.model.positions import position_of
from ithaca.model.records import KeyFilter
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.wire.batch import DATA
from ithaca.wire.view import AnyPositioned, PositionedBatch


class Scan:
    """The records of `[lsn, stop)` that a filter selects; without `stop`, up to whatever the tail is."""

    def __init__(self, reader: LaneReader, lsn: int, stop: int | None, where: KeyFilter | None) -> None:
        self._reader = reader
        self._cursor = Cursor(reader, lsn)
        self._stop = stop
        self._where = where

    @property
    def lsn(self) -> int:
        """Everything below was read."""
        return self._cursor.lsn

    @property
    def position(self) -> int:
        """Everything below was read."""
        return position_of(self._cursor.lsn)

    @property
    def finished(self) -> bool:
        return self._stop is not None and self.lsn >= self._stop

    @property
    def in_memory(self) -> bool:
        """Whether `read` would not touch the disk."""
        return self.lsn >= self._reader.length or bool(self._reader.cache.get(self.lsn, 0))

    def read(self) -> list[AnyPositioned]:
        """The next batches, about a chunk of them; empty at the tail, and when a chunk has no match."""
        stop = self._reader.length if self._stop is None else min(self._stop, self._reader.length)
        low = self._cursor.lsn
        if low >= stop:
            return []
        found: list[AnyPositioned] = []
        shard = self._reader.lane.shard
        for batch in self._cursor.read(stop):
            if batch.kind != DATA:
                continue
            first, last = max(low, batch.base_lsn), min(stop, batch.end_lsn)
            view = PositionedBatch(
                batch, position_of(batch.base_lsn), shard, first - batch.base_lsn, last - batch.base_lsn
            )
            if self._where is not None:
                view = view.where(self._where)
            if len(view):
                found.append(view)
        if self._cursor.lsn > stop:
            self._cursor = Cursor(self._reader, stop)
        return found
