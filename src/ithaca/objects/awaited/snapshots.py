"""Where snapshots are kept: in a directory, or in the log itself."""

from abc import ABC, abstractmethod
from pathlib import Path

from ithaca.model.interface.awaited.log import Log
from ithaca.model.records import KeyFilter
from ithaca.objects.awaited.waiting import in_thread
from ithaca.objects.entries import Mark
from ithaca.objects.limits import OBJECT_SNAPSHOT_SEARCH
from ithaca.objects.names import chunk_key, mark_key
from ithaca.objects.shared.marks import ChunkedSnapshot, chunk_of, from_chunks, newer_mark
from ithaca.objects.snapshot import Snapshot
from ithaca.objects.snapshot_directory import newest_in, save_in


class Snapshots(ABC):
    """Keeps the snapshots of one object."""

    @abstractmethod
    async def newest(self, position_max: int | None = None) -> Snapshot | None:
        """The newest one, of those that stand no later than this; `Corrupt` when it is damaged."""

    @abstractmethod
    async def save(self, snapshot: Snapshot) -> None:
        """Keep one; it is durable when this returns."""


class DirectorySnapshots(Snapshots):
    """Files in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def newest(self, position_max: int | None = None) -> Snapshot | None:
        return await in_thread(lambda: newest_in(self._directory, position_max))

    async def save(self, snapshot: Snapshot) -> None:
        await in_thread(lambda: save_in(self._directory, snapshot))


class LogSnapshots(Snapshots):
    """Chunks in the log, under a key that nobody follows, and a mark that says where they are."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._marks = mark_key(name)
        self._chunks = chunk_key(name)

    async def newest(self, position_max: int | None = None) -> Snapshot | None:
        mark = await self._newest_mark(position_max)
        return None if mark is None else await self._load(mark)

    async def save(self, snapshot: Snapshot) -> None:
        chunked, first, last = ChunkedSnapshot(snapshot), 0, 0
        for together in chunked.groups:
            receipt = await self._log.append_many(together, keys=[self._chunks] * len(together))
            first, last = first or receipt.position, receipt.positions[-1]
        await self._log.append(chunked.mark(first, last), key=self._marks)

    async def _newest_mark(self, position_max: int | None) -> Mark | None:
        """Looked for backwards from the tail, in stretches that grow: it costs as much as lies behind the snapshot."""
        first, stop = await self._log.first(), await self._log.tail()
        span = OBJECT_SNAPSHOT_SEARCH
        while stop > first:
            start = max(first, stop - span)
            found: Mark | None = None
            async with self._log.read_range(start, stop, where=KeyFilter.equals(self._marks)) as records:
                async for record in records:
                    found = newer_mark(found, record, position_max)
            if found is not None:
                return found if found.first >= first else None
            stop, span = start, 4 * span
        return None

    async def _load(self, mark: Mark) -> Snapshot:
        data = bytearray()
        async with self._log.read_range(mark.first, mark.last + 1, where=KeyFilter.equals(self._chunks)) as records:
            async for record in records:
                data += chunk_of(mark, record)
        return from_chunks(mark, bytes(data))
