"""What applying an entry did to slots. Outcomes of one entry stand in the order in which they happened."""

from typing import Literal

from ithaca.engines.belfast.speculation.entries import NoteDisk, SlotEntry
from ithaca.engines.belfast.speculation.windows import Window
from ithaca.engines.scalog.ordering.entries import Cut
from ithaca.engines.scalog.ordering.lanes import NO_RUNS, Runs
from ithaca.engines.scalog.ordering.outcomes import EngineOutcome
from ithaca.model.cut import LaneRun, lane_of
from ithaca.model.positions import LaneId

VoidReason = Literal[
    "another attempt",
    "another window",
    "not the next cut",
    "not where the order ends",
    "the lane is closed",
    "no slots of the lane",
    "not what the lane has written",
    "the order is free",
    "the order is not free",
    "too many windows",
    "the log is not configured",
    "the state is full",
    "no such replica",
    "the lane is to be taken over first",
]


class VoidEntry(EngineOutcome, frozen=True):
    """The entry came too late, and changed nothing."""

    entry: SlotEntry | NoteDisk | Cut
    reason: VoidReason


class WindowOpened(EngineOutcome, frozen=True):
    """The slots of this window are what it says, for everybody and for good."""

    window: Window


class FreeOrdered(EngineOutcome, frozen=True):
    """The window behind all others is free: lanes pass all slots, then write without places."""

    number: int
    base: int


class FreeBegun(EngineOutcome, frozen=True):
    """All before the free window is ordered: cuts are plain ones from here on."""

    number: int


class FreeEnding(EngineOutcome, frozen=True):
    """Lanes queue what is new until they are told the next window."""

    number: int


class SlotsOrdered(EngineOutcome, frozen=True, eq=False):
    """All up to cut `cut` is ordered: `runs` are in it; other slots up to the tail are empty, or were said before."""

    cut: int
    tail: int
    """The next position after it."""
    runs: Runs = NO_RUNS

    def lane_runs(self) -> tuple[LaneRun, ...]:
        """One by one."""
        columns = (self.runs.keys, self.runs.lsns, self.runs.positions, self.runs.counts)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(LaneRun(lane_of(key), lsn, position, count) for key, lsn, position, count in rows)


class PublicationReserved(EngineOutcome, frozen=True):
    """A publication has these positions, and is ordered once all before it is."""

    base: int
    count: int


class PublicationOrdered(EngineOutcome, frozen=True):
    """All before it is ordered, and so is it."""

    base: int
    count: int


class LaneEnded(EngineOutcome, frozen=True, array_like=True):
    """The lane is closed: its last record is before position `last`, and its slots are empty from there to `end`."""

    lane: LaneId
    length: int
    last: int
    end: int


class SpeculationFailed(EngineOutcome, frozen=True):
    """What was delivered after position `after` may have changed; deliveries count under this attempt from here on."""

    lane: LaneId
    after: int
    attempt: int


class DiskNoted(EngineOutcome, frozen=True):
    """What this disk of the replica syncs and promises counts from here on."""

    shard: int
    replica: int
    disk: int


SlotOutcome = (
    VoidEntry
    | WindowOpened
    | FreeOrdered
    | FreeBegun
    | FreeEnding
    | SlotsOrdered
    | PublicationReserved
    | PublicationOrdered
    | LaneEnded
    | SpeculationFailed
)
