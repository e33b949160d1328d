"""What `tools/generate_sync.py` cannot write: the hot path of the synchronous log, and its end."""

from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import Any, Generic, TypeVar, cast

from ithaca.client.consuming.awaited.book import ConsumerBook
from ithaca.client.consuming.blocking.book import open_consumer
from ithaca.client.consuming.committing import CommitRule
from ithaca.client.consuming.wanted import Wanted
from ithaca.client.intake import Intake
from ithaca.client.outbox import Outbox, SyncPending
from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.arguments import SINGLE, is_iterable
from ithaca.model.engine import Feature
from ithaca.model.errors import LogClosed
from ithaca.model.interface import awaited
from ithaca.model.interface.blocking.consumers import PartsChanged
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import BATCH_RECORDS_MAX
from ithaca.model.records import Buffer, Compression, KeyFilter, Keys, Receipt, Start, Values
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

    def consumer(
        self,
        name: str,
        *,
        start: Start = "earliest",
        where: KeyFilter | None = None,
        commit_records: int | None = None,
        commit_s: Duration | None = None,
        group: bool = False,
        parts: int | None = None,
        lease: Duration | None = None,
        on_assigned: PartsChanged | None = None,
        on_revoked: PartsChanged | None = None,
    ) -> interface.Consumer:
        twin = self._twin
        if not isinstance(twin, ConsumerBook):
            raise unsupported(Feature.CONSUMERS)
        wanted = Wanted.checked(
            name,
            start,
            where,
            CommitRule(commit_records, commit_s),
            group=group,
            parts=parts,
            lease=lease,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )
        return open_consumer(self, wanted, on_assigned, on_revoked, is_dense=twin.has_dense_positions)

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
        self._outbox.failure.raise_once()

    async def _close(self) -> None:
        self._outbox.drain()
        await self._twin.close()


def held(items: Items) -> Items:
    """A caller's generator, run in the caller's thread; one buffer, or what is no list, is left to be refused."""
    if isinstance(items, SINGLE) or not is_iterable(items):
        return items
    return cast(Items, list(islice(cast("Iterable[object]", items), BATCH_RECORDS_MAX + 1)))
