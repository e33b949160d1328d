"""What `tools/generate_sync.py` cannot write: the hot path of the synchronous log, and its end."""

from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from ithaca.client.intake import Intake
from ithaca.client.outbox import Outbox, SyncPending
from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.errors import LogClosed
from ithaca.model.interface import awaited
from ithaca.model.limits import BATCH_RECORDS_MAX
from ithaca.model.records import Buffer, Compression, Keys, Receipt, Values
from ithaca.model.units import Duration, optional_seconds

LogTwin = TypeVar("LogTwin", bound=awaited.Log)
Items = TypeVar("Items")
Answer = TypeVar("Answer")


class SyncAppends(interface.Log, Generic[LogTwin]):
    """Appends through an outbox, which is flushed and closed before the asynchronous twin."""

    def __init__(
        self,
        portal: Portal,
        twin: LogTwin,
        intake: Intake,
        *,
        compression: Compression = "none",
    ) -> None:
        self._portal = portal
        self._twin = twin
        self._outbox = Outbox(portal, intake, compression=compression)
        self._closed = False

    def __repr__(self) -> str:
        return repr(self._twin).replace("ithaca.aio.", "ithaca.", 1)

    def ask(self, question: Callable[[LogTwin], Coroutine[Any, Any, Answer]]) -> Answer:
        """What the asynchronous twin answers: for programs of this package that need more than the public log has."""
        return self._portal.run(lambda: question(self._twin))

    def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        timeout_s = optional_seconds(timeout)
        return self._outbox.put_record(value, key, noted=False).result(timeout_s)

    def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> Receipt:
        timeout_s = optional_seconds(timeout)
        return self._outbox.put_batch(values, keys, noted=False).result(timeout_s)

    def submit(self, value: Buffer, *, key: Buffer | None = None) -> SyncPending:
        return self._outbox.put_record(value, key, noted=True)

    def submit_many(self, values: Values, *, keys: Keys | None = None) -> SyncPending:
        return self._outbox.put_batch(values, keys, noted=True)

    def flush(self, *, timeout: Duration | None = None) -> None:
        timeout_s = optional_seconds(timeout)
        self._outbox.check()
        self._portal.run(lambda: self._outbox.flush(timeout_s))

    def close(self) -> None:
        if self._closed or self._portal.forked:
            return
        self._outbox.refuse(LogClosed("the handle was closed"))
        self._portal.run(self._close)
        self._closed = True
        self._outbox.raise_failure()

    async def _close(self) -> None:
        self._outbox.drain()
        await self._twin.close()


def held(items: Items) -> Items:
    """A caller's generator, run in the caller's thread; one buffer is no list, and is left to be refused."""
    if items is None or isinstance(items, bytes | bytearray | memoryview | str):
        return items
    return cast(Items, list(islice(cast("Iterable[object]", items), BATCH_RECORDS_MAX + 1)))
