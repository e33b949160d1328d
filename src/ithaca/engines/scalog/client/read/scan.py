"""A range of the log in chunks of batches, for programs that read a lot of it: the next chunk comes while one is used.

A scan goes straight to the replicas, like every range, and where their files are on this machine, to those; it may
leave shards aside.
"""

from ithaca.client.scan import FilesScan
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.read.local import local_range
from ithaca.engines.scalog.client.read.records import AsyncClusterRecords
from ithaca.model.interface.awaited import Records
from ithaca.model.records import KeyFilter


class AsyncScan(FilesScan):
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
        super().__init__(start, chunk_bytes)
        self._context = context
        self._range = (stop, where, shards)

    async def begin(self, *, local: bool = True) -> None:
        """`local`: whether the files of replicas are read where they are on this machine and no filter is given."""
        stop, where, shards = self._range
        is_local = local and where is None and self.position < stop
        self.begin_with(await local_range(self._context, self.position, stop, shards) if is_local else None)

    def _records(self) -> Records:
        stop, where, shards = self._range
        return AsyncClusterRecords(self._context, self.position, stop, where, shards)
