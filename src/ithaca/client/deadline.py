"""How long to go on: deadlines."""

import asyncio


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
