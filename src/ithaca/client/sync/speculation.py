"""Synchronous speculation: events are fetched from the asynchronous twin in bulk, and taken in the caller's thread.

What was fetched is put into the buffer by the loop, as in `client.sync.records`: an interrupted step skips nothing. It
is for one thread at a time; any thread may close it.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.interface import awaited
from ithaca.model.speculation import SpeculativeEvent
from ithaca.model.units import Duration, optional_seconds


class SyncSpeculation(interface.Speculation):
    """Events, without end."""

    def __init__(self, portal: Portal, open_twin: Callable[[], awaited.Speculation]) -> None:
        self._portal = portal
        self._closed = False
        self._buffer: deque[SpeculativeEvent] = deque()
        self._filling = asyncio.Lock()
        self._position = 0
        self._twin = portal.run(lambda: self._enter(open_twin))

    @property
    def position(self) -> int:
        return self._position

    def __next__(self) -> SpeculativeEvent:
        while not self._closed:
            if self._buffer:
                return self._buffer.popleft()
            if not self._fill(None):
                break
        raise StopIteration

    def take(self, timeout: Duration | None = None) -> list[SpeculativeEvent]:
        timeout_s = optional_seconds(timeout)
        if not self._closed and not self._buffer:
            self._fill(timeout_s)
        if self._closed:
            return []
        found = list(self._buffer)
        self._buffer.clear()
        return found

    def close(self) -> None:
        self._closed = True
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._twin.close)

    def _fill(self, timeout_s: float | None) -> bool:
        """Fill the empty buffer; False when nothing came, because of the end or of a time-out."""
        self._portal.run(lambda: self._fetch(timeout_s))
        return bool(self._buffer)

    # On the loop

    async def _enter(self, open_twin: Callable[[], awaited.Speculation]) -> awaited.Speculation:
        twin = await open_twin().__aenter__()
        self._position = twin.position
        return twin

    async def _fetch(self, timeout_s: float | None) -> None:
        async with self._filling:
            # A fetch whose caller was interrupted may have come through just before this one.
            if not self._buffer:
                self._buffer.extend(await self._twin.take(timeout_s))
                self._position = self._twin.position
