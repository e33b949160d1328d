"""Lanes of stopped servers, for offline tools: walked as a recovery would, without the repairs. Nothing is changed."""

from collections.abc import Iterator

from ithaca.model.positions import LaneId
from ithaca.storage.disk import Disk
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.recovery import inspect
from ithaca.storage.synced import ProgressFile
from ithaca.wire.batch import DATA, Batch


def opened(disk: Disk, path: str, lane: LaneId) -> LaneReader:
    """The lane in this directory; `Corrupt` for damage."""
    progress = ProgressFile(disk, path, writable=False).load()
    found = inspect(disk, path, lane, progress, writable=False)
    reader = LaneReader(disk, path, lane)
    reader.first_lsns, reader.length, reader.trim_lsn = found.first_lsns, found.state.length, found.state.trim_lsn
    return reader


def data_batches(reader: LaneReader, start: int, stop: int) -> Iterator[Batch]:
    """The batches that hold the LSNs `[start, stop)`, but for no-ops: those stand for what was trimmed."""
    cursor = Cursor(reader, start)
    while cursor.lsn < stop:
        yield from (batch for batch in cursor.read(stop) if batch.kind == DATA)
