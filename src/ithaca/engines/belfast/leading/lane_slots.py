"""What the primary of a lane is told of slots: all that counts now, so that any word may be lost or repeated."""

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from ithaca.engines.belfast.limits import WINDOWS_AHEAD_MAX
from ithaca.engines.belfast.speculation.packed import Mode
from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.engines.belfast.speculation.placing_events import (
    FreeEnds,
    FreeTold,
    Members,
    PlacingEffect,
    PlacingEvent,
    WindowTold,
)
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.belfast.speculation.windows import Share
from ithaca.model.limits import BOOT_MAX, REPLICA_NUMBER_MAX, SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Disk = tuple[Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)], Annotated[int, Meta(ge=1, le=BOOT_MAX)]]


class LaneSlots(msgspec.Struct, frozen=True, array_like=True):
    """The order of slots as one lane needs it."""

    lane: LaneId
    mode: Mode
    """Free as well from the moment at which a free window is ordered behind all others: lanes pass what is before."""
    shares: Annotated[tuple[Share, ...], Meta(max_length=WINDOWS_AHEAD_MAX)]
    """The lane's part of the windows that are not over."""
    epoch: _Natural
    copies: Annotated[int, Meta(ge=1, le=SHARD_REPLICAS_MAX)]
    disks: Annotated[tuple[_Disk, ...], Meta(max_length=SHARD_REPLICAS_MAX)]
    """Of each replica the one that counts."""


def lane_slots(state: BelfastState, lane: LaneId) -> LaneSlots | None:
    """What to tell the primary of this lane now; None of a lane that is not open."""
    shard = state.shards.by_number.get(lane.shard)
    if shard is None or not state.lanes.is_open(lane):
        return None
    order = state.slots
    found = (window.share(lane) for window in order.windows)
    return LaneSlots(
        lane,
        "free" if order.is_free_next else order.mode,
        tuple(share for share in found if share is not None),
        shard.epoch,
        shard.copies,
        tuple(sorted(state.disks.of(lane.shard).items())),
    )


def is_news(slots: LaneSlots, told: LaneSlots) -> bool:
    """Whether a primary that was told the one must hear the other: that windows are over, it knows by itself."""
    return replace(slots, shares=told.shares) != told or not set(slots.shares) <= set(told.shares)


def placement_of(told: LaneSlots) -> Placement:
    """The core of a lane that has just been opened."""
    return Placement(told.lane, told.epoch, dict(told.disks), told.copies, told.mode)


def tell(placement: Placement, told: LaneSlots) -> list[PlacingEffect]:
    """Have a lane hear of it."""
    events: list[PlacingEvent] = [Members(told.epoch, dict(told.disks), told.copies)]
    events += map(WindowTold, told.shares)
    effects = [effect for event in events for effect in placement.step(event)]
    if told.mode != placement.mode and told.mode == "free":
        effects += placement.step(FreeTold())
    elif told.mode != placement.mode and told.mode == "ending":
        effects += placement.step(FreeEnds())
    return effects
