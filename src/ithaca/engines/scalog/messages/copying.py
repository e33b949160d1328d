"""What replicas ask of each other: lanes, and the positions in them."""

import msgspec

from ithaca.engines.scalog.messages.places import check_follows
from ithaca.model.positions import LaneId
from ithaca.protocol.fields import Counted, Natural


class FollowLane(msgspec.Struct, frozen=True, array_like=True):
    """The lane's batches from `start` on: up to `stop`, or without it as they are accepted, for ever."""

    lane: LaneId
    start: Natural
    stop: Natural | None = None


class LaneBatches(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive batches of the lane, whole; the first may start before what was asked for."""

    lane: LaneId


class GetRuns(msgspec.Struct, frozen=True, array_like=True):
    lane: LaneId
    start: Natural
    stop: Natural


class RunsReply(msgspec.Struct, frozen=True, array_like=True):
    """(LSN, position, count, time) each; they may end early. If the first is behind what was asked for, then all that
    is before it was trimmed.

    `follows` says of each what it follows, 0 for its own start; it is left out when that is so of all.
    """

    runs: tuple[tuple[Natural, Counted, Counted, Natural], ...]
    follows: tuple[Natural, ...] = ()

    def __post_init__(self) -> None:
        check_follows(self.follows, len(self.runs))
