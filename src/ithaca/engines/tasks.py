"""Reading and appending by programs that take a part of a table each and end (`ithaca.spark`), in a thread of theirs.

Each has a handle of its own, on a cluster of whatever engine.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from ithaca.client.engine_log import BuiltPart, EngineLog
from ithaca.client.extents import Extent, dense_extents
from ithaca.client.portal import portal
from ithaca.client.scan import AwaitedScan
from ithaca.client.settings import ClientSettings
from ithaca.client.sync.log import SyncClusterLog
from ithaca.engines.connecting import connected
from ithaca.model import interface
from ithaca.model.engine import Feature
from ithaca.model.interface import awaited
from ithaca.model.limits import PART_TTL_S
from ithaca.model.parts import Part
from ithaca.model.records import KeyFilter, Receipt
from ithaca.model.security.tls import TLS
from ithaca.model.security.token import checked_token
from ithaca.wire.batch import Batch
from ithaca.wire.positioned import PositionedRows

Extents = Callable[..., list[Extent]]
"""`EngineLog.extents`, waited for."""


def extents_of(log: interface.Log) -> Extents | None:
    """How the records of a log's ranges are counted; None where positions are dense, and so are subtracted."""
    if not isinstance(log, SyncClusterLog):
        return None

    async def features(twin: awaited.ClusterLog) -> frozenset[Feature]:
        assert isinstance(twin, EngineLog)
        return twin.features

    if Feature.DENSE in log.ask(features):
        return None

    def extents(
        start: int, stop: int, *, records_max: int, count_max: int | None = None, shards: frozenset[int] | None = None
    ) -> list[Extent]:
        async def ask(twin: awaited.ClusterLog) -> list[Extent]:
            assert isinstance(twin, EngineLog)
            return await twin.extents(start, stop, records_max=records_max, count_max=count_max, shards=shards)

        return log.ask(ask)

    return extents


def count_records(log: interface.Log, start: int, stop: int) -> int:
    """How many records `[start, stop)` holds, all of which is ordered."""
    extents = extents_of(log)
    if extents is None:
        return max(0, stop - start)
    return sum(extent.records for extent in extents(start, stop, records_max=max(1, stop - start)))


def position_behind(log: interface.Log, start: int, stop: int, records: int) -> int:
    """Where so many records of `[start, stop)` end, counted from the start; `stop` if there are no more."""
    extents = extents_of(log) or dense_extents
    found = extents(start, stop, records_max=records, count_max=1) if records else [Extent(start, start, 0)]
    return found[0].stop if found else stop


class _Connected:
    """A handle of its own, for as long as the context lasts."""

    def __init__(self, bootstrap: str, *, timeout: float, tls: TLS | None = None, token: str | None = None) -> None:
        self._portal = portal()
        self._timeout_s = timeout
        settings = ClientSettings(timeout, tls=tls, token=checked_token(token))
        self._log = self._portal.run(lambda: connected(bootstrap, settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._portal.run(self._log.close)


class Scan(_Connected):
    """An iterator over chunks of `[start, stop)`, all of which are ordered. See `EngineLog.scan`."""

    def __init__(
        self,
        bootstrap: str,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
        timeout: float = 30,
        local: bool = True,
        tls: TLS | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(bootstrap, timeout=timeout, tls=tls, token=token)
        log = self._log

        async def begin() -> AwaitedScan:
            try:
                return await log.scan(start, stop, where=where, shards=shards, chunk_bytes=chunk_bytes, local=local)
            except BaseException:
                await log.close()
                raise

        self._scan = self._portal.run(begin)

    @property
    def position(self) -> int:
        """Everything below was handed out, or is of no interest."""
        return self._scan.position

    @property
    def is_local(self) -> bool:
        """Whether it reads files, and nothing has stood in the way of that so far."""
        return self._scan.is_local

    def __iter__(self) -> Iterator[list[PositionedRows]]:
        while chunk := self._scan.read_local() or self._portal.run(self._scan.next):
            yield chunk

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the cluster. Idempotent."""
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._close)

    async def _close(self) -> None:
        await self._scan.close()
        await self._log.close()


class BatchAppends(_Connected):
    """Appends of one task: each batch is sent as it is put, and `finish` waits for all of them."""

    def __init__(self, bootstrap: str, *, timeout: float, tls: TLS | None = None, token: str | None = None) -> None:
        super().__init__(bootstrap, timeout=timeout, tls=tls, token=token)
        self._pending: deque[asyncio.Future[Receipt]] = deque()
        self._receipts: list[Receipt] = []

    def put(self, batch: Batch) -> None:
        """Send one atomic batch; waits only while too many bytes are in flight. Raises what failed before."""
        self._portal.run(lambda: self._put(batch))

    def finish(self) -> list[Receipt]:
        """The receipts of all, in the order in which they were put; raises the first failure."""
        return self._portal.run(self._finish)

    # On the loop

    async def _put(self, batch: Batch) -> None:
        while self._pending and self._pending[0].done():
            self._receipts.append(await self._pending.popleft())
        if self._log.inflight.is_full:
            await self._log.wait_for_room()
        slot: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._log.take_batch(batch, slot)
        self._pending.append(slot)

    async def _finish(self) -> list[Receipt]:
        while self._pending:
            self._receipts.append(await self._pending.popleft())
        return self._receipts


class BatchPart(_Connected):
    """One prepared part of a task; without a batch there is none. What is not finished is aborted at the end."""

    def __init__(self, bootstrap: str, *, timeout: float, tls: TLS | None = None, token: str | None = None) -> None:
        super().__init__(bootstrap, timeout=timeout, tls=tls, token=token)
        self._writer: BuiltPart | None = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self._writer is not None and not self._writer.is_finished:
                self._portal.run(self._writer.abort)
        finally:
            super().__exit__(kind, error, tb)

    def put(self, batch: Batch) -> None:
        """Send the next batch of the part; waits only while too much is under way."""
        self._portal.run(lambda: self._put(batch))

    def finish(self, ttl_s: float = PART_TTL_S) -> Part | None:
        """The part, durable and not ordered; it waits so long to be published."""
        return self._portal.run(lambda: self._finish(ttl_s))

    async def _finish(self, ttl_s: float) -> Part | None:
        if self._writer is None:
            return None
        part = await self._writer.finish()
        await self._log.renew([part], ttl=ttl_s)
        return part

    async def _put(self, batch: Batch) -> None:
        if self._writer is None:
            self._writer = await self._log.open_part()
        await self._writer.send(batch, self._timeout_s)
