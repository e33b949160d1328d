"""Asynchronous iteration over the embedded log: hot batches in the loop, cold reads in a thread."""

import asyncio

from ithaca.client.ahead_records import AheadRecords, AheadSubscription
from ithaca.client.deadline import Deadline
from ithaca.embedded.engine import Engine
from ithaca.embedded.scan import Scan
from ithaca.model.errors import IthacaError
from ithaca.model.limits import FOLLOW_POLL_MS_MAX, FOLLOW_POLL_MS_MIN
from ithaca.runtime.read_ahead import ReadAhead


class AsyncEmbeddedRecords(AheadRecords[Scan]):
    """A bounded range."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        self._reading = ReadAhead(scan)
        super().__init__(self._reading)
        self._engine = engine
        self._filling: asyncio.Future[bool] | None = None

    @property
    def position(self) -> int:
        return self._reading.position

    async def close(self) -> None:
        self._closed = True

    async def _advance(self, deadline: Deadline | None) -> bool:
        if self._closed:
            return False
        self._engine.check()
        return await self._fill()

    async def _fill(self) -> bool:
        if self._filling is None:
            if self._reading.source.in_memory:
                return self._reading.fill()
            self._filling = asyncio.ensure_future(asyncio.to_thread(self._reading.fill))
        filling = self._filling
        try:
            # A caller that is cancelled must not leave a thread that reads beside the next caller's.
            return await asyncio.shield(filling)
        finally:
            if filling.done():
                self._filling = None


class AsyncEmbeddedSubscription(AsyncEmbeddedRecords, AheadSubscription[Scan]):
    """Without end: looks on when something was committed."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        super().__init__(engine, scan)
        self._wake = asyncio.Event()

    async def close(self) -> None:
        await super().close()
        self._wake.set()

    def _read_on(self) -> bool:
        try:
            return self._reading.source.in_memory and self._reading.fill()
        except IthacaError:
            return False  # what was found before it is delivered first; the next call meets it again

    async def _advance(self, deadline: Deadline | None) -> bool:
        while not await super()._advance(deadline):
            if self._closed or not await self._await_more(deadline):
                return False
        return True

    async def _await_more(self, deadline: Deadline | None) -> bool:
        """Wait until there may be more to read; False when the time is up."""
        engine, loop = self._engine, asyncio.get_running_loop()
        lsn = self._reading.source.lsn
        pause_s = None if engine.is_writer else FOLLOW_POLL_MS_MIN / 1000

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake.set)

        engine.add_listener(tell)
        try:
            while not self._closed:
                self._wake.clear()
                if engine.is_beyond(lsn):
                    return True
                left_s = None if deadline is None else deadline.left_s
                if left_s is not None and left_s <= 0:
                    return False
                await _wait(self._wake, left_s, pause_s)
                if pause_s is not None:
                    pause_s = min(FOLLOW_POLL_MS_MAX / 1000, pause_s * 1.2)
            return False
        finally:
            engine.remove_listener(tell)


async def _wait(event: asyncio.Event, *limits_s: float | None) -> None:
    """Until the event is set or the shortest of the limits has passed."""
    try:
        async with asyncio.timeout(min((limit for limit in limits_s if limit is not None), default=None)):
            await event.wait()
    except TimeoutError:
        pass
