"""How far a server can be read: from the first position that is left up to a limit that rises; and who waits."""

import asyncio
from collections.abc import Callable

from ithaca.model.errors import IthacaError, Trimmed
from ithaca.server.position_waits import PositionWaits


class Readable:
    """The part of the log that is here."""

    def __init__(self, first: Callable[[], int], limit: Callable[[], int]) -> None:
        """`first`: positions below were trimmed. `limit`: those at or above cannot be read yet."""
        self.waits = PositionWaits()
        """Who waits until a position can be read."""
        self._first = first
        self._limit = limit
        self._closed: IthacaError | None = None

    def close(self, error: IthacaError) -> None:
        """Nothing can be read here any more: whoever asks, or waits, is told this."""
        self._closed = error
        self.waits.wake_all()

    def check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    def check_not_trimmed(self, position: int) -> None:
        first = self._first()
        if position < first:
            raise Trimmed(f"position {position} was trimmed; the first one left is {first}", first=first)

    async def wait(self, position: int, timeout_s: float | None = None) -> bool:
        """Whether the position can be read within this time."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout_s is None else loop.time() + timeout_s
        while position >= self._limit():
            self.check_open()
            left_s = None if deadline is None else deadline - loop.time()
            if left_s is not None and left_s <= 0:
                return False
            await self.waits.wait(position, left_s)
        return True
