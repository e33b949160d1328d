"""How many bytes a handle has in flight: the one count of them, and the bound that makes producers wait."""

import asyncio
from collections.abc import Callable

from ithaca.client.deadline import Deadline
from ithaca.model.errors import Overloaded


class InflightBytes:
    """Bytes that were taken and are not settled, those of callers that wait no more included.

    It belongs to the handle's loop. Other threads may look, and are told of fewer bytes by way of `watch`.
    """

    def __init__(self, bytes_max: int, timeout_s: float) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.timeout_s = timeout_s
        """How long somebody waits for room."""
        self._less = asyncio.Event()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, told: Callable[[], None]) -> None:
        """Have a function called, on the loop, whenever bytes are settled."""
        self._watchers.append(told)

    def add(self, size: int) -> None:
        self.bytes += size

    def settle(self, size: int) -> None:
        """So many are in the log, or will never be."""
        self.bytes -= size
        self._less.set()
        for told in self._watchers:
            told()

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be taken."""
        return self.bytes > self.bytes_max

    async def wait_for_room(self) -> None:
        """Wait while it is full; `Overloaded` when that takes too long."""
        if not await self.fallen_to(self.bytes_max, self.timeout_s):
            raise self.overloaded()

    def overloaded(self) -> Overloaded:
        return Overloaded(
            f"{self.bytes} bytes wait to be acknowledged for {self.timeout_s:.3g} s, and {self.bytes_max} may be in "
            "flight: nothing of this was appended"
        )

    def look(self) -> None:
        """Have whoever waits look again."""
        self._less.set()

    async def fallen_to(self, size: int, timeout_s: float, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Wait until no more than this is in flight, or it is enough; False when that takes too long."""
        deadline = Deadline(timeout_s)
        while self.bytes > size and not is_enough():
            self._less.clear()
            try:
                async with asyncio.timeout(deadline.left_s):
                    await self._less.wait()
            except TimeoutError:
                return False
        return True
