"""Retention of a log in a directory: what is too old, or too much, by the one clock that there is.

That clock may be wrong. What was too old when the newest record of an earlier process was written goes at once, and so
does what grows old while this process runs, by the monotonic clock. What more the clock says waits, is announced in a
warning, and goes in steps (`model.trim_pace`).
"""

import logging

from ithaca.consumers.holding import ConsumerHold
from ithaca.model.limits import RETENTION_CHECK_S, RETENTION_LARGE_EMBEDDED_PERCENT, RETENTION_WAIT_S
from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import Retention
from ithaca.model.trim_pace import Announcement, TrimPace
from ithaca.runtime.machine import monotonic_us, wall_us
from ithaca.storage.lane import Lane

_log = logging.getLogger("ithaca.embedded")


class LaneRetention:
    """Says how far to trim. Used under the commit lock alone."""

    def __init__(self, kept: Retention, lane: Lane, path: str) -> None:
        self._kept = kept
        self._lane = lane
        self._path = path
        self._checked = (-1, 0)
        self._told: Announcement | None = None
        self._hold = ConsumerHold.of(kept)
        trusted_us = None if lane.trim_lsn == lane.length else min(wall_us(), lane.state.time_us)
        self._pace = TrimPace.of(kept, trusted_us, monotonic_us(), large_percent=RETENTION_LARGE_EMBEDDED_PERCENT)

    def due(self) -> int | None:
        """The LSN before which to trim now; None if it is not time to look, or nothing has to go."""
        newest, now_us = self._lane.first_lsns[-1], monotonic_us()
        if newest == self._checked[0] and now_us - self._checked[1] < RETENTION_CHECK_S * 1e6:
            return None
        self._checked = (newest, now_us)
        before = self._too_old(now_us)
        if self._kept.bytes is not None:
            before = max(before, self._lane.oldest_beyond(self._kept.bytes))
        if self._hold is not None and before > self._lane.trim_lsn:
            before = lsn_of(self._hold.allowed(position_of(before), self._lane.state.consumers, now_us / 1e6))
        return before if before > self._lane.trim_lsn else None

    def _too_old(self, now_us: int) -> int:
        lane, pace = self._lane, self._pace
        if pace is None:
            return lane.trim_lsn
        cutoffs = pace.look(wall_us(), now_us)
        wanted = lane.seek_time(cutoffs.wanted_us)
        calm = wanted if cutoffs.calm_us == cutoffs.wanted_us else lane.seek_time(cutoffs.calm_us)
        before = pace.decide(cutoffs, calm, wanted, lane.trim_lsn, lane.length)
        self._tell(pace.announced)
        return before

    def _tell(self, announced: Announcement | None) -> None:
        """Say in the log what is announced, once."""
        if announced is None or announced.positions <= 0:
            self._told = None
        elif self._told is None or announced.since_us != self._told.since_us:
            self._told = announced
            _log.warning(
                "%s: %d records, those before position %d, are too old by this machine's clock, and go in %g s: if the "
                "clock is wrong, close the log and set it",
                self._path,
                announced.positions,
                position_of(announced.before),
                RETENTION_WAIT_S,
            )
