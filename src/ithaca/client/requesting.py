"""Appending for engines in which an append is a request: each batch is sent as it is taken, and its answer awaited."""

import asyncio
from abc import abstractmethod
from collections.abc import Callable

from ithaca.client.engine_log import EngineLog
from ithaca.client.handle_life import HandleLife
from ithaca.client.intake import Slot
from ithaca.client.settings import ClientSettings
from ithaca.model.limits import SEND_BACKLOG_BYTES_MAX
from ithaca.model.records import Receipt
from ithaca.wire.batch import Batch


class RequestingLog(EngineLog):
    """A handle whose appends are sent one by one, in the order in which they were taken."""

    def __init__(self, name: str, settings: ClientSettings) -> None:
        """`name` is of the log, for messages."""
        # All of it may wait in one connection, and a whole batch more.
        super().__init__(settings, inflight_bytes_max=min(settings.inflight_bytes_max, SEND_BACKLOG_BYTES_MAX // 4))
        self._settings = settings
        self._sending: dict[asyncio.Task[None], tuple[int, Callable[[], bool]]] = {}
        """What is under way, its bytes, and whether nobody waits for it any more."""
        self._life = HandleLife(name)

    @abstractmethod
    async def send(self, batch: Batch) -> Receipt:
        """Append one atomic batch. It must be on its way when this first waits for something."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Let go of the servers; requests that are under way fail."""

    def check(self) -> None:
        self._life.check()

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self.check()
        task = asyncio.create_task(self._answer(batch, slot))
        self._sending[task] = (batch.total_bytes, slot.done)
        self.inflight.add(batch.total_bytes)
        task.add_done_callback(self._sent)

    async def _answer(self, batch: Batch, slot: Slot) -> None:
        try:
            receipt = await self.send(batch)
        except Exception as error:
            if not slot.done():
                slot.set_exception(error)
        else:
            if not slot.done():
                slot.set_result(receipt)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self.inflight.settle(self._sending.pop(task)[0])

    async def close(self) -> None:
        if not self._life.end():
            return
        waited_for = [task for task, (_, is_answered) in self._sending.items() if not is_answered()]
        if waited_for:
            await asyncio.wait(waited_for, timeout=self._settings.timeout_s)
        await self.disconnect()
        if self._sending:
            await asyncio.wait(list(self._sending))
        await self._submitted.flush(None)
