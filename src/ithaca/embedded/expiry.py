"""Consumers of a directory that nobody uses: which of them go, by the one clock that there is.

That clock may be wrong. What was idle for long enough when the newest entry of an earlier process was written goes when
the directory is opened. What becomes idle while this process runs goes at a commit, by the monotonic clock.
"""

import logging

from ithaca.consumers.idle import IdleConsumers
from ithaca.consumers.limits import CONSUMERS_CHECK_S
from ithaca.model.consumers import ExpireConsumer
from ithaca.runtime.machine import monotonic_s, wall_us
from ithaca.storage.lane import Lane

_log = logging.getLogger("ithaca.embedded")


class LaneExpiry:
    """Says which consumers go. Used at the opening, and then under the commit lock alone."""

    def __init__(self, idle_s: float, lane: Lane, path: str) -> None:
        self._idle_s = idle_s
        self._lane = lane
        self._path = path
        self._checked_s = float("-inf")
        state, now_s = lane.state, monotonic_s()
        newest_us = min(wall_us(), max(state.time_us, state.consumers.time_us))
        seen = {
            each.name: (each.stamp, now_s - max(0, newest_us - each.used_us) / 1e6)
            for each in state.consumers.after("")
        }
        self._idle = IdleConsumers(idle_s, seen)

    def due(self) -> list[ExpireConsumer]:
        """What is to be written now; nothing if it is not time to look."""
        now_s = monotonic_s()
        if now_s - self._checked_s < CONSUMERS_CHECK_S:
            return []
        self._checked_s = now_s
        idle = self._idle.look(self._lane.state.consumers, now_s)
        for each in idle:
            _log.info("%s: consumer %r was idle for %g s, and goes", self._path, each.name, self._idle_s)
        return idle
