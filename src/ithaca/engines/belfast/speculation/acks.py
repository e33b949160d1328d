"""How much of a lane is durable in its shard, as its primary knows it: from what the replicas acknowledge to it."""

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta

from ithaca.model.limits import BOOT_MAX, LANE_RECORDS_MAX, REPLICA_NUMBER_MAX
from ithaca.model.positions import LaneId


class Ack(NamedTuple):
    """A replica has synced the lane up to this length, on this disk (`disks`)."""

    replica: Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
    disk: Annotated[int, Meta(ge=0, le=BOOT_MAX)]
    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


class Acks:
    """The newest acknowledgement of each replica, for one incarnation of the lane. Kept apart for each replica, never
    as a minimum: a minimum would outlive the replica that it came from."""

    def __init__(self, lane: LaneId) -> None:
        self._lane = lane
        self._newest: dict[int, Ack] = {}

    def take(self, lane: LaneId, ack: Ack) -> bool:
        """Take in one; False for one that says nothing new. Another disk may have less than the one before it, which
        is made earlier and never comes back."""
        if lane != self._lane:
            return False
        known = self._newest.get(ack.replica)
        if known is not None and (ack.disk, ack.length) <= (known.disk, known.length):
            return False
        self._newest[ack.replica] = ack
        return True

    def vector(self) -> tuple[Ack, ...]:
        """What each replica has, for whoever knows who belongs to the shard."""
        return tuple(ack for _, ack in sorted(self._newest.items()))

    def durable(self, disks: Mapping[int, int], copies: int) -> int:
        """The length that this many replicas have, on the disks that count."""
        return durable_length(self._newest.values(), disks, copies)


def durable_length(acks: Iterable[Ack], disks: Mapping[int, int], copies: int) -> int:
    """The largest length that so many have: the f+1-th largest. `disks` is the one that counts of each member."""
    lengths = sorted((ack.length for ack in acks if disks.get(ack.replica) == ack.disk), reverse=True)
    return lengths[copies - 1] if len(lengths) >= copies else 0
