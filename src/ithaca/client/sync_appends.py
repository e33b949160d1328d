"""What `tools/generate_sync.py` cannot write: the hot path of the synchronous log, and its end."""

from collections.abc import Iterable
from itertools import islice
from typing import Generic, TypeVar, cast

from ithaca.client.intake import Intake
from ithaca.client.outbox import Outbox, SyncPending
from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.errors import LogClosed
from ithaca.model.interface import awaited
from ithaca.model.limits import BATCH_RECORDS_MAX, INFLIGHT_BYTES_MAX
from ithaca.model.records import Buffer, Compression, Receipt

LogTwin = TypeVar("LogTwin", bound=awaited.Log)
Items = TypeVar("Items")


class SyncAppends(interface.Log, Generic[LogTwin]):
    """Appends through an outbox, which is flushed and closed before the asynchronous twin."""

    def __init__(
        self,
        portal: Portal,
        twin: LogTwin,
        intake: Intake,
        *,
        compression: Compression = "none",
        inflight_bytes_max: int = INFLIGHT_BYTES_MAX,
    ) -> None:
        self._portal = portal
        self._twin = twin
        self._outbox = Outbox(portal, intake, compression=compression, inflight_bytes_max=inflight_bytes_max)
        self._closed = False

    def append(self, value: Buffer, *, key: Buffer | None = None, timeout: float | None = None) -> Receipt:
        return self._outbox.put_record(value, key, noted=False).result(timeout)

    def append_many(
        self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None, timeout: float | None = None
    ) -> Receipt:
        return self._outbox.put_batch(values, keys, noted=False).result(timeout)

    def submit(self, value: Buffer, *, key: Buffer | None = None) -> SyncPending:
        return self._outbox.put_record(value, key, noted=True)

    def submit_many(self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None) -> SyncPending:
        return self._outbox.put_batch(values, keys, noted=True)

    def flush(self, *, timeout: float | None = None) -> None:
        self._outbox.check()
        self._portal.run(lambda: self._outbox.flush(timeout))

    def close(self) -> None:
        if self._closed or self._portal.forked:
            return
        self._outbox.refuse(LogClosed("the handle was closed"))
        self._portal.run(self._close)
        self._closed = True
        self._outbox.raise_failure()

    async def _close(self) -> None:
        await self._outbox.drained()
        await self._twin.close()


def held(items: Items) -> Items:
    """A caller's generator, run in the caller's thread; one buffer is no list, and is left to be refused."""
    if items is None or isinstance(items, bytes | bytearray | memoryview | str):
        return items
    return cast(Items, list(islice(cast("Iterable[object]", items), BATCH_RECORDS_MAX + 1)))
