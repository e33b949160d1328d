"""A range of the log from the files of replicas on this machine: no record passes through a socket.

Only a replica knows what is ordered, so each shard is asked where its records of the range lie
(`engines.scalog.messages.places`). The files are those of a running replica: what is ordered does not change any more,
and what was trimmed, repaired or moved meanwhile does not check out. Whoever reads then goes on over the network, where
it is said what happened.
"""

import logging
from collections import deque
from collections.abc import Iterable
from heapq import merge
from itertools import repeat
from operator import itemgetter

from ithaca.client.deadline import Deadline
from ithaca.client.lane_files import LaneFiles
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.messages.places import LocateRecords, RecordLocations
from ithaca.engines.scalog.storage.packs import PackedLanes
from ithaca.engines.scalog.storage.shard_reader import LaneRange
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, READ_LANE_BYTES_MIN
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.runtime.machine import machine_name, place_of
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.wire.batch import DATA, Batch
from ithaca.wire.positioned import PositionedBatch, PositionedRows

_log = logging.getLogger("ithaca.local")


class _Finder:
    """Where the lanes are in the directories of their shards."""

    def __init__(self, directories: dict[int, str]) -> None:
        self._directories = directories
        self._packed: dict[int, PackedLanes] = {}

    def reader(self, lane: LaneId, length: int) -> LaneReader:
        """A lane in a directory of its own, or in a pack; whoever reads one that is nowhere is told so."""
        directory = self._directories[lane.shard]
        files = LaneFiles(f"{directory}/{lane}", lane, length)
        if files.first_lsns:
            return files
        if lane.shard not in self._packed:
            self._packed[lane.shard] = PackedLanes(files.disk, directory)
        return self._packed[lane.shard].open(lane) or files


class _Lane:
    """What is left of the range in one lane."""

    def __init__(self, reader: LaneReader, lsn: int, stop: int) -> None:
        self._cursor = Cursor(reader, lsn)
        self._stop = stop
        self._batches: deque[Batch] = deque()

    def batch_at(self, lsn: int, bytes_max: int) -> Batch:
        """The batch that holds the LSN, which never falls; about so many bytes are read with it."""
        while self._batches and self._batches[0].end_lsn <= lsn:
            self._batches.popleft()
        if not self._batches:
            self._batches.extend(self._cursor.read(self._stop, bytes_max=bytes_max))
        found = self._batches[0]
        if not found.base_lsn <= lsn < found.end_lsn:
            raise Corrupt(f"LSN {lsn} is not where it should be")
        return found


class LocalRange:
    """Positions `[position, stop)`, read in order. Not for sharing between threads."""

    def __init__(self, position: int, stop: int, ranges: Iterable[LaneRange], directories: dict[int, str]) -> None:
        self.position = position
        """Everything below was read."""
        self._stop = stop
        self._ranges = deque(ranges)
        self._find = _Finder(directories)
        self._stops = {range_.lane: range_.lsn + range_.count for range_ in self._ranges}
        """Where each lane ends in the range."""
        self._lanes: dict[LaneId, _Lane] = {}
        """Those that are being read: from their first record in the range to the last."""

    def read(self, bytes_max: int) -> list[PositionedRows]:
        """About so many bytes of records; none at the end. What precedes trouble is returned, and the next call raises.

        Trouble is an `IthacaError` or an `OSError`.
        """
        found: list[PositionedRows] = []
        size = 0
        try:
            while self._ranges and size < bytes_max:
                stretch = self._next(bytes_max)
                if stretch is not None:
                    found.append(stretch)
                    size += stretch.raw_bytes
        except (IthacaError, OSError):
            if not found:
                raise
        return found

    def _next(self, bytes_max: int) -> PositionedRows | None:
        """The next records, as far as they are in one batch; None of those that are gone for good."""
        lane, lsn, position, count, _ = self._ranges[0]
        if lane not in self._lanes:
            self._lanes[lane] = _Lane(self._find.reader(lane, self._stops[lane]), lsn, self._stops[lane])
        batch = self._lanes[lane].batch_at(lsn, max(READ_LANE_BYTES_MIN, bytes_max // len(self._stops)))
        low = lsn - batch.base_lsn
        high = min(batch.count, low + count)
        taken = high - low
        if lsn + taken == self._stops[lane]:
            del self._lanes[lane]
        if taken < count:
            self._ranges[0] = self._ranges[0].since(lsn + taken)
        else:
            self._ranges.popleft()
        self.position = position + taken if self._ranges else self._stop
        if batch.kind != DATA:
            return None
        return PositionedBatch(batch, position - low, lane.shard, low, high).stretch()


async def local_range(context: Context, start: int, stop: int, shards: frozenset[int] | None) -> LocalRange | None:
    """The range in the files of this machine; None unless each shard has a replica here that can be read."""
    machine = machine_name()
    if not machine:
        return None
    deadline = Deadline(ATTEMPT_TIMEOUT_S)
    directories: dict[int, str] = {}
    found: list[list[LaneRange]] = []
    try:
        view = await context.order.fresh_view(deadline)
        if shards is not None and not shards <= {each.shard for each in view.shards}:
            return None  # all that one of them had was trimmed: over the network it is said if that was of the range
        for each in view.shards:
            if shards is None or each.shard in shards:
                asked = await _ranges_of(context, each.shard, LocateRecords(machine, start, stop), deadline)
                if asked is None:
                    return None
                directories[each.shard], ranges = asked
                found.append(ranges)
        ranges = list(merge(*found, key=itemgetter(2)))
        if shards is None and not await _are_all(context, ranges, start, stop, deadline):
            return None
        return LocalRange(start, stop, ranges, directories)
    except (IthacaError, OSError) as error:
        _log.debug("positions %d to %d are read over the network: %s", start, stop, error)
        return None


async def _ranges_of(
    context: Context, shard: int, question: LocateRecords, deadline: Deadline
) -> tuple[str, list[LaneRange]] | None:
    """The directory of one replica, and where the shard's records lie in it."""
    for address in context.replicas.places(shard):
        try:
            return await _asked(context, address, question, deadline)
        except (IthacaError, OSError) as error:
            _log.debug("the files of %s cannot be read from here: %s", address, error)
    return None


async def _asked(
    context: Context, address: Address, question: LocateRecords, deadline: Deadline
) -> tuple[str, list[LaneRange]]:
    link = await context.replicas.link(address)
    ranges: list[LaneRange] = []
    start = question.start
    while True:
        answer = (await link.request(LocateRecords(question.machine, start, question.stop), deadline.left_s)).message
        if not isinstance(answer, RecordLocations) or not start < answer.up_to:
            raise ProtocolError(f"{address} answered LocateRecords with {type(answer).__name__}, and nothing new")
        if place_of(answer.directory) != (answer.directory, answer.device, answer.inode):
            raise ProtocolError(f"{answer.directory} is another directory here than at {address}")
        follows = answer.follows or repeat(0)
        ranges += [LaneRange(*stretch, after) for stretch, after in zip(answer.stretches, follows, strict=False)]
        start = answer.up_to
        if start >= question.stop:
            return answer.directory, ranges


async def _are_all(context: Context, ranges: list[LaneRange], start: int, stop: int, deadline: Deadline) -> bool:
    """Whether these are all records of the range: a shard of which all was trimmed is not asked any more."""
    at = start
    for range_ in ranges:
        if (range_.follows or range_.position) > at:
            return False
        at = range_.position + range_.count
    # Nothing tells that no record follows the last one but that every shard that is left has said so.
    return at == stop or (await context.order.tail(deadline)).first <= start
