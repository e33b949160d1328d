"""What is said in this engine beside the messages of `scalog`, with the number of the frame type of each.

| type | message       | from → to                | answered by                  | payload |
|------|---------------|--------------------------|------------------------------|---------|
| 220  | DiskIs        | replica → leader         |                              |         |
| 221  | LaneReportIs  | primary → leader         |                              |         |
| 222  | SlotsAre      | leader → primary         |                              |         |
| 223  | PassTo        | leader → primary         |                              |         |
| 224  | LaneSynced    | follower → primary       |                              |         |
| 225  | GetOwner      | client → leader          | OwnerIs                      |         |
| 226  | OwnerIs       | back                     |                              |         |
| 227  | FollowSlots   | client → leader          | a stream of SlotOrderIs      |         |
| 228  | SlotOrderIs   | back                     |                              |         |
| 229  | Speculate     | client → primary         | a stream of Speculated       |         |
| 230  | Speculated    | back                     |                              | batches |
| 231  | AskPromise    | leader → replica         | PromiseIs                    |         |
| 232  | PromiseIs     | replica → leader         |                              |         |
| 233  | CopyLane      | leader → replica         | LaneCopied                   |         |
| 234  | LaneCopied    | replica → leader         |                              |         |
| 235  | TellSynced    | primary → follower       | LaneSynced, again and again  |         |

A replica says `DiskIs` once it has joined, over the same connection, and counts as here from then on. `TellSynced` and
`LaneSynced` go over the connection on which the lane is followed. What a takeover asks and is answered goes over the
one on which the replica has joined; it says what it has promised, unasked, whenever it joins.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.belfast.leading.lane_slots import LaneSlots
from ithaca.engines.belfast.limits import PLACES_TOLD_MAX, WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation.outcomes import LaneEnded
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.engines.belfast.speculation.reports import Ack, LaneReport
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.model.positions import LaneId
from ithaca.protocol.codec import register
from ithaca.protocol.fields import Boot, Counted, Natural, ReplicaNumber, ShardNumber


class LaneMessage(msgspec.Struct, frozen=True, array_like=True):
    """It is about one lane, which is its first field."""

    lane: LaneId


class DiskIs(msgspec.Struct, frozen=True, array_like=True):
    """A replica has this disk: the number of the first start of its directory."""

    shard: ShardNumber
    replica: ReplicaNumber
    boot: Boot
    disk: Boot


class LaneReportIs(msgspec.Struct, frozen=True, array_like=True):
    report: LaneReport
    synced: Report | None = None
    """What the replica has to report beside it, as `ReportIs` would."""


class SlotsAre(msgspec.Struct, frozen=True, array_like=True):
    """All that the primary of a lane must know of slots, as it is now."""

    slots: LaneSlots


class PassTo(LaneMessage, frozen=True, array_like=True):
    """Pass every cut before this one: others are further, or somebody is in a hurry."""

    cut: Natural


class TellSynced(LaneMessage, frozen=True, array_like=True):
    """Say what is synced of the lane, now and whenever it is more; or no more, since nobody speculates there."""

    is_wanted: bool


class LaneSynced(LaneMessage, frozen=True, array_like=True):
    """A follower has synced its copy of the lane so far."""

    ack: Ack


class GetOwner(msgspec.Struct, frozen=True, array_like=True):
    """Linearizable: which shard has the slot at this position."""

    position: Counted


class OwnerIs(msgspec.Struct, frozen=True, array_like=True):
    """None where no slots are, or none any more."""

    shard: ShardNumber | None


class FollowSlots(msgspec.Struct, frozen=True, array_like=True):
    """Tell how the order of slots is, now and whenever it has changed."""


class SlotOrderIs(msgspec.Struct, frozen=True, array_like=True):
    """The order of slots: all that a speculator has to know of it, as it is now."""

    tail: Counted
    attempt: Counted
    windows: Annotated[tuple[Window, ...], Meta(max_length=WINDOWS_AHEAD_MAX)]
    """Those that are not over."""
    ended: tuple[LaneEnded, ...]
    """Closed lanes that have slots behind the tail."""
    failed: tuple[tuple[LaneId, Natural, Counted], ...]
    """The newest failures that are known, in order: the lane, the last position that counts, the attempt from there."""
    view: Natural


class Speculate(LaneMessage, frozen=True, array_like=True):
    """The records of a lane as soon as they are durable in its shard."""


class Speculated(LaneMessage, frozen=True, array_like=True):
    """The batches of the payload, at these positions; then every slot of the lane below the watermark is passed.

    That holds for slots from `since` on: what is before may have been sent to others, and can be read. A watermark of 0
    says nothing: more follows.
    """

    positions: tuple[Counted, ...]
    watermark: Natural
    since: Natural


class AskPromise(LaneMessage, frozen=True, array_like=True):
    """The lane is taken over: promise to acknowledge nothing more of it."""


class PromiseIs(LaneMessage, frozen=True, array_like=True):
    """It is promised, durably; so much of the lane is synced here, on this disk."""

    ack: Ack


class CopyLane(LaneMessage, frozen=True, array_like=True):
    """Complete the copy of a lane that is taken over from another replica's, up to this length."""

    source: ReplicaNumber
    length: Natural


class LaneCopied(LaneMessage, frozen=True, array_like=True):
    """The copy is complete and synced, on this disk; what may not be ordered of it is placed so."""

    ack: Ack
    placed: Annotated[tuple[PlacedRun, ...], Meta(max_length=PLACES_TOLD_MAX)]


TYPES: dict[int, type[msgspec.Struct]] = {
    220: DiskIs,
    221: LaneReportIs,
    222: SlotsAre,
    223: PassTo,
    224: LaneSynced,
    225: GetOwner,
    226: OwnerIs,
    227: FollowSlots,
    228: SlotOrderIs,
    229: Speculate,
    230: Speculated,
    231: AskPromise,
    232: PromiseIs,
    233: CopyLane,
    234: LaneCopied,
    235: TellSynced,
}

register(TYPES, for_servers=(AskPromise, CopyLane, DiskIs, LaneCopied, LaneReportIs, LaneSynced, PromiseIs, TellSynced))
