"""How one Raft server's persists get to the disk: in the loop while that is quick, else in a thread."""

import asyncio
from collections import deque
from collections.abc import Callable

from ithaca.model.errors import StorageFull
from ithaca.model.limits import RAFT_FULL_RETRY_S
from ithaca.raft.events import Persist
from ithaca.runtime.disk_queue import DiskQueue
from ithaca.runtime.inline_writes import InlineWrites
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.raft.ports import RaftStore


class RaftDisk:
    """Writes persists in their order, and says of each how many seconds it took."""

    def __init__(
        self,
        store: RaftStore,
        persisted: Callable[[float], None],
        full: Callable[[StorageFull], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._store = store
        self._on_persisted = persisted
        self._on_full = full
        self._on_failed = failed
        self._inline = InlineWrites()
        self._queue: DiskQueue[Persist, float] | None = None

    def start(self) -> None:
        self._queue = DiskQueue(
            "ithaca-raft-disk",
            asyncio.get_running_loop(),
            write=self._write_first,
            written=self._written,
            full=self._on_full,
            failed=self._on_failed,
            retry_s=RAFT_FULL_RETRY_S,
        )

    def write(self, effect: Persist) -> None:
        """Write a persist; `persisted` is called from within, or later from the loop."""
        queue = self._queue
        assert queue is not None, "persists are written once the disk was started"
        if effect.snapshot is not None or not self._inline.are_quick or not queue.is_idle:
            queue.items.append(effect)
            queue.hand_over()
            return
        try:
            seconds = self._persist(effect)
        except StorageFull as error:
            self._on_full(error)
            queue.items.append(effect)
            queue.hand_over()
        except Exception as error:
            self._on_failed(error)
        else:
            self._written(seconds)

    async def stop(self) -> None:
        """Finish what was handed over, as far as there is space for it. Idempotent."""
        if self._queue is not None:
            await self._queue.close()

    def _written(self, seconds: float) -> None:
        self._inline.took(seconds)
        self._on_persisted(seconds)

    def _write_first(self, persists: deque[Persist]) -> float:
        seconds = self._persist(persists[0])
        persists.popleft()
        return seconds

    def _persist(self, effect: Persist) -> float:
        started_s = monotonic_s()
        self._store.persist(effect)
        return monotonic_s() - started_s
