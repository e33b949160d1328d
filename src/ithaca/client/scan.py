"""A range of the log in chunks of batches, for programs that read a lot: the next chunk comes while one is used."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Protocol

from ithaca.model.errors import IthacaError
from ithaca.model.interface import Batch
from ithaca.model.interface.awaited import Records
from ithaca.wire.positioned import PositionedBatch, PositionedRows, ScatteredBatch

_log = logging.getLogger("ithaca.scan")


class AwaitedScan(ABC):
    """Chunks come from `read_local` as long as that has some, then from `next`.

    Both give lists of stretches of about as many bytes as was asked for, and an empty one at the end. It belongs to the
    loop of its handle, but for `read_local`.
    """

    position: int
    """Everything below was handed out, or is of no interest."""

    @property
    def is_local(self) -> bool:
        """Whether it reads files, and nothing has stood in the way of that so far."""
        return False

    def read_local(self) -> list[PositionedRows]:
        """The next chunk, from files; none when there are no more, and when they are not to be read any more."""
        return []

    @abstractmethod
    async def next(self) -> list[PositionedRows]:
        """The next chunk, from servers."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the streams."""


class RangeScan(AwaitedScan):
    """A scan of what an iteration gives; of these shards alone if some are named."""

    def __init__(self, records: Records, start: int, shards: frozenset[int] | None, chunk_bytes: int) -> None:
        self.position = start
        self._records = records
        self._batches: AsyncIterator[Batch] = records.batches()
        self._shards = shards
        self._chunk_bytes = chunk_bytes
        self._fetching = asyncio.ensure_future(self._fetch())

    async def next(self) -> list[PositionedRows]:
        chunk = await self._fetching
        self._fetching = asyncio.ensure_future(self._fetch())
        if chunk:
            self.position = int(chunk[-1].positions[-1]) + 1
        return chunk

    async def _fetch(self) -> list[PositionedRows]:
        chunk: list[PositionedRows] = []
        size = 0
        async for batch in self._batches:
            assert isinstance(batch, PositionedBatch | ScatteredBatch)
            if self._shards is not None and batch.shard not in self._shards:
                continue
            chunk.append(batch.stretch())
            size += chunk[-1].raw_bytes
            if size >= self._chunk_bytes:
                break
        return chunk

    async def close(self) -> None:
        self._fetching.cancel()
        await asyncio.wait([self._fetching])
        if not self._fetching.cancelled():
            self._fetching.exception()  # looked at: nobody waits for it any more
        await self._records.close()


class FilesRange(Protocol):
    """A range of the log in files of this machine."""

    position: int
    """Everything below was read."""

    def read(self, bytes_max: int) -> list[PositionedRows]:
        """About so many bytes of records; none at the end. Trouble is an `IthacaError` or an `OSError`."""


class FilesScan(AwaitedScan):
    """Files of servers on this machine as long as they can be read, and what is left from the servers."""

    def __init__(self, start: int, chunk_bytes: int, shards: frozenset[int] | None = None) -> None:
        """`shards`: those that what servers give is confined to, unless `_records` is."""
        self.position = start
        self._shards = shards
        self._chunk_bytes = chunk_bytes
        self._local: FilesRange | None = None
        self._streamed: RangeScan | None = None

    @abstractmethod
    def _records(self) -> Records:
        """What is left of the range, as servers give it."""

    def begin_with(self, files: FilesRange | None) -> None:
        """Where to start."""
        self._local = files
        if files is None:
            self._stream()

    @property
    def is_local(self) -> bool:
        return self._local is not None

    def read_local(self) -> list[PositionedRows]:
        if self._local is None:
            return []
        try:
            chunk = self._local.read(self._chunk_bytes)
        except (IthacaError, OSError) as error:
            _log.info("going on at position %d over the network: %s", self._local.position, error)
            self.position, self._local = self._local.position, None
            return []
        if chunk:
            self.position = int(chunk[-1].positions[-1]) + 1
        return chunk

    async def next(self) -> list[PositionedRows]:
        if self._local is not None:
            return []  # all of it was read from files
        streamed = self._streamed or self._stream()
        chunk = await streamed.next()
        self.position = streamed.position
        return chunk

    def _stream(self) -> RangeScan:
        self._streamed = RangeScan(self._records(), self.position, self._shards, self._chunk_bytes)
        return self._streamed

    async def close(self) -> None:
        if self._streamed is not None:
            await self._streamed.close()
