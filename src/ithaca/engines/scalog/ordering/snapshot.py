"""The state machine's snapshot for Raft's compaction: one msgpack array, `Snapshot` behind a version.

```
[version, [index, configuration, cut number, tail, first, time_us, lanes, shards, sessions, lost, kept cuts, parts,
           consumers, users, unplaced]]
```

What comes last is left out if there is none: unplaced records, then users, then consumers.

Vectors in it are bytes, 8 per element, little-endian (`model.cut.pack`). Equal states have equal bytes.
"""

import struct
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.consumers.table import PackedConsumers
from ithaca.engines.scalog.ordering.lanes import PackedLanes
from ithaca.engines.scalog.ordering.lost import Ranges
from ithaca.engines.scalog.ordering.outcomes import PackedCut
from ithaca.engines.scalog.ordering.prepared.parts import PackedParts
from ithaca.engines.scalog.ordering.sessions import PackedSessions
from ithaca.engines.scalog.ordering.shards import PackedShards
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.limits import SNAPSHOT_PIECE_ITEMS
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration
from ithaca.users.table import PackedUsers

VERSION = 2
"""In version 1 each closed lane was an item of a list; now they are columns."""

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that entries add up to."""

    index: _Natural
    configuration: ClusterConfiguration | None
    cut_number: _Natural
    tail: _Natural
    first: _Natural
    time_us: _Natural
    lanes: PackedLanes
    shards: PackedShards
    sessions: PackedSessions
    lost: list[tuple[LaneId, Ranges]]
    kept: list[PackedCut]
    parts: PackedParts = PackedParts()
    consumers: PackedConsumers = PackedConsumers()
    users: PackedUsers = PackedUsers()
    unplaced: list[tuple[LaneId, _Natural]] = []


_DIVIDED = (Snapshot, PackedLanes, PackedShards, PackedSessions, PackedParts, PackedConsumers)
"""What is encoded field by field, since a field may be large."""
_encode = msgspec.msgpack.Encoder().encode
_envelope_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> Iterator[bytes]:
    """The snapshot in pieces, none of which takes long to make; joined, they are what `decode_snapshot` reads."""
    yield array_head(2)
    yield _encode(VERSION)
    yield from _pieces(snapshot)


def _pieces(value: object) -> Iterator[bytes]:
    if isinstance(value, _DIVIDED):
        fields = [getattr(value, name) for name in value.__struct_fields__]
        if isinstance(value, Snapshot):  # what there never was is left out, as versions have it that know of none
            while isinstance(fields[-1], PackedConsumers | PackedUsers | list) and not fields[-1]:
                fields.pop()
        yield array_head(len(fields))
        for field in fields:
            yield from _pieces(field)
    elif isinstance(value, list) and len(value) > SNAPSHOT_PIECE_ITEMS:
        yield array_head(len(value))
        for start in range(0, len(value), SNAPSHOT_PIECE_ITEMS):
            items = value[start : start + SNAPSHOT_PIECE_ITEMS]
            yield _encode(items)[len(array_head(len(items))) :]
    else:
        yield _encode(value)


def array_head(count: int) -> bytes:
    """How msgpack begins an array of so many items."""
    if count < 16:
        return bytes([0x90 | count])
    return struct.pack(">BH", 0xDC, count) if count < 1 << 16 else struct.pack(">BI", 0xDD, count)


def decode_snapshot(data: bytes) -> Snapshot:
    """`FormatTooNew` names the version that is not known, `Corrupt` what is malformed."""
    try:
        version, body = _envelope_decoder.decode(data)
        if not 1 <= version <= VERSION:
            raise FormatTooNew(
                f"the ordering layer's snapshot has version {version}, and this server reads up to {VERSION}: "
                "update it",
                found=version,
                supported=VERSION,
            )
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise Corrupt(f"the ordering layer's snapshot cannot be decoded: {error}") from error
