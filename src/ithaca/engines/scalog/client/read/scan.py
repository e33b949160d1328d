"""A range of the log in chunks of batches, for programs that read a lot of it: the next chunk comes while one is used.

A scan goes straight to the replicas, like every range, and where their files are on this machine, to those; it may
leave shards aside.
"""

import logging

from ithaca.client.scan import AwaitedScan, RangeScan
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.read.local import LocalRange, local_range
from ithaca.engines.scalog.client.read.records import AsyncClusterRecords
from ithaca.model.errors import IthacaError
from ithaca.model.records import KeyFilter
from ithaca.wire.positioned import PositionedRows

_log = logging.getLogger("ithaca.scan")


class AsyncScan(AwaitedScan):
    """The records of `[start, stop)`, all of which are ordered; of these shards alone if some are named."""

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
        self._context = context
        self._range = (stop, where, shards)
        self._chunk_bytes = chunk_bytes
        self._local: LocalRange | None = None
        self._streamed: RangeScan | None = None

    async def begin(self, *, local: bool = True) -> None:
        """`local`: whether the files of replicas are read where they are on this machine and no filter is given."""
        stop, where, shards = self._range
        if local and where is None and self.position < stop:
            self._local = await local_range(self._context, self.position, stop, shards)
        if self._local is None:
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
        stop, where, shards = self._range
        records = AsyncClusterRecords(self._context, self.position, stop, where, shards)
        self._streamed = RangeScan(records, self.position, None, self._chunk_bytes)
        return self._streamed

    async def close(self) -> None:
        if self._streamed is not None:
            await self._streamed.close()
