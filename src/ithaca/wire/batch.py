"""The batch: 1..n records that one producer sent together, or one entry of the log's own bookkeeping.

```
 0 magic u32 | 4 body_crc u32: CRC32C over bytes 8..48 and 60..end (all that the producer says)
 8 version u8 | 9 kind u8 | 10 flags u16 | 12 count u32 | 16 body_bytes u32 (stored, multiple of 8)
20 producer_epoch u32 | 24 producer_id u64 | 32 first_seq u64 (counts records) | 40 timestamp_us i64
48 base_lsn u64 | 56 head_crc u32: over base_lsn and body_crc, seeded with (shard, replica, incarnation)
60 raw_bytes u32 (body before compression; for bookkeeping kinds, before padding)
64 body: value_offsets i32[count+1] | values | [key validity bitmap | key_offsets i32[count+1] | keys]
   each part and the end zero-padded to 8; offsets start at 0, never fall, end inside
```

All little-endian. Kinds: data, a run of no-ops (count, no body), and the bookkeeping of a lane, which
counts no records: control, mark, snapshot, and the place of the entry that follows. Flags: bits 0–1
compression (of the body only), bit 2 keys.

Offsets and data are Arrow's binary layout, validity is Arrow's bitmap. Bytes 0..8 and what body_crc covers
stay the same in every version, so an unknown version can be told from damage.
"""

import struct
from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.limits import BATCH_BYTES_MAX, BATCH_RECORDS_MAX, SEQUENCE_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, Record
from ithaca.wire import arrow, compression
from ithaca.wire.cutting import cut, cut_evenly, even_bytes

MAGIC: Final = 0x41485449  # "ITHA"
VERSION: Final = 1
HEAD_BYTES: Final = 64
OBJECT_BYTES: Final = 1024
"""What a batch in memory takes beside its stored bytes, generously: small ones are mostly that."""

DATA, NOOPS, CONTROL, MARK, SNAPSHOT, PLACE = 1, 2, 3, 4, 5, 6
BOOKKEEPING: Final = frozenset({CONTROL, MARK, SNAPSHOT, PLACE})

_COMPRESSION_MASK: Final = 0b011
KEYS: Final = 0b100

_HEAD = struct.Struct("<IIBBHIIIQQqQII")
_SIZE = struct.Struct("<I12xI")
_GLANCE = struct.Struct("<I8xII28xQ")
_SAID = struct.Struct("<BBHIIIQQqI")
_PLACE = struct.Struct("<QI")
_ROW = struct.Struct("<ii")
"""Where a value begins and ends."""
_LANE = struct.Struct("<III")

Offsets = NDArray[np.int32]
crc32c = google_crc32c.value
_extend = google_crc32c.extend


class Columns(NamedTuple):
    """Where keys and values lie in `raw`, the uncompressed bytes."""

    raw: Buffer
    value_offsets: Offsets
    values_at: int
    key_valid_at: int
    key_offsets: Offsets | None
    keys_at: int

    def key_vectors(self) -> tuple[Offsets, NDArray[np.uint8], NDArray[np.bool_]]:
        """Key offsets, key bytes and which records have a key; for `keys.select`."""
        assert self.key_offsets is not None
        rows = len(self.value_offsets) - 1
        everything = np.frombuffer(self.raw, np.uint8)
        bitmap = everything[self.key_valid_at : self.key_valid_at + (rows + 7) // 8]
        valid = np.unpackbits(bitmap, count=rows, bitorder="little").astype(np.bool_)
        return self.key_offsets, everything[self.keys_at :], valid


class Batch:
    """A parsed or built batch. `data[start:start + body_bytes]` is the stored body; nothing is copied.

    One that was built of large values has its body in pieces, until somebody looks at it as a whole.
    """

    __slots__ = (
        "_data",
        "_pieces",
        "base_lsn",
        "body_bytes",
        "body_crc",
        "count",
        "end_lsn",
        "first_seq",
        "flags",
        "head",
        "head_crc",
        "kind",
        "producer_epoch",
        "producer_id",
        "raw_bytes",
        "start",
        "timestamp_us",
        "total_bytes",
        "version",
    )

    body_crc: int
    version: int
    kind: int
    flags: int
    count: int
    body_bytes: int
    producer_epoch: int
    producer_id: int
    first_seq: int
    timestamp_us: int
    base_lsn: int
    head_crc: int
    raw_bytes: int
    end_lsn: int
    """The LSN after the last record."""
    total_bytes: int

    def __init__(self, head: bytes, data: Buffer | None, start: int, pieces: tuple[bytes, ...] = ()) -> None:
        (
            _,
            self.body_crc,
            self.version,
            self.kind,
            self.flags,
            self.count,
            self.body_bytes,
            self.producer_epoch,
            self.producer_id,
            self.first_seq,
            self.timestamp_us,
            self.base_lsn,
            self.head_crc,
            self.raw_bytes,
        ) = _HEAD.unpack(head)
        self.head = head
        self._data = data
        self._pieces = pieces
        self.start = start
        self.end_lsn = self.base_lsn + self.count
        self.total_bytes = HEAD_BYTES + self.body_bytes

    @property
    def kept_bytes(self) -> int:
        """About what it takes to keep this batch in memory: its stored bytes and the objects around them."""
        return self.total_bytes + OBJECT_BYTES

    @property
    def is_compressed(self) -> bool:
        return bool(self.flags & _COMPRESSION_MASK)

    @property
    def has_keys(self) -> bool:
        return bool(self.flags & KEYS)

    @property
    def data(self) -> Buffer:
        """What the body lies in; pieces are joined for whoever asks first."""
        data = self._data
        if data is None:
            data = self._data = b"".join(self._pieces)
        return data

    @property
    def body(self) -> Buffer:
        """The stored body, without copying it."""
        data = self.data
        if self.start == 0 and len(data) == self.body_bytes:
            return data
        return memoryview(data)[self.start : self.start + self.body_bytes]

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The stored body of a batch that was built here, as it was put together."""
        if self._pieces:
            return self._pieces
        body = self.body
        assert isinstance(body, bytes)
        return (body,)

    def buffers(self) -> tuple[Buffer, ...]:
        """Head and body, to be written one after the other."""
        return (self.head, *self._pieces) if self._pieces else (self.head, self.body)

    def placed(self, base_lsn: int, seed: int) -> "Batch":
        """This batch, put at a place in a lane; `seed` comes from `lane_seed`. It may be put elsewhere later."""
        self.base_lsn, self.end_lsn = base_lsn, base_lsn + self.count
        self.head_crc = _place_crc(base_lsn, self.body_crc, seed)
        self.head = self._head_at(base_lsn, self.head_crc)
        return self

    def placed_head(self, base_lsn: int, seed: int) -> bytes:
        """The head of `placed` alone, which is all of an entry without a body."""
        return self._head_at(base_lsn, _place_crc(base_lsn, self.body_crc, seed))

    def _head_at(self, base_lsn: int, head_crc: int) -> bytes:
        return b"".join((self.head[:48], _PLACE.pack(base_lsn, head_crc), self.head[60:]))

    def belongs_to(self, seed: int) -> bool:
        """Whether the accepting replica of that lane placed the batch at its base LSN."""
        return self.head_crc == _place_crc(self.base_lsn, self.body_crc, seed)

    def control_body(self) -> bytes:
        """The bytes of a bookkeeping entry, without padding."""
        return bytes(memoryview(self.data)[self.start : self.start + self.raw_bytes])

    def columns(self) -> Columns:
        """Keys and values as vectors, decompressed if need be, with every offset checked.

        They are not kept here: few stored bytes may become many, and whoever keeps a batch counts what is stored.
        """
        raw, at = self._uncompressed()
        end = at + self.raw_bytes
        value_offsets, at = _read_offsets(raw, at, end, self.count)
        values_at = at
        at += padded(int(value_offsets[-1]))
        key_offsets: Offsets | None = None
        key_valid_at = keys_at = 0
        if self.flags & KEYS:
            key_valid_at = at
            key_offsets, at = _read_offsets(raw, at + padded((self.count + 7) // 8), end, self.count)
            keys_at = at
            at += padded(int(key_offsets[-1]))
        if at != end:
            raise Corrupt(f"the columns of a batch end at byte {at} of {end}")
        return Columns(raw, value_offsets, values_at, key_valid_at, key_offsets, keys_at)

    def _uncompressed(self) -> tuple[Buffer, int]:
        """The bytes in which the body lies as it was built, and where it begins there."""
        code = self.flags & _COMPRESSION_MASK
        return (compression.decompress(code, self.body, self.raw_bytes), 0) if code else (self.data, self.start)

    def records(self, position: int, shard: int, low: int = 0, high: int | None = None) -> list[Record]:
        """The records `[low, high)` of the batch, whose first record has the given position."""
        count = self.count
        high = count if high is None else high
        assert 0 <= low <= high <= count
        stamp = self.timestamp_us
        positions = range(position + low, position + high)
        keys: Iterable[bytes | None] = repeat(None)
        if not self.flags & KEYS:
            raw, at = self._uncompressed()
            size = even_bytes(raw, at, at + self.raw_bytes, count)
            if size:
                values = cut_evenly(raw, at, count, size, low, high)
                return list(map(Record, positions, values, keys, repeat(stamp), repeat(shard)))
        columns = self.columns()
        values = cut(columns.raw, columns.values_at, columns.value_offsets, low, high)
        if columns.key_offsets is not None:
            valid = columns.key_vectors()[2][low:high].tolist()
            found = cut(columns.raw, columns.keys_at, columns.key_offsets, low, high)
            keys = [key if has_key else None for key, has_key in zip(found, valid, strict=True)]
        return list(map(Record, positions, values, keys, repeat(stamp), repeat(shard)))

    def record(self, position: int, shard: int, row: int) -> Record:
        """One record of the batch, whose first record has the given position; of the others nothing is looked at."""
        assert 0 <= row < self.count
        if self.flags:
            return self.records(position, shard, row, row + 1)[0]
        values_at = self.start + padded(4 * (self.count + 1))
        values_bytes = self.start + self.raw_bytes - values_at
        low, high = _ROW.unpack_from(self.data, self.start + 4 * row) if values_bytes >= 0 else (0, -1)
        if not 0 <= low <= high <= values_bytes:
            raise Corrupt("the offsets of a batch fall, or point outside")
        value = bytes(memoryview(self.data)[values_at + low : values_at + high])
        return Record(position + row, value, None, self.timestamp_us, shard)

    def to_arrow(self, positions: NDArray[np.int64], shard: int) -> Any:
        """A `pyarrow.RecordBatch` of all records over the same memory."""
        columns = self.columns()
        raw = memoryview(columns.raw)
        keys: tuple[Buffer, Offsets, Buffer] | tuple[None, None, None] = (None, None, None)
        if columns.key_offsets is not None:
            bitmap = raw[columns.key_valid_at : columns.key_valid_at + (self.count + 7) // 8]
            keys = (bitmap, columns.key_offsets, raw[columns.keys_at :])
        return arrow.to_record_batch(
            positions,
            shard,
            self.timestamp_us,
            self.count,
            columns.value_offsets,
            raw[columns.values_at :],
            *keys,
        )


def lane_seed(lane: LaneId) -> int:
    """What ties the head of a batch to one lane."""
    return int(crc32c(_LANE.pack(*lane)))


def _place_crc(base_lsn: int, body_crc: int, seed: int) -> int:
    return int(_extend(seed, _PLACE.pack(base_lsn, body_crc)))


def padded(count: int) -> int:
    return (count + 7) & ~7


def _read_offsets(raw: Buffer, at: int, end: int, count: int) -> tuple[Offsets, int]:
    """Offsets at `at`, checked to lie within the body with the data they describe, and where they end."""
    after = at + padded(4 * (count + 1))
    if after > end:
        raise Corrupt(f"the offsets of {count} records do not fit into a batch")
    offsets: Offsets = np.frombuffer(raw, np.dtype("<i4"), count + 1, at)
    if offsets[0] != 0 or int(offsets[-1]) > end - after or bool((offsets[1:] < offsets[:-1]).any()):
        raise Corrupt("the offsets of a batch do not start at 0, fall, or point outside")
    return offsets, after


def stored_bytes(data: Buffer, offset: int) -> int:
    """How long the batch whose head starts at `offset` says it is; 0 when no batch starts there."""
    if len(data) - offset < HEAD_BYTES:
        return 0
    magic: int
    body_bytes: int
    magic, body_bytes = _SIZE.unpack_from(data, offset)
    if magic != MAGIC or body_bytes % 8 or body_bytes > BATCH_BYTES_MAX:
        return 0
    return HEAD_BYTES + body_bytes


class Glance(NamedTuple):
    """What a head says of where its batch lies; unchecked."""

    base_lsn: int
    records: int
    total_bytes: int


def glance(data: Buffer, offset: int) -> Glance | None:
    """What the head at `offset`, which must be there whole, says; None when no batch starts there."""
    magic, count, body_bytes, base_lsn = _GLANCE.unpack_from(data, offset)
    if magic != MAGIC or body_bytes % 8 or body_bytes > BATCH_BYTES_MAX:
        return None
    return Glance(base_lsn, count, HEAD_BYTES + body_bytes)


def parse(data: Buffer, offset: int = 0) -> Batch:
    """The batch at `offset`, its body checked; raises `Corrupt` or `FormatTooNew`."""
    total = stored_bytes(data, offset)
    if total == 0 or offset + total > len(data):
        raise Corrupt("no batch starts here" if total == 0 else f"a batch of {total} bytes is cut short")
    batch = Batch(bytes(data[offset : offset + HEAD_BYTES]), data, offset + HEAD_BYTES)
    if _crc_of(batch.head, batch.body) != batch.body_crc:
        raise Corrupt("the checksum of a batch does not match")
    if batch.version != VERSION:
        raise FormatTooNew(
            f"a batch has format version {batch.version}, and this Ithaca knows {VERSION}: use a newer Ithaca",
            found=batch.version,
            supported=VERSION,
        )
    _check_kind(batch)
    return batch


def _crc_of(head: bytes, body: Buffer) -> int:
    crc = _extend(crc32c(head[8:48]), head[60:64])
    return int(_extend(crc, body if isinstance(body, bytes) else np.frombuffer(body, np.uint8)))


def _check_kind(batch: Batch) -> None:
    """What a checksum cannot say: a producer that computes checksums can still send nonsense."""
    if batch.flags & ~(_COMPRESSION_MASK | KEYS) or (batch.kind != DATA and batch.flags):
        raise Corrupt(f"a batch of kind {batch.kind} has flags {batch.flags:#x}, which nobody sets")
    if batch.kind == DATA:
        stored = batch.raw_bytes == batch.body_bytes or batch.flags & _COMPRESSION_MASK
        well_formed = 0 < batch.count <= BATCH_RECORDS_MAX and stored and batch.raw_bytes <= BATCH_BYTES_MAX
        well_formed = well_formed and batch.first_seq + batch.count <= SEQUENCE_MAX
    elif batch.kind == NOOPS:
        well_formed = batch.count > 0 and batch.body_bytes == batch.raw_bytes == 0
    elif batch.kind in BOOKKEEPING:
        well_formed = batch.count == 0 and padded(batch.raw_bytes) == batch.body_bytes
    else:
        well_formed = False
    if not well_formed:
        raise Corrupt(f"a batch of kind {batch.kind} with {batch.count} records is not well-formed")


def sealed(
    kind: int,
    flags: int,
    count: int,
    timestamp_us: int,
    producer: tuple[int, int, int],
    body: bytes | tuple[bytes, ...],
    raw_bytes: int,
) -> Batch:
    """A batch of these fields, not yet at any place; the body, whole or in pieces, is padded already."""
    producer_id, epoch, first_seq = producer
    pieces = (body,) if isinstance(body, bytes) else body
    body_bytes = sum(map(len, pieces))
    said = (VERSION, kind, flags, count, body_bytes, epoch, producer_id, first_seq, timestamp_us)
    crc = crc32c(_SAID.pack(*said, raw_bytes))
    for piece in pieces:
        crc = _extend(crc, piece)
    head = _HEAD.pack(MAGIC, crc, *said, 0, 0, raw_bytes)
    return Batch(head, pieces[0], 0) if len(pieces) == 1 else Batch(head, None, 0, pieces)
