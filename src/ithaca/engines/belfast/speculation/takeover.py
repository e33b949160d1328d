"""A primary fails, and nothing that was delivered changes its place (the shard masks the failure, SpecLog §4.8).

Five rules, each of which is needed, as the model in the tests shows:

* **Durable promises.** f+1 replicas promise to acknowledge nothing more of the lane's incarnation. A promise is synced
  before it is answered, and never withdrawn. What is durable by then is on one of them; nothing becomes so later.
* **The longest copy** among them wins: it has all that can have been delivered.
* **Ordering before closing.** It is synced on f+1 replicas and ordered in its places; only then the lane closes.
* **Disks.** Only the disks that the order names promise (`disks`): one that was emptied holds nothing of what its
  replica has acknowledged.
* **The horizon.** What the lane leaves of its slots stays empty to the end of all windows ordered by then; the next
  lane of the shard starts in a window that is ordered later. So told watermarks stay true.

`Promises` is a replica's part, `Takeover` the leader's. A takeover may be begun again by another leader at any time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ithaca.engines.belfast.speculation.entries import TakeLane
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.places import PlacedRun
from ithaca.model.positions import LaneId

# A replica's part.


class PromiseAsked(NamedTuple):
    """A leader takes over the lane."""

    lane: LaneId


class PromiseSynced(NamedTuple):
    """`SyncPromise` is done."""

    lane: LaneId


class SyncPromise(NamedTuple):
    """Write down that nothing more of this lane is acknowledged, durably: answered by `PromiseSynced`."""

    lane: LaneId


class AnswerPromise(NamedTuple):
    """Tell whoever asked that it is promised, with the length and the places of the copy that is synced here."""

    lane: LaneId


class Promises:
    """What one replica has promised, on its disk and on the way there."""

    def __init__(self, synced: Iterable[LaneId] = ()) -> None:
        self._synced = set(synced)
        self._syncing: set[LaneId] = set()

    def may_acknowledge(self, lane: LaneId) -> bool:
        """Whether what is synced of the lane may be acknowledged, delivered or counted. From the moment that a promise
        is asked for nothing is: it could be synced at any time."""
        return lane not in self._synced and lane not in self._syncing

    def step(self, event: PromiseAsked | PromiseSynced) -> list[SyncPromise | AnswerPromise]:
        lane = event.lane
        if isinstance(event, PromiseSynced):
            if lane not in self._syncing:
                return []  # the lane is closed, and there is nothing to promise any more
            self._syncing.discard(lane)
            self._synced.add(lane)
            return [AnswerPromise(lane)]
        if lane in self._synced:
            return [AnswerPromise(lane)]
        if lane in self._syncing:
            return []
        self._syncing.add(lane)
        return [SyncPromise(lane)]

    def closed(self, lane: LaneId) -> None:
        """The lane is closed, which every holder knows: the promise need not be kept any longer."""
        self._synced.discard(lane)
        self._syncing.discard(lane)

    @property
    def lanes(self) -> tuple[LaneId, ...]:
        """Those of which nothing is acknowledged any more."""
        return tuple(sorted(self._synced | self._syncing))


# The leader's part.


@dataclass(frozen=True, slots=True)
class Promised:
    """A replica has promised, and has synced the lane up to this length."""

    replica: int
    length: int
    disk: int
    """On which it has promised: another than the one that counts can promise nothing."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A replica has synced the lane up to this length, by the takeover's copying."""

    replica: int
    length: int
    placed: tuple[PlacedRun, ...] = ()
    """What of it is not ordered."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The order has moved."""


class AskPromise(NamedTuple):
    replica: int
    lane: LaneId


class CopyLane(NamedTuple):
    """Have a replica complete its copy from another's, up to this length, and sync it: answered by `Copied`."""

    lane: LaneId
    source: int
    target: int
    length: int


class OrderPlaces(NamedTuple):
    """Tell `Progress.taken_over`: these are the ends of the lane's last cuts, and all of it is durable."""

    lane: LaneId
    ends: tuple[tuple[int, int], ...]
    length: int


class CloseTaken(NamedTuple):
    """Propose it; again after `Moved`, as long as the lane is open."""

    entry: TakeLane


TakeoverEvent = Promised | Copied | Moved
TakeoverEffect = AskPromise | CopyLane | OrderPlaces | CloseTaken
Phase = Literal["promising", "copying", "ordering"]


class Takeover:
    """One leader takes over one lane."""

    def __init__(self, lane: LaneId, disks: Mapping[int, int], copies: int, order: SlotOrder) -> None:
        """`disks`: of each replica of the shard the one that counts."""
        self.lane = lane
        self.phase: Phase = "promising"
        self._disks = dict(disks)
        self._copies = copies
        self._order = order
        self._promised: dict[int, int] = {}
        self._copied: dict[int, int] = {}
        self._length = 0
        self._placed: tuple[PlacedRun, ...] = ()

    def begin(self) -> list[TakeoverEffect]:
        return [AskPromise(replica, self.lane) for replica in sorted(self._disks)]

    def came(self, replica: int) -> list[TakeoverEffect]:
        """A replica is here again: what it was asked, or answered, may be lost."""
        return [AskPromise(replica, self.lane)] if self.phase != "ordering" and replica in self._disks else []

    def went(self, replica: int) -> list[TakeoverEffect]:
        """A replica is gone. Without it there may be too few promises, or nobody who has the longest copy: then this
        starts over with those that are here, which have promised for good."""
        if self.phase == "ordering" or self._promised.pop(replica, None) is None or self.phase == "promising":
            return []
        self.phase, self._copied = "promising", {}
        return self._copy() if len(self._promised) >= self._copies else []

    def step(self, event: TakeoverEvent, ordered: int | None) -> list[TakeoverEffect]:
        """`ordered` is how much of the lane is ordered; None when it was closed."""
        if ordered is None:
            return []
        match event:
            case Promised() if self.phase == "promising" and self._counts(event):
                self._promised[event.replica] = event.length
                if len(self._promised) >= self._copies:
                    return self._copy()
            case Promised() if self.phase == "copying" and self._counts(event):
                self._promised.setdefault(event.replica, event.length)
                return [CopyLane(self.lane, longest(self._promised), event.replica, self._length)]
            case Copied() if self.phase == "copying" and event.length >= self._length:
                self._copied[event.replica] = event.length
                if len(self._copied) >= self._copies:
                    self.phase, self._placed = "ordering", event.placed
                    return [self._order_places(ordered), *self._close(ordered)]
            case Moved() if self.phase == "ordering":
                return self._go_on(ordered)
        return []

    def _counts(self, event: Promised) -> bool:
        return self._disks.get(event.replica) == event.disk

    def _copy(self) -> list[TakeoverEffect]:
        source = longest(self._promised)
        self.phase, self._length = "copying", self._promised[source]
        return [CopyLane(self.lane, source, target, self._length) for target in sorted(self._promised)]

    def _order_places(self, ordered: int) -> OrderPlaces:
        ends, self._length = final_ends(self._order, self._placed, ordered, self._length)
        return OrderPlaces(self.lane, tuple(sorted(ends.items())), self._length)

    def _go_on(self, ordered: int) -> list[TakeoverEffect]:
        """Cuts of an earlier takeover, which found less, may have been on their way: go by what they left."""
        length = self._length
        places = self._order_places(ordered)
        return [*([places] if self._length < length else []), *self._close(ordered)]

    def _close(self, ordered: int) -> list[TakeoverEffect]:
        return [CloseTaken(TakeLane(self.lane, self._length))] if ordered >= self._length else []


def longest(promised: Mapping[int, int]) -> int:
    """The replica with the longest copy; of several the first."""
    return min(promised, key=lambda replica: (-promised[replica], replica))


def final_ends(order: SlotOrder, placed: Iterable[PlacedRun], ordered: int, length: int) -> tuple[dict[int, int], int]:
    """The ends of the cuts in which the copy has records that can be ordered, and the length that it has then.

    A batch in a cut that is applied, and not ordered there, was on too few replicas to be delivered: an earlier
    takeover went without it. It and all behind it is dropped; so is what has no place, which nobody was delivered.
    """
    ends: dict[int, int] = {}
    reached = ordered
    for each in sorted(placed):
        if each.lsn > reached:
            break
        while reached < min(each.stop, length):
            position = each.position + reached - each.lsn
            window = next((window for window in order.windows if window.base <= position < window.end), None)
            cut = None if window is None else window.cut_of(position)
            if window is None or cut is None or cut < order.cut:
                return ends, reached
            slot = window.slot(position)
            left = window.layout.shares[slot.lane].q - slot.rank
            reached = ends[cut] = min(each.stop, length, reached + left)
    return ends, reached
