"""Planted bugs of time: whose clock decides, how fast the order's time moves, what retention waits for."""

from tests.planted.bug import Bug

CLOCKS = (
    Bug(
        "clock-leader-decides",
        "the leader's own clock stands for what a majority of the voters' clocks agree on",
        "ithaca.engines.scalog.ordering.clock",
        "return clocks[most - 1] if len(clocks) >= most else None",
        "return wall_us if len(clocks) >= most else None",
        needs=lambda drawn: bool({"step-clocks", "leap-clocks", "clock"} & {*drawn.faults}),
    ),
    Bug(
        "clock-order-leaps",
        "the order's time leaps with the clocks that are agreed on, however little time has passed",
        "ithaca.engines.scalog.ordering.clock",
        "time_us += min(max(agreed_us - time_us, -most_us), most_us)",
        "time_us = max(time_us, agreed_us)",
        needs=lambda drawn: bool({"step-clocks", "leap-clocks", "clock"} & {*drawn.faults}),
    ),
    Bug(
        "clock-stands-still",
        "while the order's time is ahead of the clocks it waits for them",
        "ithaca.engines.scalog.ordering.clock",
        "time_us += min(max(agreed_us - time_us, -most_us), most_us)",
        "time_us += min(max(agreed_us - time_us, self._at_us - now_us), most_us)",
        needs=lambda drawn: bool({"leap-clocks", "clock"} & {*drawn.faults}),
    ),
    Bug(
        "retention-largest-clock",
        "retention goes by the orderer's clock that is furthest ahead",
        "ithaca.engines.scalog.server.orderer.time",
        "return None if agreed_us is None else min(agreed_us, self.lead())",
        "return max(self._clock.clocks_us(wall_us(), self._voters(), _now_us()).values())",
        needs=lambda drawn: drawn.retention_age_s > 0,
    ),
    Bug(
        "retention-beyond-order-time",
        "retention goes by the clocks alone, and not by the order's time",
        "ithaca.engines.scalog.server.orderer.time",
        "return None if agreed_us is None else min(agreed_us, self.lead())",
        "return agreed_us",
        needs=lambda drawn: drawn.retention_age_s > 0,
    ),
    Bug(
        "retention-does-not-wait",
        "what is too old because the clock was set goes at once",
        "ithaca.model.trim_pace",
        "if self._looked_us - announced.since_us < RETENTION_WAIT_S * 1e6:",
        "if self._looked_us < announced.since_us:",
        needs=lambda drawn: drawn.retention_age_s > 0 and "leap-clocks" in drawn.faults,
    ),
)
