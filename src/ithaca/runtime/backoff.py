"""Pauses between attempts, which double from the shortest to the longest."""

import asyncio
from typing import Protocol

from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.runtime.machine import rng


class Limit(Protocol):
    """A time after which nobody waits any more."""

    @property
    def left_s(self) -> float: ...


class Backoff:
    """The pauses of one who tries again and again.

    >>> backoff = Backoff(0.1, 0.3)
    >>> pauses = [backoff.next_s() for _ in range(4)]
    >>> backoff.reset()
    >>> pauses, backoff.next_s()
    ([0.1, 0.2, 0.3, 0.3], 0.1)
    """

    __slots__ = ("_max_s", "_min_s", "_next_s")

    def __init__(self, min_s: float = RECONNECT_PAUSE_S_MIN, max_s: float = RECONNECT_PAUSE_S_MAX) -> None:
        self._min_s = self._next_s = min_s
        self._max_s = max_s

    def reset(self) -> None:
        """An attempt went well: the next pause is the shortest again."""
        self._next_s = self._min_s

    def next_s(self) -> float:
        """The next pause."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s

    async def pause(self, limit: Limit | None = None) -> None:
        """Sleep for the next pause, cut short at random so that many do not come back at once; not beyond the limit."""
        pause_s = self.next_s() * rng().uniform(0.5, 1)
        await asyncio.sleep(pause_s if limit is None else min(pause_s, limit.left_s))
