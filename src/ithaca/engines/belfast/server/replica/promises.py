"""What a replica has promised, and where its copies are placed, as its disk says."""

import asyncio
import errno
from collections.abc import Callable, Mapping

import msgspec

from ithaca.engines.belfast.speculation.places import PlacedRun, Places
from ithaca.engines.scalog.replica.events import Held
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.errors import Fenced, StorageError
from ithaca.model.limits import STORAGE_FULL_RETRY_S
from ithaca.model.positions import LaneId
from ithaca.storage import checked_file
from ithaca.storage.disk import Disk
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import PLACE

NAME = "promises"


class _Promises(msgspec.Struct, frozen=True):
    """What the file says."""

    lanes: tuple[LaneId, ...]


def load_promises(disk: Disk, directory: str) -> tuple[LaneId, ...]:
    """The lanes of which an earlier start has promised to acknowledge nothing more."""
    path = f"{directory}/{NAME}"
    return checked_file.load_value(disk, path, _Promises).lanes if disk.exists(path) else ()


class PromisesFile:
    """Makes promises durable, one after the other."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        promised: Callable[[], tuple[LaneId, ...]],
        fail: Callable[[Exception], None],
    ) -> None:
        """`promised` says all that is to be in the file; `fail` is called if it cannot be written."""
        self._disk = disk
        self._directory = directory
        self._promised = promised
        self._fail = fail
        self._one_at_a_time = asyncio.Lock()
        self._is_closing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def store(self, done: Callable[[], None]) -> None:
        """Write down all that is promised now; `done` is called when it is durable."""
        task = asyncio.get_running_loop().create_task(self._store(done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store(self, done: Callable[[], None]) -> None:
        async with self._one_at_a_time:
            while not await self._is_stored():  # noqa: ASYNC110 - nobody tells when there is space again
                await asyncio.sleep(STORAGE_FULL_RETRY_S)
            if not self._is_closing:
                done()

    async def _is_stored(self) -> bool:
        """Write it; False if there is no space, so that it is to be tried again."""
        body = msgspec.msgpack.encode(_Promises(self._promised()))
        try:
            await asyncio.to_thread(checked_file.replace, self._disk, self._directory, NAME, body)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT) and not self._is_closing:
                return False
            why = f"{self._directory}/{NAME}: {error.strerror or error}"
            self._fail(Fenced(why) if error.errno == errno.EIO else StorageError(why))
            self._is_closing = True
        return True

    async def close(self) -> None:
        """Wait for what is being written."""
        self._is_closing = True
        await asyncio.gather(*self._tasks, return_exceptions=True)


def stored_places(store: LaneStore, held: Mapping[LaneId, Held]) -> dict[LaneId, tuple[PlacedRun, ...]]:
    """Where the batches of each lane are placed behind those whose positions are known."""
    return {lane: _places_of(store, lane, found) for lane, found in held.items() if found.runs_end < found.length}


def _places_of(store: LaneStore, lane: LaneId, found: Held) -> tuple[PlacedRun, ...]:
    stored = store.lanes[lane].lane
    cursor = Cursor(stored, max(found.runs_end, stored.trim_lsn), with_places=True)
    places = Places()
    position = 0
    while cursor.lsn < found.length:
        for entry in cursor.read(found.length):
            if entry.kind == PLACE:
                position = entry.first_seq
            elif position:
                places.add(entry.base_lsn, position, entry.count)
                position = 0
    return places.all()
