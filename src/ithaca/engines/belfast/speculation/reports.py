"""What a lane's primary tells the ordering leader: cumulative, so that any report may be lost, repeated or late."""

from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.engines.belfast.limits import CUTS_TOGETHER_MAX
from ithaca.engines.belfast.speculation.acks import Ack
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import LANE_RECORDS_MAX, SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


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
