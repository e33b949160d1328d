"""Records that were ordered and are gone: what an operator says, and what the leader asks first (types 110 to 112)."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.limits import LANE_RECORDS_MAX, SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId
from ithaca.protocol.fields import ReplicaNumber

_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


class DeclareLoss(msgspec.Struct, frozen=True, array_like=True):
    """No replica holds these LSNs of a lane any more, and nobody waits for them from now on.

    The leader asks every replica of the shard first, but for those that are `without` doubt gone for good.
    """

    lane: LaneId
    start: _Length
    stop: _Length
    without: Annotated[tuple[ReplicaNumber, ...], Meta(max_length=SHARD_REPLICAS_MAX)] = ()


class GetHeldLength(msgspec.Struct, frozen=True, array_like=True):
    """How much of a lane is on this replica's disk."""

    lane: LaneId


class HeldLengthIs(msgspec.Struct, frozen=True, array_like=True):
    """Records below `synced` are, and positions below `placed`."""

    synced: _Length
    placed: _Length
