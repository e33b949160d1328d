"""What goes into `Speculator.step`, and what comes out."""

from typing import NamedTuple

from ithaca.engines.belfast.speculation.windows import Window
from ithaca.model.positions import LaneId

# Events.


class LaneRecords(NamedTuple):
    """Records of a lane, durable in its shard, at predicted positions; or ordered ones of it, read from any replica."""

    lane: LaneId
    position: int
    records: int
    batch: object
    """Opaque here."""


class LaneWatermark(NamedTuple):
    """Every slot of the lane below this position is delivered, before this, or empty."""

    lane: LaneId
    position: int


class LaneEnds(NamedTuple):
    """The lane is closed: it has no record from position `last` on, and its slots end at `end`."""

    lane: LaneId
    last: int
    end: int


class WindowFetched(NamedTuple):
    """What the order says of a window: its lanes and slots."""

    window: Window


class OrderedRange(NamedTuple):
    """Positions `[base, end)` that are no slots: a publication, or a free window, whose end rises. What is there is
    delivered when it is ordered."""

    base: int
    end: int


class OrderedRecords(NamedTuple):
    """Records of such a range, or of any slots, read after they were ordered."""

    position: int
    records: int
    batch: object


class OrderedWatermark(NamedTuple):
    """All below this position is ordered, and was read: what did not come as `OrderedRecords` is empty."""

    position: int


class OrderReached(NamedTuple):
    """All before `tail` is ordered, under this attempt."""

    tail: int
    attempt: int


class AttemptFailed(NamedTuple):
    """The lane failed when the tail was `after + 1`; from there on deliveries count under this attempt."""

    lane: LaneId
    after: int
    attempt: int


SpeculatorEvent = (
    LaneRecords
    | LaneWatermark
    | LaneEnds
    | WindowFetched
    | OrderedRange
    | OrderedRecords
    | OrderedWatermark
    | OrderReached
    | AttemptFailed
)


# Effects.


class Delivered(NamedTuple):
    """These records are next, at this position unless the attempt fails; the first `skipped` are before the start."""

    position: int
    records: int
    batch: object
    attempt: int
    skipped: int = 0


class Confirmed(NamedTuple):
    """What was delivered up to this position, it included, stays where it is."""

    up_to: int
    attempt: int


class Failed(NamedTuple):
    """What was delivered after this position is undone: it is delivered again, as it is in the true order."""

    after: int
    attempt: int
    """Under which deliveries count from here on."""


class FetchWindow(NamedTuple):
    """Ask an orderer what is at this position: `WindowFetched` or `OrderedRange` answer it."""

    position: int


SpeculatorEffect = Delivered | Confirmed | Failed | FetchWindow
