"""What an entry of the Raft log says: a range of the data log, or a control entry.

```
range    0 kind u8 = 1 | 1 zero u8 | 2 batches u16 | 4 crc u32: CRC32C over the heads of the batches, 64 bytes each
         8 first_lsn u64 | 16 count u64: records | 24 bytes u64: of the batches, as they are stored
        32 for each batch: count u32 | epoch u32 | producer_id u64 | first_seq u64
control  0 kind u8 = 2 | 1 msgpack
```

All little-endian. Heads hold the checksums of bodies and places, so a range names its bytes. Who sent a batch is said
here once more: then what committed entries add up to can be told without reading the data log.
"""

import struct
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from ithaca.consumers.table import ConsumerChanges
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import SESSION_NAME_BYTES_MAX, SESSIONS_TOGETHER_MAX
from ithaca.model.view import ClusterConfiguration
from ithaca.raft.log import entry_bytes
from ithaca.raft.messages import Entry, EntryKind
from ithaca.users.table import UserChanges
from ithaca.wire.batch import DATA, NOOPS, Batch, crc32c

RANGE: Final = 1
CONTROL: Final = 2

_HEAD = struct.Struct("<BBHIQQQ")
_BATCH = struct.Struct("<IIQQ")
_BYTES = struct.Struct("<24xQ")
BATCHES_MAX: Final = 0xFFFF
"""Of one range."""

_Natural = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_Counted = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]


class RangeBatch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One batch of a range: its records, and the session that they belong to."""

    count: int
    producer_id: int
    epoch: int
    first_seq: int


class Range(msgspec.Struct, frozen=True):
    """Consecutive batches of the data log, agreed on together."""

    first_lsn: int
    count: int
    crc: int
    size_bytes: int
    batches: tuple[RangeBatch, ...]

    @property
    def end_lsn(self) -> int:
        return self.first_lsn + self.count


class Found(msgspec.Struct, frozen=True, tag="found"):
    """The first entry: what the log is. Another one changes nothing."""

    configuration: ClusterConfiguration


class OpenSession(msgspec.Struct, frozen=True, tag="open-session"):
    """Open the named session, or open it again under a higher epoch."""

    name: Annotated[str, Meta(min_length=1, max_length=SESSION_NAME_BYTES_MAX)]


class ExpireSessions(msgspec.Struct, frozen=True, tag="expire-sessions"):
    """Forget sessions, each unless it was opened again: (producer, epoch)."""

    sessions: Annotated[tuple[tuple[_Counted, _Counted], ...], Meta(max_length=SESSIONS_TOGETHER_MAX)]


class TrimLog(msgspec.Struct, frozen=True, tag="trim"):
    """Nothing below this LSN is read any more; void when the log does not go that far."""

    lsn: _Natural


class ChangeConsumers(msgspec.Struct, frozen=True, tag="consumers"):
    """What several clients asked of named consumers."""

    changes: ConsumerChanges


class ChangeUsers(msgspec.Struct, frozen=True, tag="users"):
    """What an administrator asked of users."""

    changes: UserChanges


Control = Found | OpenSession | ExpireSessions | TrimLog | ChangeConsumers | ChangeUsers
LogEntry = Range | Control

_control_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)


def range_of(batches: Sequence[Batch]) -> Range:
    """The range that placed batches, one behind the other, make."""
    first, last = batches[0], batches[-1]
    return Range(
        first.base_lsn,
        last.end_lsn - first.base_lsn,
        crc32c(b"".join([batch.head for batch in batches])),
        sum(batch.total_bytes for batch in batches),
        tuple(RangeBatch(each.count, each.producer_id, each.producer_epoch, each.first_seq) for each in batches),
    )


def encode_entry(entry: LogEntry) -> bytes:
    """The data of the Raft entry.

    >>> decode_entry(encode_entry(TrimLog(7)))
    TrimLog(lsn=7)
    """
    if not isinstance(entry, Range):
        return bytes((CONTROL,)) + msgspec.msgpack.encode(entry)
    assert 0 < len(entry.batches) <= BATCHES_MAX
    head = _HEAD.pack(RANGE, 0, len(entry.batches), entry.crc, entry.first_lsn, entry.count, entry.size_bytes)
    return head + b"".join(
        _BATCH.pack(each.count, each.epoch, each.producer_id, each.first_seq) for each in entry.batches
    )


def decode_entry(data: bytes) -> LogEntry:
    """The inverse of `encode_entry`; `ProtocolError` for anything else."""
    kind = data[0] if data else 0
    if kind == CONTROL:
        try:
            return _control_decoder.decode(memoryview(data)[1:])
        except UNDECODABLE as error:
            raise ProtocolError(f"a control entry cannot be decoded: {error}") from error
    if kind != RANGE or len(data) < _HEAD.size:
        raise ProtocolError(f"{len(data)} bytes of kind {kind} are no entry of this log")
    _, zero, batches, crc, first_lsn, count, size_bytes = _HEAD.unpack_from(data)
    if zero or not batches or len(data) != _HEAD.size + batches * _BATCH.size:
        raise ProtocolError(f"a range of {batches} batches does not have {len(data)} bytes")
    found = tuple(
        RangeBatch(records, producer_id, epoch, first_seq)
        for records, epoch, producer_id, first_seq in _BATCH.iter_unpack(memoryview(data)[_HEAD.size :])
    )
    if sum(each.count for each in found) != count or not all(each.count for each in found):
        raise ProtocolError(f"the batches of a range of {count} records do not add up to it")
    return Range(first_lsn, count, crc, size_bytes, found)


def is_range(entry: Entry) -> bool:
    """Whether an entry of the Raft log names a range."""
    return entry.kind is EntryKind.PAYLOAD and entry.data[:1] == bytes((RANGE,))


def range_in(entry: Entry) -> Range | None:
    """The range that an entry of the Raft log names; None for every other one."""
    if not is_range(entry):
        return None
    decoded = decode_entry(entry.data)
    assert isinstance(decoded, Range)
    return decoded


def weigh(entry: Entry) -> int:
    """What an entry counts: with the batches of its range, which travel beside it."""
    if is_range(entry):
        size: int = _BYTES.unpack_from(entry.data)[0]
        return entry_bytes(entry) + size
    return entry_bytes(entry)


def check_bytes(of: Range, batches: Sequence[Batch], seed: int) -> None:
    """`ProtocolError` unless these are the batches of the range, in the lane that the seed stands for.

    No-ops stand for batches that were trimmed where they came from: nobody reads them any more.
    """
    if len(batches) != len(of.batches):
        raise ProtocolError(f"a range of {len(of.batches)} batches came with {len(batches)}")
    lsn = of.first_lsn
    for batch, named in zip(batches, of.batches, strict=True):
        if batch.kind not in (DATA, NOOPS) or (batch.base_lsn, batch.count) != (lsn, named.count):
            raise ProtocolError(
                f"a batch of kind {batch.kind} with {batch.count} records at LSN {batch.base_lsn} is not the one of "
                f"{named.count} records that the range has at {lsn}"
            )
        if not batch.belongs_to(seed):
            raise ProtocolError(f"the batch at LSN {lsn} was placed in another log")
        lsn = batch.end_lsn
    is_complete = all(batch.kind == DATA for batch in batches)
    if is_complete and crc32c(b"".join([batch.head for batch in batches])) != of.crc:
        raise ProtocolError(f"the batches of the range at LSN {of.first_lsn} are not those that it names")
