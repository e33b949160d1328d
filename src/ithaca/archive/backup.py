"""Making a backup, adding to it, and checking it.

A backup holds the log up to the tail as it was when the run began: everything that was acknowledged before, and a
prefix of the one order. The next run adds what came since. A run that was killed leaves whole chunks, and the next goes
on.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ithaca.archive.checks import check_log
from ithaca.archive.folder import SEED, Chunk, check_version, chunks, is_chunk, prepare, write_chunk
from ithaca.archive.pacing import Pacing, Yielding
from ithaca.archive.places import Place, place_of
from ithaca.archive.progress import Advance, Done
from ithaca.model.arguments import flag, optional_function
from ithaca.model.errors import Corrupt, InvalidInput, Trimmed
from ithaca.model.interface import Batch as BatchOfLog
from ithaca.model.interface import Log
from ithaca.model.limits import MIB
from ithaca.model.paths import AnyPath
from ithaca.model.records import Record
from ithaca.model.units import Size, byte_count
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch

CHUNK_BYTES = 64 * MIB
"""About how large a chunk becomes, and how much a run that is killed has to do again at most."""


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
    log: Log,
    to: AnyPath,
    advance: Advance | None = None,
    *,
    pace: Size | None = None,
    yields: bool = True,
    chunk_bytes: Size = CHUNK_BYTES,
) -> Backup:
    """Add to the backup in this directory, or at this URL of an object store, all that the log holds by now.

    It is made if need be. A URL, such as `s3://bucket/events`, needs fsspec, and what fsspec needs for that store. With
    `pace`, such as `"20MB"`, no more than that is taken in a second, so that others have the rest of disks and network.
    While others append, it rests nine tenths of the time, unless `yields` is false.

    >>> import ithaca, tempfile
    >>> with tempfile.TemporaryDirectory() as place, ithaca.open(f"{place}/log") as log:
    ...     receipt = log.append_many([b"a", b"b"])
    ...     back_up(log, f"{place}/backup")
    Backup(first=1, stop=3, added=2)
    """
    check_log(log)
    optional_function(advance, "advance")
    flag(yields, "yields")
    chunk_bytes = byte_count(chunk_bytes, "chunk_bytes")
    place, pacing = place_of(to), Pacing(None if pace is None else byte_count(pace, "pace"))
    prepare(place)
    there = chunks(place)
    tail, first = log.tail(), log.first()
    start = there[-1].stop if there else first
    if there:
        _check_same(log, there, first, tail, place)
    yielding = Yielding(log.tail) if yields else None
    writing = _Writing(place, start, chunk_bytes, yielding)
    if start < tail:
        with log.read_range(start, tail) as records:
            for batch in records.batches():
                before = writing.position
                size = writing.add(batch)
                if advance is not None:
                    advance(Done(writing.position - before, size, tail - start))
                pacing.took(size)
                if yielding is not None:
                    yielding.worked(size)
        writing.finish(tail)
    return Backup(there[0].start if there else first, max(start, tail), max(0, tail - start))


class _Writing:
    """The chunk that is being filled."""

    def __init__(self, place: Place, start: int, chunk_bytes: int, yielding: Yielding | None) -> None:
        self._place = place
        self._yielding = yielding
        self._start = self.position = start
        self._chunk_bytes = chunk_bytes
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, batch: BatchOfLog) -> int:
        """Returns the bytes that this took."""
        taken = 0
        for stop, pieces in _encoded(batch):
            self._pieces += pieces
            size = sum(map(len, pieces))
            taken, self._size, self.position = taken + size, self._size + size, stop
            if self._size >= self._chunk_bytes:
                self.finish(stop)
        return taken

    def finish(self, stop: int) -> None:
        """What is there becomes a chunk that ends here."""
        if stop > self._start:
            pieces = self._pieces if self._yielding is None else self._yielding.through(self._pieces)
            write_chunk(self._place, self._start, stop, pieces)
        self._start, self._pieces, self._size = stop, [], 0


def _encoded(batch: BatchOfLog) -> Iterator[tuple[int, list[bytes]]]:
    """The bytes of a batch, as they are if it is whole, else of each run of positions; with the end of each."""
    if isinstance(batch, PositionedBatch):
        rows = batch.stretch()
        if (rows.low, rows.high) == (0, rows.batch.count):
            head = rows.batch.placed_head(batch.first_position - 1, SEED)
            yield batch.stop_position, [head, bytes(rows.batch.body)]
            return
    run: list[Record] = []
    for record in [*batch.records(), None]:
        if run and (record is None or record.position != run[-1].position + 1):
            built = build(
                [each.value for each in run],
                [each.key for each in run] if any(each.key is not None for each in run) else None,
                timestamp_us=run[0].timestamp_us,
            )
            yield run[-1].position + 1, list(map(bytes, built.placed(run[0].position - 1, SEED).buffers()))
            run = []
        if record is not None:
            run.append(record)


def _check_same(log: Log, there: list[Chunk], first: int, tail: int, place: Place) -> None:
    """Refuse to add to the backup of another log, or behind a gap."""
    stop = there[-1].stop
    if first > stop:
        raise Trimmed(
            f"the log begins at {first}, and the backup in {place} ends at {stop}: what is between was trimmed. Begin "
            "another backup, in another directory",
            first=first,
        )
    last = next(reversed(list(there[-1].batches())), None)
    if tail < stop:
        raise InvalidInput(f"the log ends at {tail}, and the backup in {place} at {stop}: it is of another log")
    if last is None or last.base_lsn + last.count < first:
        return
    position = last.base_lsn + last.count
    kept = last.records(last.base_lsn + 1, 0)[-1]
    found = log.read(position)
    if (found.value, found.key, found.timestamp_us) != (kept.value, kept.key, kept.timestamp_us):
        raise InvalidInput(f"position {position} holds another record than the backup in {place}: it is of another log")


def backup_bytes(at: AnyPath) -> int:
    """How much `verify_backup` reads."""
    place = place_of(at)
    return sum(place.size(name) for name in place.names() if is_chunk(name))


def verify_backup(at: AnyPath, advance: Callable[[int], object] | None = None) -> Iterator[Fault]:
    """Everything that is wrong with a backup; nothing when it is sound. `advance` is told the bytes that were read."""
    optional_function(advance, "advance")
    place = place_of(at)
    check_version(place)
    try:
        found = chunks(place)
    except Corrupt as error:
        yield Fault(error.file, error.offset, str(error).partition(": ")[2])
        return
    for chunk in found:
        try:
            for batch in chunk.batches():
                batch.records(1, 0)
                if advance is not None:
                    advance(batch.total_bytes)
        except Corrupt as error:
            yield Fault(error.file, error.offset, str(error).partition(": ")[2])
