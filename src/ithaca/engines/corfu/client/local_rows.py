"""Rows from the files of units on this machine: no record passes through a socket.

Units have said where the rows lie (`sequencing.flows.locating`). Complete rows never change, and what was trimmed or
given up meanwhile does not check out: each entry continues its lane, and stands behind its place, which names its row.
"""

from collections.abc import Iterator

import numpy as np

from ithaca.client.lane_files import LaneFiles
from ithaca.engines.corfu.sequencing.flows.locating import LocatedRows
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.engines.corfu.storage.unit_store import LANE_ID
from ithaca.model.errors import Corrupt, IthacaError, Unavailable
from ithaca.model.limits import READ_LANE_BYTES_MIN
from ithaca.model.records import KeyFilter
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import DATA, PLACE, Batch
from ithaca.wire.positioned import PositionedBatch, PositionedRows

_AHEAD_READS = 8
"""Of so many reads a lane keeps rows that come later: rows lie almost in order."""


class _Lane:
    """The rows of one set in the lane of a unit, asked for in order."""

    def __init__(self, directory: str, stop_lsn: int, last: int) -> None:
        """`last` is its last row in the range, and none of them begins at this LSN or behind it."""
        self._files = LaneFiles(directory, LANE_ID, stop_lsn)
        self.last = last
        self._cursor: Cursor | None = None
        self._ahead: dict[int, Batch] = {}
        self._ahead_bytes = 0

    def batch_of(self, row: int, lsn: int, bytes_max: int) -> Batch:
        """What is in the row, which begins at this LSN; about so many bytes are read with it."""
        if row not in self._ahead:
            self._read(row, lsn, bytes_max)
        found = self._ahead.pop(row, None)
        if found is None or found.base_lsn != lsn:
            raise Corrupt(f"row {row} is not where it should be", file=self._files.directory)
        self._ahead_bytes -= found.total_bytes
        return found

    def _read(self, row: int, lsn: int, bytes_max: int) -> None:
        """Read on from this LSN; of what is read rows are kept that may be asked for."""
        self._ahead = {each: batch for each, batch in self._ahead.items() if each > row}
        self._ahead_bytes = sum(batch.total_bytes for batch in self._ahead.values())
        if self._ahead_bytes > _AHEAD_READS * bytes_max:
            self._ahead, self._ahead_bytes = {}, 0
        if self._cursor is None or self._cursor.lsn != lsn:
            self._cursor = Cursor(self._files, lsn, with_places=True)
        for placed, batch in _placed(self._cursor.read(self._files.length, bytes_max=bytes_max)):
            if row <= placed <= self.last:
                self._ahead[placed] = batch
                self._ahead_bytes += batch.total_bytes


def _placed(entries: list[Batch]) -> Iterator[tuple[int, Batch]]:
    """The batches among these entries of a lane, with their rows; those without a place are no rows."""
    place: Batch | None = None
    for entry in entries:
        if entry.kind == PLACE:
            place = entry
        elif place is not None and place.base_lsn == entry.base_lsn:
            yield place.first_seq, entry


class LocalRows:
    """Positions `[position, stop)`, as far as rows were found. It is a `client.scan.FilesRange`."""

    def __init__(
        self,
        found: LocatedRows,
        position: int,
        stop: int,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
    ) -> None:
        """Of these keys, and of these shards alone, if some are named."""
        self.position = position
        self._stop = stop
        self._up_to = min(stop, max(position, first_position(found.up_to)))
        self._where = where
        chosen = [(shard, lane) for shard, lane in found.lanes if lane.rows and (shards is None or shard in shards)]
        self._lanes = [(shard, lane.place[0], max(lane.lsns) + 1, lane.rows[-1]) for shard, lane in chosen]
        self._open: dict[int, _Lane] = {}
        """Those that are being read, by their numbers: from their first row to the last."""
        parts = [
            np.array([lane.rows, lane.lsns, [number] * len(lane.rows)], np.int64)
            for number, (_, lane) in enumerate(chosen)
        ]
        rows = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.int64)
        rows = rows[:, rows[0] < found.up_to]
        self._rows = rows[:, np.argsort(rows[0])]
        """Row, LSN, and the number of the lane."""
        self._at = 0

    def read(self, bytes_max: int) -> list[PositionedRows]:
        """About so many bytes of records; none at the end. What precedes trouble is returned first."""
        found: list[PositionedRows] = []
        size = 0
        try:
            while self._at < self._rows.shape[1] and size < bytes_max:
                stretch = self._next(bytes_max)
                if stretch is not None:
                    found.append(stretch)
                    size += stretch.raw_bytes
        except (IthacaError, OSError):
            if not found:
                raise
            return found
        if not found and self._up_to < self._stop:
            self.position = self._up_to
            raise Unavailable(f"from position {self._up_to} on rows are not complete yet, or are on other machines")
        return found

    def _next(self, bytes_max: int) -> PositionedRows | None:
        """The records of the next row; None if none of them is wanted."""
        row, lsn, number = self._rows[:, self._at].tolist()
        shard, *where = self._lanes[number]
        lane = self._open.get(number) or self._open.setdefault(number, _Lane(*where))
        batch = lane.batch_of(row, lsn, max(READ_LANE_BYTES_MIN, bytes_max // len(self._open)))
        if row == lane.last:
            del self._open[number]
        position = first_position(row)
        stretch: PositionedRows | None = None
        if batch.kind == DATA:
            wanted = PositionedBatch(batch, position, shard, 0, batch.count).between(self.position, self._stop)
            chosen = wanted if self._where is None else wanted.where(self._where)
            stretch = chosen.stretch() if len(chosen) else None
        self._at += 1
        self.position = first_position(row + 1)
        return stretch
