"""A range of the log in chunks, from the files of a server on this machine where there is one, else from any server.

Below what is agreed on the lane of a server never changes, but for what is trimmed: then whoever reads files goes on
over the network, where it is said what happened.
"""

import logging
from typing import TYPE_CHECKING

from ithaca.client.lane_files import LaneFiles
from ithaca.client.scan import FilesScan
from ithaca.engines.raft.client.producer import SHARD
from ithaca.engines.raft.client.records import RaftRecords
from ithaca.engines.raft.messages import LaneLocation, LocateLane
from ithaca.engines.raft.name import LANE
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError
from ithaca.model.interface.awaited import Records
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import KeyFilter
from ithaca.model.view import Address
from ithaca.runtime.machine import machine_name, place_of
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import DATA
from ithaca.wire.positioned import PositionedBatch, PositionedRows

if TYPE_CHECKING:
    from ithaca.engines.raft.client.log import RaftLog

_log = logging.getLogger("ithaca.scan")


class LocalLane:
    """Positions `[position, stop)` in the files of a server. It is a `client.scan.FilesRange`."""

    def __init__(self, directory: str, position: int, stop: int) -> None:
        self.position = position
        self._stop = stop
        self._cursor = Cursor(LaneFiles(directory, LANE, lsn_of(stop)), lsn_of(position))

    def read(self, bytes_max: int) -> list[PositionedRows]:
        if self.position >= self._stop:
            return []
        found: list[PositionedRows] = []
        for batch in self._cursor.read(lsn_of(self._stop), bytes_max=bytes_max):
            first = position_of(batch.base_lsn)
            low, high = max(0, self.position - first), min(batch.count, self._stop - first)
            if batch.kind != DATA or first > self.position or low >= high:
                if found:
                    break  # the next call says it
                raise Corrupt(f"position {self.position} is not where it should be")
            found.append(PositionedBatch(batch, first, SHARD, low, high).stretch())
            self.position = first + high
        return found


class RaftScan(FilesScan):
    """The records of `[start, stop)`, all of which are agreed on."""

    def __init__(self, log: "RaftLog", start: int, stop: int, where: KeyFilter | None, chunk_bytes: int) -> None:
        super().__init__(start, chunk_bytes)
        self._log = log
        self._stop = stop
        self._where = where

    async def begin(self, *, local: bool) -> None:
        """`local`: whether a server's files are read where they are on this machine and no filter is given."""
        is_local = local and self._where is None and self.position < self._stop
        self.begin_with(await self._found() if is_local else None)

    def _records(self) -> Records:
        return RaftRecords(self._log, self.position, self._stop, self._where)

    async def _found(self) -> LocalLane | None:
        machine = machine_name()
        for address in self._log.servers.members if machine else ():
            try:
                directory = await self._asked(address, LocateLane(machine, self.position, self._stop))
                return LocalLane(directory, self.position, self._stop)
            except (IthacaError, OSError) as error:
                _log.debug("the files of %s cannot be read from here: %s", address, error)
        return None

    async def _asked(self, address: Address, question: LocateLane) -> str:
        link = await self._log.servers.links.link(address, ATTEMPT_TIMEOUT_S)
        answer = (await link.request(question, timeout_s=ATTEMPT_TIMEOUT_S)).message
        if not isinstance(answer, LaneLocation):
            raise ProtocolError(f"{address} answered LocateLane with {type(answer).__name__}")
        if place_of(answer.directory) != (answer.directory, answer.device, answer.inode):
            raise ProtocolError(f"{answer.directory} is another directory here than at {address}")
        return answer.directory
