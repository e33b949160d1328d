"""A range of the log in chunks of batches, for programs that read a lot of it: the next chunk comes while one is used.

A scan goes straight to the replicas, like every range, and where their files are on this machine, to those; it may
leave shards aside. It is meant for tasks that read one part of a table each and end (`ithaca.spark`), so it has its own
ways to the cluster and needs no handle.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Self

from ithaca.client.portal import portal
from ithaca.engines.scalog.client.context import Context, open_context
from ithaca.engines.scalog.client.read.local import LocalRange, local_range
from ithaca.engines.scalog.client.read.records import AsyncClusterRecords
from ithaca.model.errors import IthacaError
from ithaca.model.interface import Batch
from ithaca.model.records import KeyFilter
from ithaca.wire.positioned import PositionedBatch, PositionedRows, ScatteredBatch

_log = logging.getLogger("ithaca.scan")


class AsyncScan:
    """The records of `[start, stop)`, all of which are ordered; of these shards alone if some are named.

    Chunks come from `read_local` as long as that has some, then from `next`; both give lists of stretches of about
    `chunk_bytes` together, and none at the end. It belongs to the loop of its context, but for `read_local`.
    """

    def __init__(
        self,
        context: Context,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
    ) -> None:
        self.position = start
        """Everything below was handed out, or is of no interest."""
        self._context = context
        self._range = (stop, where, shards)
        self._chunk_bytes = chunk_bytes
        self._local: LocalRange | None = None
        self._records: AsyncClusterRecords | None = None
        self._fetching: asyncio.Task[list[PositionedRows]] | None = None

    async def begin(self, *, local: bool = True) -> None:
        """`local`: whether the files of replicas are read where they are on this machine and no filter is given."""
        stop, where, shards = self._range
        if local and where is None and self.position < stop:
            self._local = await local_range(self._context, self.position, stop, shards)
        if self._local is None:
            self._stream()

    @property
    def is_local(self) -> bool:
        """Whether it reads files, and nothing has stood in the way of that so far."""
        return self._local is not None

    def read_local(self) -> list[PositionedRows]:
        """The next chunk, from files; none when there are no more, and when they are not to be read any more."""
        if self._local is None:
            return []
        try:
            return self._handed_out(self._local.read(self._chunk_bytes))
        except (IthacaError, OSError) as error:
            _log.info("going on at position %d over the network: %s", self._local.position, error)
            self.position, self._local = self._local.position, None
            return []

    async def next(self) -> list[PositionedRows]:
        """The next chunk, from replicas."""
        if self._local is not None:
            return []  # all of it was read from files
        if self._fetching is None:
            self._stream()
        assert self._fetching is not None
        chunk = await self._fetching
        self._fetching = asyncio.ensure_future(self._fetch())
        return self._handed_out(chunk)

    def _handed_out(self, chunk: list[PositionedRows]) -> list[PositionedRows]:
        if chunk:
            self.position = int(chunk[-1].positions[-1]) + 1
        return chunk

    _batches: AsyncIterator[Batch]

    def _stream(self) -> None:
        stop, where, shards = self._range
        self._records = AsyncClusterRecords(self._context, self.position, stop, where, shards)
        self._batches = self._records.batches()
        self._fetching = asyncio.ensure_future(self._fetch())

    async def _fetch(self) -> list[PositionedRows]:
        chunk: list[PositionedRows] = []
        size = 0
        async for batch in self._batches:
            assert isinstance(batch, PositionedBatch | ScatteredBatch)
            chunk.append(batch.stretch())
            size += chunk[-1].raw_bytes
            if size >= self._chunk_bytes:
                break
        return chunk

    async def close(self) -> None:
        """Let go of the streams."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
            if not self._fetching.cancelled():
                self._fetching.exception()  # looked at: nobody waits for it any more
        if self._records is not None:
            await self._records.close()


class Scan:
    """A scan for a thread: an iterator over its chunks, with its own way to the cluster. See `AsyncScan`."""

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
    ) -> None:
        self._portal = portal()
        self._context: Context

        async def begin() -> AsyncScan:
            self._context = context = await open_context(bootstrap, timeout)
            scan = AsyncScan(context, start, stop, where=where, shards=shards, chunk_bytes=chunk_bytes)
            await scan.begin(local=local)
            return scan

        self._scan = self._portal.run(begin)

    @property
    def position(self) -> int:
        """Everything below was handed out, or is of no interest."""
        return self._scan.position

    @property
    def is_local(self) -> bool:
        """Whether it reads files, and nothing has stood in the way of that so far."""
        return self._scan.is_local

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[list[PositionedRows]]:
        while chunk := self._scan.read_local() or self._portal.run(self._scan.next):
            yield chunk

    def close(self) -> None:
        """Let go of the cluster. Idempotent."""
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._close)

    async def _close(self) -> None:
        await self._scan.close()
        self._context.is_closed = True
        await self._context.links.close()
