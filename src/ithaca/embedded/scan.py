"""Reading forward by position: from the lane's batches to batches at positions, cut and filtered."""

from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import KeyFilter, Record
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.wire.batch import DATA
from ithaca.wire.view import PositionedBatch


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

    def seek(self, lsn: int) -> None:
        self._cursor = Cursor(self._reader, lsn)

    @property
    def finished(self) -> bool:
        return self._stop is not None and self.lsn >= self._stop

    @property
    def in_memory(self) -> bool:
        """Whether `read` would not touch the disk."""
        return self.lsn >= self._reader.length or bool(self._reader.cache.get(self.lsn, 0))

    def read(self) -> list[PositionedBatch]:
        """The next batches, about a chunk of them; empty at the tail, and when a chunk has no match."""
        stop = self._reader.length if self._stop is None else min(self._stop, self._reader.length)
        low = self._cursor.lsn
        if low >= stop:
            return []
        found = []
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
            self.seek(stop)
        return found


class ReadAhead:
    """What a scan has read and nobody has taken yet; records are decoded a batch at a time."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        self._batches: list[PositionedBatch] = []  # the next one last
        self.records: list[Record] = []
        """Decoded and not yet taken, the next one last: whoever iterates pops from here first."""

    @property
    def position(self) -> int:
        """The position from which on nothing has been taken."""
        if self.records:
            return self.records[-1].position
        if self._batches:
            return self._batches[-1].positions()[0]
        return position_of(self.scan.lsn)

    def fill(self) -> bool:
        """Read the next chunk once everything was taken; False when there is nothing more to read now."""
        before = self.scan.lsn
        self._batches = self.scan.read()
        self._batches.reverse()
        return self.scan.lsn != before

    def next_batch(self) -> PositionedBatch | None:
        return self._batches.pop() if self._batches else None

    def decode(self) -> bool:
        """Decode the next batch into `records`; False when none was read."""
        if not self._batches:
            return False
        self.records = self._batches.pop().records()
        self.records.reverse()
        return True

    def take(self, count: int) -> list[Record]:
        """Up to `count` records of those that were read."""
        taken: list[Record] = []
        while count > len(taken) and (self.records or self.decode()):
            missing = count - len(taken)
            taken += self.records[: -missing - 1 : -1]
            del self.records[-missing:]
        return taken

    def rewind(self) -> None:
        """Forget what was read and not taken; the scan will read it again."""
        self.scan.seek(lsn_of(self.position))
        self._batches, self.records = [], []
