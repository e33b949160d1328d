"""What objects write to the log: msgpack arrays, the first item of which says what they are.

```
["c", kind, version, origin, number, method, arguments]          a command; arguments is an array
["h", kind, version, origin, replica, position, state hash, outcomes]   a check: outcomes is a u32 for each command
["t", kind, version, origin, position, hashes]                   a trace: 8 bytes for each command up to `position`
["o", format, object, kind, version]                             an object was opened for the first time
["s", format, object, replica, position, retain]                 a replica needs nothing below `position` any more
["m", format, snapshot, position, first, last, bytes, crc]       a snapshot in the log, its chunks in [first, last]
["p", format, snapshot, number, data]                            a chunk of it
```

`origin` is drawn at random by each start of a replica, and `number` counts its commands: so it knows its own. Another
`format` than `FORMAT` is refused by name. Commands have the class and its version instead.
"""

from typing import Final, TypeAlias

import msgspec

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import FormatTooNew, WrongObject
from ithaca.model.records import Record

FORMAT: Final = 1


class Command(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """A method to be called on the state, by all replicas."""

    kind: str
    version: int
    origin: int
    number: int
    method: str
    arguments: msgspec.Raw


class Check(msgspec.Struct, frozen=True, array_like=True, tag="h", gc=False):
    """What a replica's state was behind the command at `position`."""

    kind: str
    version: int
    origin: int
    replica: str
    position: int
    state_hash: bytes
    outcomes: bytes


class Trace(msgspec.Struct, frozen=True, array_like=True, tag="t", gc=False):
    """What a replica's state was behind each command since the last check: said when two checks differ."""

    kind: str
    version: int
    origin: int
    position: int
    hashes: bytes


class Opened(msgspec.Struct, frozen=True, array_like=True, tag="o", gc=False):
    """There is such an object from here on: nothing behind this may be trimmed until its replicas say so."""

    format: int
    object: str
    kind: str
    version: int


class Snapshotted(msgspec.Struct, frozen=True, array_like=True, tag="s", gc=False):
    """A replica has a snapshot; once all of `retain` have one, the log is needed from the oldest of them on."""

    format: int
    object: str
    replica: str
    position: int
    retain: tuple[str, ...]


class Mark(msgspec.Struct, frozen=True, array_like=True, tag="m", gc=False):
    """Where a snapshot stands in the log."""

    format: int
    snapshot: int
    position: int
    first: int
    last: int
    bytes: int
    crc: int


class Chunk(msgspec.Struct, frozen=True, array_like=True, tag="p", gc=False):
    """Some bytes of a snapshot."""

    format: int
    snapshot: int
    number: int
    data: bytes


Entry: TypeAlias = Command | Check | Trace
CatalogueEntry: TypeAlias = Opened | Snapshotted
Kept: TypeAlias = Opened | Snapshotted | Mark | Chunk

encode = msgspec.msgpack.Encoder().encode
_entries: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)
_kept: msgspec.msgpack.Decoder[Kept] = msgspec.msgpack.Decoder(Kept)


def entry_of(record: Record) -> Entry:
    """What a record under an object's key says."""
    try:
        return _entries.decode(record.value)
    except UNDECODABLE as error:
        raise foreign(record, "no entry of an object") from error


def kept_of(record: Record) -> Kept:
    """What a record says that is not for replicas to apply."""
    try:
        entry = _kept.decode(record.value)
    except UNDECODABLE as error:
        raise foreign(record, "nothing that an object writes") from error
    if entry.format > FORMAT:
        raise FormatTooNew(
            f"the record at position {record.position} has format {entry.format}, and this Ithaca knows {FORMAT}: "
            "use a newer Ithaca",
            found=entry.format,
            supported=FORMAT,
        )
    return entry


def foreign(record: Record, what: str) -> WrongObject:
    return WrongObject(
        f"the record at position {record.position} under key {record.key!r} is {what}: "
        "somebody else uses this key, so give the object another name"
    )
