"""How fast retention by age may trim: what grew old while somebody looked goes at once, anything else has to wait.

A clock that was set looks as if time had passed. So what is too old only because the clock was ahead of the monotonic
one, and what is a part of a log that retention has just begun to look after, is announced first. It goes after
`RETENTION_WAIT_S`, in steps, and only as long as the clock goes on saying the same: set back, it ends the announcement.
"""

from typing import NamedTuple

from ithaca.model.limits import CLOCK_SLEW_PERCENT, CLOCK_STEP_S, RETENTION_STEPS, RETENTION_WAIT_S
from ithaca.model.records import Retention


class Cutoffs(NamedTuple):
    """Times before which records are too old."""

    calm_us: int
    """Beyond doubt: as much later than before as time has passed."""
    wanted_us: int
    """As the clock says."""


class Announcement(NamedTuple):
    """What waits to be trimmed."""

    since_us: int
    """By the monotonic clock."""
    wanted_us: int
    first: int
    before: int
    positions: int
    """As many as records where every one holds one; some engines leave many empty."""
    is_stepped: bool
    """Whether it is too old only by a clock that was set."""


class TrimPace:
    """Decides how far to trim, again and again. `now_us` is a monotonic clock, `clock_us` shows the time."""

    def __init__(self, age_us: int, trusted_us: int | None, now_us: int, *, large_percent: int) -> None:
        """`trusted_us` is the time beyond doubt; None for a log that is empty, where no clock can do harm yet."""
        self._age_us = age_us
        self._large_percent = large_percent
        self._calm_us = None if trusted_us is None else trusted_us - age_us
        self._looked_us = now_us
        self._is_new = trusted_us is not None
        self._steps = 0
        self.announced: Announcement | None = None

    @classmethod
    def of(cls, kept: Retention, trusted_us: int | None, now_us: int, *, large_percent: int) -> "TrimPace | None":
        """None where nothing goes by its age."""
        if kept.age is None:
            return None
        return cls(int(kept.age.total_seconds() * 1_000_000), trusted_us, now_us, large_percent=large_percent)

    def look(self, clock_us: int, now_us: int) -> Cutoffs:
        """The times to look for; `decide` takes what is found there."""
        wanted_us = clock_us - self._age_us
        elapsed_us = max(0, now_us - self._looked_us)
        passed_us = elapsed_us + elapsed_us * CLOCK_SLEW_PERCENT // 100
        calm_us = wanted_us if self._calm_us is None else min(wanted_us, self._calm_us + passed_us)
        self._calm_us, self._looked_us = calm_us, now_us
        return Cutoffs(calm_us, wanted_us)

    def decide(self, cutoffs: Cutoffs, calm: int, wanted: int, first: int, tail: int) -> int:
        """The position before which to trim now; `calm` and `wanted` are those that the times were found at."""
        is_large = self._is_new and (calm - first) * 100 > (tail - first) * self._large_percent
        is_stepped = cutoffs.wanted_us - cutoffs.calm_us > CLOCK_STEP_S * 1e6
        if not is_large and not is_stepped:
            self._is_new = False
            self.announced = None
            return max(first, calm)
        self._announce(cutoffs, wanted, first, is_stepped)
        sure = first if is_large else max(first, calm)
        announced = self.announced
        assert announced is not None
        if self._looked_us - announced.since_us < RETENTION_WAIT_S * 1e6:
            return sure
        self._steps += 1
        if self._steps >= RETENTION_STEPS:
            self._calm_us, self._is_new, self.announced = cutoffs.wanted_us, False, None
            return max(sure, wanted)
        return max(sure, announced.first + (wanted - announced.first) * self._steps // RETENTION_STEPS)

    def _announce(self, cutoffs: Cutoffs, wanted: int, first: int, is_stepped: bool) -> None:
        """Announce it, unless that was done, and the clock goes on as it did then."""
        known = self.announced
        if known is not None:
            elapsed_us = self._looked_us - known.since_us
            most_us = elapsed_us * 2 * CLOCK_SLEW_PERCENT // 100 + CLOCK_STEP_S * 1e6
            if abs(cutoffs.wanted_us - known.wanted_us - elapsed_us) <= most_us:
                return
        self._steps = 0
        self.announced = Announcement(self._looked_us, cutoffs.wanted_us, first, wanted, wanted - first, is_stepped)
