"""On the leader: the takeovers that are under way (`speculation.takeover`), one of each lane at most."""

from collections.abc import Iterable

from ithaca.engines.belfast.speculation.progress import Progress
from ithaca.engines.belfast.speculation.state import BelfastState
from ithaca.engines.belfast.speculation.takeover import (
    AskPromise,
    CloseTaken,
    Copied,
    CopyLane,
    Moved,
    OrderPlaces,
    Promised,
    Takeover,
    TakeoverEffect,
)
from ithaca.model.positions import LaneId

TakingEffect = AskPromise | CopyLane | CloseTaken


class Takeovers:
    """Those of one leader's term. What is due is taken with `take`."""

    def __init__(self, state: BelfastState, progress: Progress) -> None:
        self._state = state
        self._progress = progress
        self._of: dict[LaneId, Takeover] = {}
        self._effects: list[TakingEffect] = []
        self._closing: set[LaneId] = set()
        """Lanes of which `TakeLane` is in flight."""

    def __contains__(self, lane: LaneId) -> bool:
        return lane in self._of

    def __len__(self) -> int:
        return len(self._of)

    def is_ordering(self, lane: LaneId) -> bool:
        """Whether all that is needed from replicas is there."""
        return lane in self._of and self._of[lane].phase == "ordering"

    def begin(self, lane: LaneId) -> None:
        """Take the lane over, unless that is being done."""
        shard = self._state.shards.by_number.get(lane.shard)
        if lane in self._of or shard is None or not self._state.lanes.is_open(lane):
            return
        named = self._state.disks.of(lane.shard)
        disks = {each.replica: named[each.replica] for each in shard.replicas if each.replica in named}
        takeover = self._of[lane] = Takeover(lane, disks, shard.copies, self._state.slots)
        self._do(takeover.begin())

    def came(self, shard: int, replica: int) -> None:
        for lane, takeover in self._of.items():
            if lane.shard == shard:
                self._do(takeover.came(replica))

    def went(self, shard: int, replica: int) -> None:
        for lane, takeover in self._of.items():
            if lane.shard == shard:
                self._do(takeover.went(replica))

    def promised(self, lane: LaneId, promise: Promised) -> None:
        """A replica has promised. Without having been asked, too: an earlier leader has begun what goes on for good."""
        self.begin(lane)
        if lane in self._of:
            self._do(self._of[lane].step(promise, self._progress.ordered(lane)))

    def copied(self, lane: LaneId, disk: int, copied: Copied) -> None:
        if lane in self._of and self._state.disks.of(lane.shard).get(copied.replica) == disk:
            self._do(self._of[lane].step(copied, self._progress.ordered(lane)))

    def moved(self) -> None:
        """The order has moved: lanes that are closed are done."""
        for lane in [lane for lane in self._of if not self._state.lanes.is_open(lane)]:
            del self._of[lane]
        self._closing.intersection_update(self._of)
        for lane, takeover in self._of.items():
            self._do(takeover.step(Moved(), self._progress.ordered(lane)))

    def settled(self, lane: LaneId) -> None:
        """`TakeLane` was applied, or was in vain: it is due again if the lane is open."""
        self._closing.discard(lane)
        self.moved()

    def take(self) -> list[TakingEffect]:
        """What is due, once."""
        effects, self._effects = self._effects, []
        return effects

    def _do(self, effects: Iterable[TakeoverEffect]) -> None:
        for effect in effects:
            match effect:
                case OrderPlaces(lane=lane, ends=ends, length=length):
                    self._progress.taken_over(lane, dict(ends), length)
                case CloseTaken(entry=entry):
                    # While the order is free more of it may be ordered, and the lane is closed as any other.
                    if entry.lane not in self._closing and self._state.slots.mode == "fixed":
                        self._closing.add(entry.lane)
                        self._effects.append(effect)
                case _:
                    self._effects.append(effect)
