"""Who waits for a position to be passed, sorted by position: an advance wakes those that it passes, and nobody else."""

import asyncio
from heapq import heapify, heappop, heappush


class PositionWaits:
    """The waiters of one event loop."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, asyncio.Future[None]]] = []
        self._number = 0
        """Of the last one: among those of one position, whoever came first is woken first."""
        self._left = 0
        """Those that gave up since the heap was made."""

    def __len__(self) -> int:
        """Those that wait, and at most as many that have given up."""
        return len(self._heap)

    @property
    def first(self) -> int | None:
        """The position that the first of them waits for."""
        return min((position for position, _, future in self._heap if not future.done()), default=None)

    async def wait(self, position: int, timeout_s: float | None = None) -> None:
        """Until the position is passed, all are woken, or the time is up: whoever waits looks which it was."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._number += 1
        heappush(self._heap, (position, self._number, future))
        try:
            if timeout_s is None:
                await future
            else:
                await asyncio.wait([future], timeout=timeout_s)
        finally:
            if not future.done() or future.cancelled():
                future.cancel()
                self._leave()

    def passed(self, limit: int) -> None:
        """Everything below the limit is there."""
        heap = self._heap
        while heap and heap[0][0] < limit:
            _wake(heappop(heap)[2])

    def wake_all(self) -> None:
        heap, self._heap = self._heap, []
        for _, _, future in heap:
            _wake(future)

    def _leave(self) -> None:
        """One has given up: once these are many, they are taken out."""
        self._left += 1
        if self._left * 2 > len(self._heap):
            self._heap = [waiter for waiter in self._heap if not waiter[2].done()]
            heapify(self._heap)
            self._left = 0


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
