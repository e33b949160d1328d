"""A snapshot in the log: chunks under a key that nobody follows, and a mark that says where they are."""

from ithaca.model.errors import Corrupt
from ithaca.model.records import Record
from ithaca.objects.entries import FORMAT, Chunk, Mark, encode, kept_of
from ithaca.objects.limits import OBJECT_SNAPSHOT_CHUNK_BYTES, OBJECT_SNAPSHOT_CHUNKS_TOGETHER
from ithaca.objects.snapshot import Snapshot
from ithaca.runtime.machine import rng
from ithaca.wire.batch import crc32c


class ChunkedSnapshot:
    """One that is written: `groups` of chunks, each for one batch; then the mark."""

    def __init__(self, snapshot: Snapshot) -> None:
        data = snapshot.to_bytes()
        number, step = rng().getrandbits(63), OBJECT_SNAPSHOT_CHUNK_BYTES
        chunks = [encode(Chunk(FORMAT, number, at // step, data[at : at + step])) for at in range(0, len(data), step)]
        together = OBJECT_SNAPSHOT_CHUNKS_TOGETHER
        self.groups = [chunks[at : at + together] for at in range(0, len(chunks), together)]
        self._number = number
        self._position = snapshot.head.position
        self._bytes, self._crc = len(data), crc32c(data)

    def mark(self, first: int, last: int) -> bytes:
        """Its chunks are at these positions, among others."""
        return encode(Mark(FORMAT, self._number, self._position, first, last, self._bytes, self._crc))


def newer_mark(found: Mark | None, record: Record, position_max: int | None) -> Mark | None:
    """The newest mark so far, of snapshots that stand no later than this."""
    mark = kept_of(record)
    if not isinstance(mark, Mark) or (position_max is not None and mark.position > position_max):
        return found
    return mark if found is None or mark.position >= found.position else found


def chunk_of(mark: Mark, record: Record) -> bytes:
    """What a record has of the snapshot with this mark."""
    chunk = kept_of(record)
    return chunk.data if isinstance(chunk, Chunk) and chunk.snapshot == mark.snapshot else b""


def from_chunks(mark: Mark, data: bytes) -> Snapshot:
    """The snapshot; `Corrupt` when these are not its bytes."""
    where = f"the snapshot in the log, positions {mark.first} to {mark.last}"
    if len(data) != mark.bytes or crc32c(data) != mark.crc:
        raise Corrupt("its chunks are not what its mark says", file=where, offset=len(data))
    return Snapshot.from_bytes(data, where)
