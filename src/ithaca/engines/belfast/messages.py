"""What is said in this engine beside the messages of `scalog`, with the number of the frame type of each.

| type | message       | from → to                | answered by                  | payload |
|------|---------------|--------------------------|------------------------------|---------|
| 200  | DiskIs        | replica → leader         |                              |         |
| 201  | LaneReportIs  | primary → leader         |                              |         |
| 202  | SlotsAre      | leader → primary         |                              |         |
| 203  | PassTo        | leader → primary         |                              |         |
| 204  | LaneSynced    | follower → primary       |                              |         |
| 205  | GetOwner      | client → leader          | OwnerIs                      |         |
| 206  | OwnerIs       | back                     |                              |         |

A replica says `DiskIs` once it has joined, over the same connection, and counts as here from then on. `LaneSynced` goes
over the connection on which the lane is followed.
"""

import msgspec

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.speculation.acks import Ack
from ithaca.engines.belfast.speculation.reports import LaneReport
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import register
from ithaca.protocol.fields import Boot, Counted, Natural, ReplicaNumber, ShardNumber


class DiskIs(msgspec.Struct, frozen=True, array_like=True):
    """A replica has this disk: the number of the first start of its directory."""

    shard: ShardNumber
    replica: ReplicaNumber
    boot: Boot
    disk: Boot


class LaneReportIs(msgspec.Struct, frozen=True, array_like=True):
    report: LaneReport


class SlotsAre(msgspec.Struct, frozen=True, array_like=True):
    """All that the primary of a lane must know of slots, as it is now."""

    slots: LaneSlots


class PassTo(msgspec.Struct, frozen=True, array_like=True):
    """Pass every cut before this one: others are further, or somebody is in a hurry."""

    lane: LaneId
    cut: Natural


class LaneSynced(msgspec.Struct, frozen=True, array_like=True):
    """A follower has synced its copy of the lane so far."""

    lane: LaneId
    ack: Ack


class GetOwner(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: which shard has the slot at this position."""

    position: Counted


class OwnerIs(msgspec.Struct, frozen=True, array_like=True):
    """None where no slots are, or none any more."""

    shard: ShardNumber | None


TYPES: dict[int, type[msgspec.Struct]] = {
    200: DiskIs,
    201: LaneReportIs,
    202: SlotsAre,
    203: PassTo,
    204: LaneSynced,
    205: GetOwner,
    206: OwnerIs,
}

register(TYPES)
