"""How long to go on: deadlines, and pauses between attempts that grow."""

import asyncio

from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.runtime.machine import rng


class Deadline:
    """A point in the loop's time."""

    __slots__ = ("_at_s", "_loop", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout_s = timeout_s
        self._at_s = self._loop.time() + timeout_s

    @property
    def left_s(self) -> float:
        """Never below 0."""
        return max(0.0, self._at_s - self._loop.time())

    @property
    def passed(self) -> bool:
        return self._loop.time() >= self._at_s


class Backoff:
    """Backoff that double, each cut short at random so that many clients do not come back at once."""

    __slots__ = ("_next_s",)

    def __init__(self) -> None:
        self._next_s = RECONNECT_PAUSE_S_MIN

    def reset(self) -> None:
        self._next_s = RECONNECT_PAUSE_S_MIN

    async def pause(self, deadline: Deadline | None = None) -> None:
        """Sleep for the next pause, but not beyond the deadline."""
        pause_s = self._next_s * rng().uniform(0.5, 1)
        self._next_s = min(2 * self._next_s, RECONNECT_PAUSE_S_MAX)
        await asyncio.sleep(pause_s if deadline is None else min(pause_s, deadline.left_s))
