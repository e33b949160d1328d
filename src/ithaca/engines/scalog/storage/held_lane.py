"""A lane in a directory of its own, whose files are opened when they are needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import NamedTuple, Protocol, cast

from ithaca.engines.scalog.storage.packed_lane import PackedLane
from ithaca.engines.scalog.storage.runs import Runs
from ithaca.model.cut import LaneRun
from ithaca.model.errors import WrongLane
from ithaca.model.positions import LaneId
from ithaca.storage.lane import Lane


class HeldLane(Protocol):
    """A lane and its positions, wherever they are."""

    @property
    def lane_id(self) -> LaneId: ...

    @property
    def lane(self) -> Lane | PackedLane: ...

    @property
    def runs(self) -> Runs: ...


class PackedHeld(NamedTuple):
    """A lane that was opened in its pack."""

    lane_id: LaneId
    lane: PackedLane
    runs: Runs


class HeldLength(NamedTuple):
    """How much of a lane was found on the disk; the fields of `replica.events.Held`."""

    length: int
    runs_end: int
    missing: tuple[LaneRun, ...]
    end_position: int
    has_holes: bool = False


class StoredLane:
    """A lane in a directory of its own. Whoever writes it says so (`is_written`), and then its files stay open."""

    def __init__(
        self, lane_id: LaneId, *, open_lane: Callable[[bool], Lane], open_runs: Callable[[bool, bool], Runs]
    ) -> None:
        """Both are told whether the files were left sound; `open_runs` is told first whether there are none yet."""
        self.lane_id = lane_id
        self.is_written = False
        """Whether somebody writes it, or is going to: then it has the one `Lane` that there may be."""
        self.is_settled = False
        """Whether nothing will be written to it, nor to its runs, any more."""
        self.is_large = False
        """Whether it was found to be too large for a pack."""
        self.trims_at = 0
        """No trim before this position has something to take from it, once it is settled."""
        self._open_lane = open_lane
        self._open_runs = open_runs
        self._lane: Lane | None = None
        self._runs: Runs | None = None
        self._has_runs = True
        self._lane_is_sound = self._runs_are_sound = False
        """Whether the files were opened before, and closed with all in them synced: then opening writes nothing."""
        self._opening = RLock()
        self.length_left: int | None = None
        self.runs_end_left: int | None = None
        """How long it and its runs were when their files were closed last."""
        self._elsewhere: Callable[[], HeldLane | None] | None = None

    @property
    def lane(self) -> Lane:
        lane = self._lane
        if lane is None:
            with self._opening:
                if self._elsewhere is not None:
                    return cast(Lane, self._moved().lane)  # of settled lanes everything but reading is over
                lane = self._lane or self._open_lane(self._lane_is_sound)
                self._lane = lane
        return lane

    @property
    def runs(self) -> Runs:
        runs = self._runs
        if runs is None:
            with self._opening:
                if self._elsewhere is not None:
                    return self._moved().runs
                runs = self._runs or self._open_runs(not self._has_runs, self._runs_are_sound)
                self._runs = runs
        return runs

    def moved(self, find: Callable[[], HeldLane | None]) -> None:
        """It was put into a pack: whoever still asks here is answered from there."""
        with self._opening:
            self._elsewhere = find
            if self._lane is not None:
                self._lane.release()
            self._lane = self._runs = None

    def _moved(self) -> HeldLane:
        assert self._elsewhere is not None
        found = self._elsewhere()
        if found is None:
            raise WrongLane(f"lane {self.lane_id} is not held here any more")
        return found

    @property
    def is_open(self) -> bool:
        return self._lane is not None or self._runs is not None

    @property
    def opened_lane(self) -> Lane | None:
        return self._lane

    @property
    def opened_runs(self) -> Runs | None:
        """The runs, if they are in memory: else all of them are durable."""
        return self._runs

    def made(self) -> None:
        """There is nothing in it yet."""
        self._has_runs = False

    def put(self, lane: Lane) -> None:
        """It was cut: this is the one `Lane` from here on."""
        self._lane = lane

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep its files open meanwhile."""
        was_written, self.is_written = self.is_written, True
        try:
            yield
        finally:
            self.is_written = was_written

    def length(self) -> HeldLength:
        lane, runs = self.lane, self.runs
        behind = runs.runs(lane.length, runs.end_lsn)
        missing = tuple(LaneRun(self.lane_id, run.lsn, run.position, run.count, run.follows) for run in behind)
        return HeldLength(lane.length, runs.end_lsn, missing, runs.end_position, lane.state.has_holes)

    def close_files(self) -> bool:
        """Close the files that are open, unless they are needed; says whether none is open any more.

        Runs that are not durable stay in memory.
        """
        if not self._opening.acquire(blocking=False):
            return False
        try:
            if self.is_written:
                return False
            if self._lane is not None:
                self.length_left = self._lane.length
                self._lane_is_sound = self._lane.is_synced
                self._lane.release()
                self._lane = None
            runs = self._runs
            if runs is not None and runs.is_synced:
                self.runs_end_left = runs.end_lsn
                self._has_runs = self._runs_are_sound = runs.end_lsn > 0
                self._runs = None
            return self._runs is None or not self._runs.has_files
        finally:
            self._opening.release()
