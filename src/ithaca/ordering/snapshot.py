"""The state machine's snapshot for Raft's compaction: one msgpack array, `Snapshot` behind a version.

```
[version, [index, configuration, cut number, tail, first, time_us, lanes, shards, sessions, lost, kept cuts, parts]]
```

Vectors in it are bytes, 8 per element, little-endian (`model.cut.pack`). Equal states have equal bytes.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration
from ithaca.ordering.lanes import PackedLanes
from ithaca.ordering.lost import Ranges
from ithaca.ordering.outcomes import PackedCut
from ithaca.ordering.parts import PackedParts
from ithaca.ordering.sessions import PackedSessions
from ithaca.ordering.shards import PackedShards

VERSION = 1

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


_envelope_decoder = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw])
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return msgspec.msgpack.encode((VERSION, snapshot))


def decode_snapshot(data: bytes) -> Snapshot:
    """`FormatTooNew` names the version that is not known, `Corrupt` what is malformed."""
    try:
        version, body = _envelope_decoder.decode(data)
        if version != VERSION:
            raise FormatTooNew(
                f"the ordering layer's snapshot has version {version}, and this server reads version {VERSION}: "
                "update it",
                found=version,
                supported=VERSION,
            )
        return _decoder.decode(body)
    except UNDECODABLE as error:
        raise Corrupt(f"the ordering layer's snapshot cannot be decoded: {error}") from error
