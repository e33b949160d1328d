"""The synchronous face over the embedded log's asynchronous twin: the same interface, and no cluster to start."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.conformance.engines import Deployment

import ithaca.aio
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import RecordSlot, Slot, take_each
from ithaca.client.portal import portal
from ithaca.client.sync.log import SyncLog
from ithaca.embedded.aio import AsyncEmbeddedLog
from ithaca.model.errors import IthacaError
from ithaca.model.interface import Log, awaited
from ithaca.model.limits import INFLIGHT_BYTES_MAX
from ithaca.model.records import Compression, Receipt
from ithaca.runtime.group_commit import Ticket
from ithaca.wire.batch import Batch
from ithaca.wire.build import record_bytes

PATIENCE_S = 30.0


class EmbeddedIntake:
    """What a cluster's log offers of itself, for the embedded one."""

    def __init__(self, log: AsyncEmbeddedLog, inflight_bytes_max: int = INFLIGHT_BYTES_MAX) -> None:
        self._log = log
        self.inflight = InflightBytes(inflight_bytes_max, PATIENCE_S)

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        self._take(Ticket(value=value, key=key), record_bytes(value, key), slot)

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        take_each(run, lambda each: self.take_record(each.value, each.key, each))

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self._take(Ticket(batch=batch), batch.total_bytes, slot)

    def _take(self, ticket: Ticket, size: int, slot: Slot) -> None:
        self.inflight.add(size)

        def answer(future: "asyncio.Future[Receipt]") -> None:
            self.inflight.settle(size)
            error = future.exception()
            if error is None:
                slot.set_result(future.result())
            else:
                slot.set_exception(error)

        self._log._tickets.commit(ticket).add_done_callback(answer)


class SilentIntake:
    """Takes everything, and answers only when it is told to."""

    def __init__(self, inflight_bytes_max: int = INFLIGHT_BYTES_MAX, timeout_s: float = PATIENCE_S) -> None:
        self.inflight = InflightBytes(inflight_bytes_max, timeout_s)
        self.sizes: list[int] = []
        self.slots: list[Slot] = []
        self.values: list[bytes] = []
        self.taken = threading.Semaphore(0)

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        self.values.append(value)
        self._take(record_bytes(value, key), slot)

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        take_each(run, lambda each: self.take_record(each.value, each.key, each))

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self._take(batch.total_bytes, slot)

    def _take(self, size: int, slot: Slot) -> None:
        self.inflight.add(size)
        self.sizes.append(size)
        self.slots.append(slot)
        self.taken.release()

    def answer(self, index: int) -> None:
        """Give the append that was taken as number `index` the position of that number."""

        def answer() -> None:
            self.slots[index].set_result(Receipt(index, 1, 0, "fsync"))
            self.inflight.settle(self.sizes[index])

        portal().call(answer)

    def fail(self, indexes: Iterable[int], error: IthacaError) -> None:
        """Fail these with one and the same error."""

        def fail() -> None:
            for index in indexes:
                self.slots[index].set_exception(error)

        portal().call(fail)


def open_sync(
    directory: Path, *, compression: Compression = "none", inflight_bytes_max: int = INFLIGHT_BYTES_MAX
) -> SyncLog[awaited.Log]:
    """A handle that appends."""

    async def open_twin() -> awaited.Log:
        return await ithaca.aio.open(directory, compression=compression)

    twin = portal().run(open_twin)
    assert isinstance(twin, AsyncEmbeddedLog)
    return SyncLog(portal(), twin, EmbeddedIntake(twin, inflight_bytes_max), compression=compression)


def open_sync_reader(directory: Path) -> SyncLog[awaited.Log]:
    """A handle that reads."""

    async def open_twin() -> awaited.Log:
        return await ithaca.aio.open(directory, mode="r")

    twin = portal().run(open_twin)
    assert isinstance(twin, AsyncEmbeddedLog)
    return SyncLog(portal(), twin, EmbeddedIntake(twin))


class SyncOverEmbedded(Deployment):
    """A directory, opened in this process through the portal."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "log"
        self._handles = ExitStack()

    def open(self, *, compression: Compression = "none") -> Log:
        return self._handles.enter_context(open_sync(self._directory, compression=compression))

    def open_reader(self) -> Log:
        return self._handles.enter_context(open_sync_reader(self._directory))

    def close(self) -> None:
        self._handles.close()
