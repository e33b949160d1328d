"""A range of the log in chunks of batches, for programs that read a lot of it: the next chunk comes while one is used.

A scan goes straight to the replicas, like every range, and where their files are on this machine, to those; it may
leave shards aside. It is meant for tasks that read one part of a table each and end (`ithaca.spark`), so it has its own
ways to the cluster and needs no handle.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Self

from ithaca.client.context import Context, open_context
from ithaca.client.local import LocalRange, local_range
from ithaca.client.portal import portal
from ithaca.client.records import AsyncClusterRecords
from ithaca.model.errors import IthacaError
from ithaca.model.interface import Batch
from ithaca.model.records import KeyFilter
from ithaca.wire.view import PositionedBatch, ScatteredBatch, Stretch

_log = logging.getLogger("ithaca.scan")


class Scan:
    """The records of `[start, stop)`, all of which are ordered; of these shards alone if some are named.

    It is an iterator over chunks, each a list of stretches of about `chunk_bytes` together.
    """

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
        """`local`: whether the files of replicas are read where they are on this machine and no filter is given."""
        self.position = start
        """Everything below was handed out, or is of no interest."""
        self._range = (stop, where, shards)
        self._chunk_bytes = chunk_bytes
        self._portal = portal()
        self._context: Context | None = None
        self._records: AsyncClusterRecords | None = None
        self._fetching: asyncio.Task[list[Stretch]] | None = None
        self._local: LocalRange | None = None

        async def begin() -> None:
            self._context = await open_context(bootstrap, timeout)
            if local and where is None and start < stop:
                self._local = await local_range(self._context, start, stop, shards)
            if self._local is None:
                self._stream()

        self._portal.run(begin)

    @property
    def is_local(self) -> bool:
        """Whether it reads files, and nothing has stood in the way of that so far."""
        return self._local is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[list[Stretch]]:
        while chunk := self._read_local() or self._portal.run(self._next):
            self.position = int(chunk[-1].positions[-1]) + 1
            yield chunk

    def _read_local(self) -> list[Stretch]:
        """The next chunk, from files; none when there are no more, and when they are not to be read any more."""
        if self._local is None:
            return []
        try:
            return self._local.read(self._chunk_bytes)
        except (IthacaError, OSError) as error:
            _log.info("going on at position %d over the network: %s", self._local.position, error)
            self.position, self._local = self._local.position, None
            self._portal.run(self._stream_on)
            return []

    def close(self) -> None:
        """Let go of the cluster. Idempotent."""
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._close)

    # On the loop

    _batches: AsyncIterator[Batch]

    def _stream(self) -> None:
        assert self._context is not None
        stop, where, shards = self._range
        self._records = AsyncClusterRecords(self._context, self.position, stop, where, shards)
        self._batches = self._records.batches()
        self._fetching = asyncio.ensure_future(self._fetch())

    async def _stream_on(self) -> None:
        self._stream()

    async def _next(self) -> list[Stretch]:
        if self._fetching is None:
            return []  # all of it was read from files
        chunk = await self._fetching
        self._fetching = asyncio.ensure_future(self._fetch())
        return chunk

    async def _fetch(self) -> list[Stretch]:
        chunk: list[Stretch] = []
        size = 0
        async for batch in self._batches:
            assert isinstance(batch, PositionedBatch | ScatteredBatch)
            chunk.append(batch.stretch())
            size += chunk[-1].raw_bytes
            if size >= self._chunk_bytes:
                break
        return chunk

    async def _close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
            if not self._fetching.cancelled():
                self._fetching.exception()  # looked at: nobody waits for it any more
        if self._records is not None:
            await self._records.close()
        if self._context is not None:
            self._context.is_closed = True
            await self._context.links.close()
