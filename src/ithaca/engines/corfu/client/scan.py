"""A range of the log in chunks, from the files of units on this machine as far as they have it, else by requests."""

import logging
from collections.abc import AsyncIterator

from ithaca.client.fetched import FetchingLog
from ithaca.client.scan import AwaitedScan, FilesScan
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.local_rows import LocalRows
from ithaca.engines.corfu.sequencing.flows.locating import located
from ithaca.engines.corfu.sequencing.rows import row_of
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import Records
from ithaca.model.records import KeyFilter
from ithaca.runtime.machine import machine_name, place_of
from ithaca.wire.positioned import PositionedBatch

_log = logging.getLogger("ithaca.scan")


class CorfuScan(FilesScan):
    """The records of `[start, stop)`, all of which lie below the tail; of these shards alone if some are named."""

    def __init__(
        self,
        log: FetchingLog,
        driver: Driver,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
    ) -> None:
        super().__init__(start, chunk_bytes, shards)
        self._log = log
        self._driver = driver
        self._stop = stop
        self._where = where

    async def begin(self, *, local: bool) -> None:
        """`local`: whether the files of units are read where they are on this machine."""
        self.begin_with(await self._found() if local and self.position < self._stop else None)

    def _records(self) -> Records:
        return self._log.read_range(self.position, self._stop, where=self._where)

    async def _found(self) -> LocalRows | None:
        """The range in files, as far as it goes; None if it does not even begin there, or was trimmed."""
        machine = machine_name()
        if not machine:
            return None
        knowledge, row = self._driver.knowledge, row_of(self.position)
        try:
            found = await self._driver.run(located(knowledge, row, row_of(self._stop - 1) + 1, machine))
            if found.up_to <= row or self.position < knowledge.first:
                return None
            for _, lane in found.lanes:
                if place_of(lane.place[0]) != lane.place:
                    _log.debug("%s is another directory here than at its unit", lane.place[0])
                    return None
            return LocalRows(found, self.position, self._stop, self._where, self._shards)
        except (IthacaError, OSError) as error:
            _log.debug("rows cannot be read from files: %s", error)
            return None


async def batches_of(scan: AwaitedScan) -> AsyncIterator[PositionedBatch]:
    """The pieces of a scan that has no filter, one after the other."""
    while chunk := scan.read_local() or await scan.next():
        for batch, low, high, positions, shard in chunk:
            yield PositionedBatch(batch, int(positions[0]) - low, shard, low, high)
