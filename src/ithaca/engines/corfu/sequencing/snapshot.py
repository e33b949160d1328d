"""The snapshot of what Raft agrees on: one msgpack array, `Snapshot` behind a version.

```
[version, [index, founded, projection, bound, trim, time_us, unit_last, sizes, producer_last, sessions, consumers]]
```

`consumers` are left out where there never were any. New fields are added at the end.

The first snapshots carried no version: they are the inner array alone, of nine items or more, at first without
`sizes`. They are read.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.consumers.table import PackedConsumers
from ithaca.engines.corfu.sequencing.commands import FoundLog
from ithaca.engines.corfu.sequencing.limits import UNITS_MAX
from ithaca.engines.corfu.sequencing.projection import Natural, Projection, RowNumber
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import Corrupt, FormatTooNew

VERSION = 1
_SIZES_AT = 7
"""The place of `sizes`; in the oldest snapshots a number stands there."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """All that entries add up to."""

    index: Natural
    founded: FoundLog | None
    projection: Projection | None
    bound: RowNumber
    trim: Natural
    time_us: int
    unit_last: Natural
    sizes: Annotated[tuple[Natural, ...], Meta(max_length=UNITS_MAX)]
    producer_last: Natural
    sessions: list[tuple[str, Natural, Natural]]
    """Name, producer and epoch, the one that was opened longest ago first."""
    consumers: PackedConsumers = PackedConsumers()


_items_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """What `decode_snapshot` reads. Equal states have equal bytes."""
    fields = msgspec.structs.astuple(snapshot)
    return msgspec.msgpack.encode((VERSION, fields if snapshot.consumers else fields[:-1]))


def decode_snapshot(data: bytes) -> Snapshot:
    """`FormatTooNew` names the version that is not known, `Corrupt` what is malformed."""
    try:
        items = _items_decoder.decode(data)
        if len(items) > 2:
            return _decoder.decode(_with_sizes(items))
        version = msgspec.msgpack.decode(items[0], type=int)
        if version > VERSION:
            raise FormatTooNew(
                f"the snapshot of the projections has version {version}, and this server reads up to {VERSION}: "
                "update it",
                found=version,
                supported=VERSION,
            )
        return _decoder.decode(items[1])
    except (*UNDECODABLE, IndexError) as error:
        raise Corrupt(f"the snapshot of the projections cannot be decoded: {error}") from error


def _with_sizes(items: list[msgspec.Raw]) -> bytes:
    """One without a version, with the sizes that sets had when the log was founded, if it says none."""
    if isinstance(msgspec.msgpack.decode(items[_SIZES_AT]), int):
        founded = msgspec.msgpack.decode(items[1], type=FoundLog | None)
        sizes = () if founded is None else tuple(map(len, founded.sets))
        items.insert(_SIZES_AT, msgspec.Raw(msgspec.msgpack.encode(sizes)))
    return msgspec.msgpack.encode(items)
