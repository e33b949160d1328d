"""Making a backup, adding to it, and checking it.

A backup holds the log up to the tail as it was when the run began: everything that was acknowledged before, and a
prefix of the one order. The next run adds what came since. A run that was killed leaves whole chunks, and the next goes
on.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ithaca.archive.folder import SEED, Chunk, check_version, chunks, prepare, write_chunk
from ithaca.model.errors import Corrupt, InvalidInput, Trimmed
from ithaca.model.interface import Batch as BatchOfLog
from ithaca.model.interface import Log
from ithaca.model.limits import MIB
from ithaca.model.paths import AnyPath, local_path
from ithaca.model.records import Record
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch

CHUNK_BYTES = 64 * MIB
"""About how large a chunk becomes, and how much a run that is killed has to do again at most."""

Advance = Callable[[int], object]
"""Called with the number of bytes done since the last call."""


class Backup(NamedTuple):
    """What a backup holds: positions `[first, stop)`, and what the last run added."""

    first: int
    stop: int
    added: int


class Fault(NamedTuple):
    """One thing that is wrong with a backup."""

    file: str
    offset: int
    problem: str


def back_up(
    log: Log, directory: AnyPath, advance: Advance = lambda count: None, *, chunk_bytes: int = CHUNK_BYTES
) -> Backup:
    """Add to the backup in this directory, which is made if need be, all that the log holds by now.

    >>> import ithaca, tempfile
    >>> with tempfile.TemporaryDirectory() as place, ithaca.open(f"{place}/log") as log:
    ...     receipt = log.append_many([b"a", b"b"])
    ...     back_up(log, f"{place}/backup")
    Backup(first=1, stop=3, added=2)
    """
    folder = Path(local_path(directory))
    prepare(folder)
    there = chunks(folder)
    tail, first = log.tail(), log.first()
    start = there[-1].stop if there else first
    if there:
        _check_same(log, there, first, tail, folder)
    writing = _Writing(folder, start, chunk_bytes)
    if start < tail:
        with log.read_range(start, tail) as records:
            for batch in records.batches():
                writing.add(batch)
                advance(writing.take_bytes())
        writing.finish(tail)
    return Backup(there[0].start if there else first, max(start, tail), max(0, tail - start))


class _Writing:
    """The chunk that is being filled."""

    def __init__(self, folder: Path, start: int, chunk_bytes: int) -> None:
        self._folder = folder
        self._start = self._position = start
        self._chunk_bytes = chunk_bytes
        self._pieces: list[bytes] = []
        self._size = self._new_bytes = 0

    def add(self, batch: BatchOfLog) -> None:
        for stop, pieces in _encoded(batch):
            self._pieces += pieces
            size = sum(map(len, pieces))
            self._size, self._new_bytes, self._position = self._size + size, self._new_bytes + size, stop
            if self._size >= self._chunk_bytes:
                self.finish(stop)

    def take_bytes(self) -> int:
        count, self._new_bytes = self._new_bytes, 0
        return count

    def finish(self, stop: int) -> None:
        """What is there becomes a chunk that ends here."""
        if stop > self._start:
            write_chunk(self._folder, self._start, stop, self._pieces)
        self._start, self._pieces, self._size = stop, [], 0


def _encoded(batch: BatchOfLog) -> Iterator[tuple[int, list[bytes]]]:
    """The bytes of a batch, as they are if it is whole, else of each run of positions; with the end of each."""
    if isinstance(batch, PositionedBatch):
        rows = batch.stretch()
        if (rows.low, rows.high) == (0, rows.batch.count):
            head, body = rows.batch.buffers()
            head = rows.batch.placed_head(batch.first_position - 1, SEED)
            yield batch.stop_position, [head, bytes(body)]
            return
    run: list[Record] = []
    for record in [*batch.records(), None]:
        if run and (record is None or record.position != run[-1].position + 1):
            built = build(
                [each.value for each in run],
                [each.key for each in run] if any(each.key is not None for each in run) else None,
                timestamp_us=run[0].timestamp_us,
            )
            head, body = built.placed(run[0].position - 1, SEED).buffers()
            yield run[-1].position + 1, [head, bytes(body)]
            run = []
        if record is not None:
            run.append(record)


def _check_same(log: Log, there: list[Chunk], first: int, tail: int, folder: Path) -> None:
    """Refuse to add to the backup of another log, or behind a gap."""
    stop = there[-1].stop
    if first > stop:
        raise Trimmed(
            f"the log begins at {first}, and the backup in {folder} ends at {stop}: what is between was trimmed. Begin "
            "another backup, in another directory",
            first=first,
        )
    last = next(reversed(list(there[-1].batches())), None)
    if tail < stop:
        raise InvalidInput(f"the log ends at {tail}, and the backup in {folder} at {stop}: it is of another log")
    if last is None or last.base_lsn + last.count < first:
        return
    position = last.base_lsn + last.count
    kept = last.records(last.base_lsn + 1, 0)[-1]
    found = log.read(position)
    if (found.value, found.key, found.timestamp_us) != (kept.value, kept.key, kept.timestamp_us):
        raise InvalidInput(
            f"position {position} holds another record than the backup in {folder}: it is of another log"
        )


def verify_backup(directory: AnyPath, advance: Advance = lambda count: None) -> Iterator[Fault]:
    """Everything that is wrong with a backup; nothing when it is sound."""
    folder = Path(local_path(directory))
    check_version(folder)
    try:
        found = chunks(folder)
    except Corrupt as error:
        yield Fault(error.file, error.offset, str(error).partition(": ")[2])
        return
    for chunk in found:
        try:
            for batch in chunk.batches():
                batch.records(1, 0)
                advance(batch.total_bytes)
        except Corrupt as error:
            yield Fault(error.file, error.offset, str(error).partition(": ")[2])
