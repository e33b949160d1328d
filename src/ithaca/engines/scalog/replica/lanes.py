"""One lane as this replica has it: how much of it was received, synced and ordered, and what is missing."""

from collections import deque

from ithaca.engines.scalog.ordering.lost import Ranges, Unplaced
from ithaca.engines.scalog.replica.events import Fetch, Follow, Held
from ithaca.model.cut import LaneRun
from ithaca.model.limits import RUNS_UNSYNCED_MAX
from ithaca.model.positions import FIRST, LaneId

UNLIMITED = 1 << 63
"""Above every position."""
_NOTHING = Held(length=0, runs_end=0, missing=(), end_position=0)


class LaneCopy:
    """A lane on this disk, or one that is going to be.

    `durable <= received` always. `ordered` is what the order says, and may be ahead of `runs_end`, up to which
    the positions are known here, and of what is on the disk.
    """

    __slots__ = (
        "are_runs_refused",
        "durable",
        "end_position",
        "fetching_to",
        "has_holes",
        "is_busy",
        "is_closed",
        "is_open",
        "is_present",
        "is_settling",
        "lane",
        "lost",
        "missing",
        "ordered",
        "received",
        "reported",
        "runs_end",
        "runs_syncing",
        "runs_unsynced",
        "sealed",
        "source",
        "unplaced",
        "waiting",
    )

    def __init__(self, lane: LaneId, held: Held | None = None) -> None:
        found = held or _NOTHING
        self.lane = lane
        self.is_present = held is not None
        """Whether it was made on the disk."""
        self.is_busy = False
        """Whether it is being made or truncated: nothing is written and no runs are noted meanwhile."""
        self.is_settling = False
        """Whether it was said that it is settled."""
        self.is_open = False
        self.is_closed = False
        """Neither open nor closed: the order has not said a word of it in this boot."""
        self.received = found.length
        self.durable = found.length
        self.reported = 0
        self.ordered = 0
        self.sealed = 0
        """How long a part is, whether it is published or not."""
        self.runs_end = found.runs_end
        self.runs_unsynced = 0
        """Runs noted since the last sync of them began."""
        self.runs_syncing = 0
        """Runs that the sync under way is to make durable."""
        self.are_runs_refused = False
        """Whether runs came for which there was no room: they are learnt again once there is."""
        self.end_position = found.end_position
        self.missing = deque(found.missing)
        """The known runs that reach beyond `durable`, in order; LSNs between them, or before, were skipped."""
        self.waiting: deque[tuple[LaneRun, int]] = deque()
        """Runs, with their times, that cannot be noted yet: those before them are not known, or the lane is busy."""
        self.fetching_to = 0
        """Runs up to this LSN are being fetched; 0 when none are."""
        self.has_holes = found.has_holes
        """Whether some of its batches were never here: it cannot say what they were."""
        self.lost: Ranges = ()
        self.unplaced: Unplaced | None = None
        """Where lost records begin whose positions nobody knows: they are not waited for."""
        self.source: Follow | Fetch | None = None
        """Where batches are being pulled from."""

    @property
    def is_ready(self) -> bool:
        """Whether it can be written to."""
        return self.is_present and not self.is_busy

    @property
    def has_room(self) -> bool:
        """Whether another run may be noted: so many wait in memory to be synced, and no more."""
        return self.runs_unsynced + self.runs_syncing < RUNS_UNSYNCED_MAX

    @property
    def due(self) -> int:
        """How long the copy of a closed lane is to be: what is ordered, or what is sealed."""
        return max(self.ordered, self.sealed)

    @property
    def is_behind(self) -> bool:
        """Whether something that is ordered is missing here: positions, or records."""
        return self.lacks_runs or self.durable < self.ordered

    @property
    def runs_due(self) -> int:
        """Up to where the positions can be known."""
        return self.ordered if self.unplaced is None else min(self.ordered, self.unplaced.lsn)

    @property
    def lacks_runs(self) -> bool:
        """Whether positions are not known here that somebody may know."""
        return self.runs_end < self.runs_due

    @property
    def is_settled(self) -> bool:
        """Closed, and on this disk exactly as it was ordered or sealed, with all positions that can be known."""
        if not (self.is_closed and self.is_ready and self.runs_due <= self.runs_end <= self.ordered):
            return False
        return self.durable == self.received == self.due

    @property
    def is_done(self) -> bool:
        """Settled for good: a part is when it is published. One that ends with positions that nobody knows never is:
        what is asked about it takes more than a length."""
        is_published = self.ordered > 0 or not self.lane.is_part
        is_placed = self.unplaced is None or self.runs_end == self.ordered
        return self.is_settled and is_published and is_placed

    def synced(self, length: int) -> None:
        assert length <= self.received, f"lane {self.lane} is synced to {length}, and {self.received} were written"
        if length > self.durable:
            self.durable = length
            missing = self.missing
            while missing and missing[0].lsn + missing[0].count <= length:
                missing.popleft()

    def truncated(self) -> None:
        """The copy was cut to the length that is due, which no run exceeds."""
        assert self.is_closed
        self.received = self.durable = self.due

    def extend(self, run: LaneRun) -> None:
        """The next run is known."""
        assert run.lsn == self.runs_end, f"{run} does not continue {self.runs_end}"
        assert run.position >= self.end_position, f"{run} lies before {self.end_position}"
        assert self.has_room, f"{run} is more than can wait for its sync"
        self.runs_end = run.lsn + run.count
        self.end_position = run.position + run.count
        if self.runs_end > self.durable:
            self.missing.append(run)

    def skip(self, lsn: int) -> None:
        """All that is before this LSN was trimmed: the next run starts here."""
        assert lsn > self.runs_end, f"{lsn} is known, as is all up to {self.runs_end}"
        self.runs_end = lsn
        self.missing.clear()

    def unknown(self, run: LaneRun) -> LaneRun | None:
        """The part of the run that is not known yet; None when all of it is."""
        known = self.runs_end - run.lsn
        if known <= 0:
            return run
        if known >= run.count:
            return None
        return LaneRun(run.lane, run.lsn + known, run.position + known, run.count - known)

    def gap(self) -> tuple[int, int] | None:
        """The LSNs that are ordered, at positions that nothing here knows."""
        stop = min(self.waiting[0][0].lsn if self.waiting else self.ordered, self.runs_due)
        return (self.runs_end, stop) if self.runs_end < stop else None

    def limit(self, first: int) -> int:
        """The first position, from `first` on, that is or may be of a record that is missing here."""
        for run in self.missing:
            stop = run.lsn + run.count
            lsn = self._behind_lost(max(run.lsn, self.durable, run.lsn + first - run.position))
            if lsn < stop:
                return run.position + lsn - run.lsn
        # Positions of a lane rise, so that what is not known lies behind all that is.
        return max(self.end_position, FIRST) if self.lacks_runs else UNLIMITED

    def strewn(self, first: int) -> tuple[int, int] | None:
        """The positions, from `first` on, between which records were lost whose own positions nobody knows."""
        if self.unplaced is None or self.runs_end >= self.ordered:
            return None
        start = max(self.end_position, first)
        return (start, self.unplaced.end) if start < self.unplaced.end else None

    def dead_from_received(self, first: int) -> int:
        """The LSN up to which what comes next is of no use to anybody: lost, or trimmed."""
        lsn = -1
        after = self.received
        while after != lsn:
            lsn = after
            after = self._behind_trimmed(self._behind_lost(lsn), first)
        return lsn

    def lost_from_received(self) -> int:
        """The LSN up to which what comes next is lost."""
        return self._behind_lost(self.received)

    def _behind_trimmed(self, lsn: int, first: int) -> int:
        """The next LSN at `first` or behind it, or at a position that is not known; `lsn` is not before `durable`."""
        for run in self.missing:
            if lsn < run.lsn:
                lsn = run.lsn  # what is between was skipped
            if lsn < run.lsn + run.count:
                return max(lsn, min(run.lsn + run.count, run.lsn + first - run.position))
        return max(lsn, self.runs_end)

    def _behind_lost(self, lsn: int) -> int:
        for start, stop in self.lost:
            if start <= lsn < stop:
                return stop
        return lsn


def clipped(run: LaneRun, stop: int) -> LaneRun:
    """The part of the run before an LSN; it may be empty."""
    if run.lsn + run.count <= stop:
        return run
    return LaneRun(run.lane, run.lsn, run.position, max(0, stop - run.lsn), run.follows)
