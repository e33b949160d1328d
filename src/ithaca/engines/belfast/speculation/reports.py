"""What replicas say of a lane: how much each has synced, and what its primary tells the ordering leader.

Both are cumulative, so that any may be lost, repeated or late.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ithaca.engines.belfast.limits import CUTS_TOGETHER_MAX
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import BOOT_MAX, LANE_RECORDS_MAX, REPLICA_NUMBER_MAX, SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


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


class LaneReport(msgspec.Struct, frozen=True, array_like=True):
    """How far a lane is: the cuts that it passed, where they end in the lane, and who has synced how much."""

    lane: LaneId
    epoch: _Natural
    """The configuration of the shard that it goes by."""
    passed: _Natural
    """No batch is placed any more in a cut before this one."""
    used: Annotated[tuple[tuple[_Natural, _Length], ...], Meta(max_length=CUTS_TOGETHER_MAX)] = ()
    """Passed cuts with records in them, not yet known to be applied, in order: the lane's length behind each."""
    acks: Annotated[tuple[Ack, ...], Meta(max_length=SHARD_REPLICAS_MAX)] = ()
    wanted: _Natural = 0
    """Records of the largest batch that waits for slots; 0 if none does."""
    stopped: _Length | None = None
    """All that the lane has written in the free window that ends; None while it may write more."""
    speculators: _Natural = 0

    def __post_init__(self) -> None:
        cuts, lengths = [cut for cut, _ in self.used], [length for _, length in self.used]
        if cuts != sorted(set(cuts)) or lengths != sorted(set(lengths)):
            raise InvalidInput(f"lane {self.lane} reports cuts that are not in order: {self.used}")
        if cuts and cuts[-1] >= self.passed:
            raise InvalidInput(f"lane {self.lane} reports cut {cuts[-1]}, and has passed those before {self.passed}")

    def end(self, cut: int, applied: int) -> int:
        """The lane's length behind a cut that it passed, if `applied` of it is ordered."""
        return max((length for used, length in self.used if used <= cut), default=applied)
