"""Asynchronous iteration over the embedded log: hot batches in the loop, cold reads in a thread."""

import asyncio
from collections.abc import AsyncIterator

from ithaca.embedded.engine import Engine
from ithaca.embedded.scan import Scan
from ithaca.model import interface
from ithaca.model.errors import IthacaError
from ithaca.model.interface import awaited
from ithaca.model.limits import FOLLOW_POLL_MS_MAX, FOLLOW_POLL_MS_MIN, POLL_RECORDS_MAX
from ithaca.model.records import Record
from ithaca.runtime.read_ahead import ReadAhead


class AsyncEmbeddedRecords(awaited.Records):
    """A bounded range."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        self._engine = engine
        self._ahead = ReadAhead(scan)
        self._closed = False
        self._filling: asyncio.Future[bool] | None = None

    @property
    def position(self) -> int:
        return self._ahead.position

    async def __anext__(self) -> Record:
        while not self._closed:
            if self._ahead.held.records:
                return self._ahead.held.records.pop()
            if not self._ahead.decode() and not await self._advance(None):
                break
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[interface.Batch]:
        self._ahead.rewind()
        while not self._closed:
            batch = self._ahead.next_batch()
            if batch is not None:
                yield batch
            elif not await self._advance(None):
                return

    async def take_batches(self, timeout: float | None = None) -> list[interface.Batch]:
        deadline_s = None if timeout is None else asyncio.get_running_loop().time() + timeout
        # Taking awaits nothing: a call that is cancelled must not take batches with it.
        found = [] if self._closed else self._ahead.take_batches()
        while not found and await self._advance(deadline_s):
            found = self._ahead.take_batches()
        return found

    async def close(self) -> None:
        self._closed = True

    async def _advance(self, deadline_s: float | None) -> bool:
        """Read on, waiting if this kind of iteration waits; False at the end."""
        if self._closed:
            return False
        self._engine.check()
        return await self._fill()

    async def _fill(self) -> bool:
        if self._filling is None:
            if self._ahead.source.in_memory:
                return self._ahead.fill()
            self._filling = asyncio.ensure_future(asyncio.to_thread(self._ahead.fill))
        filling = self._filling
        try:
            # A caller that is cancelled must not leave a thread that reads beside the next caller's.
            return await asyncio.shield(filling)
        finally:
            if filling.done():
                self._filling = None


class AsyncEmbeddedSubscription(AsyncEmbeddedRecords, awaited.Subscription):
    """Without end: looks on when something was committed."""

    def __init__(self, engine: Engine, scan: Scan) -> None:
        super().__init__(engine, scan)
        self._wake = asyncio.Event()

    async def close(self) -> None:
        await super().close()
        self._wake.set()

    async def poll(self, timeout: float | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        deadline_s = None if timeout is None else asyncio.get_running_loop().time() + timeout
        if self._closed or max_records < 1:
            return []
        # Taking awaits nothing: a poll that is cancelled must not take records with it.
        found = self._ahead.take(max_records, self._fills)
        while not found and await self._advance(deadline_s):
            found = self._ahead.take(max_records, self._fills)
        return found

    def _fills(self) -> bool:
        try:
            return self._ahead.source.in_memory and self._ahead.fill()
        except IthacaError:
            return False  # what was found before it is delivered first; the next call meets it again

    async def _advance(self, deadline_s: float | None) -> bool:
        while not await super()._advance(deadline_s):
            if self._closed or not await self._await_more(deadline_s):
                return False
        return True

    async def _await_more(self, deadline_s: float | None) -> bool:
        """Wait until there may be more to read; False when the time is up."""
        engine, loop = self._engine, asyncio.get_running_loop()
        lsn = self._ahead.source.lsn
        pause_s = None if engine.is_writer else FOLLOW_POLL_MS_MIN / 1000

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._wake.set)

        engine.add_listener(tell)
        try:
            while not self._closed:
                self._wake.clear()
                engine.check()
                engine.reader.refresh()
                if engine.reader.length > lsn:
                    return True
                left_s = None if deadline_s is None else deadline_s - loop.time()
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
