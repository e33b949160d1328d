"""How one Raft server's persists get to the disk: in the loop while that is quick, else in a thread.

What else its store has to do takes its turn between them, in the thread (`Job`).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ithaca.model.errors import StorageFull
from ithaca.raft.events import Persist
from ithaca.raft.limits import RAFT_FULL_RETRY_S
from ithaca.runtime.disk_queue import DiskQueue
from ithaca.runtime.inline_writes import InlineWrites
from ithaca.runtime.machine import monotonic_s
from ithaca.runtime.raft.ports import RaftStore


class Job(NamedTuple):
    """Something for the disk's thread to do, and who is told in the loop that it is done."""

    work: Callable[[], None]
    """`StorageFull` when nothing was done: then it is repeated."""
    done: Callable[[], None]


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
        self._queue: DiskQueue[Persist | Job, tuple[Job | None, float]] | None = None

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
            self._written((None, seconds))

    def submit(self, job: Job) -> None:
        """Have a job done behind all that was written so far."""
        queue = self._queue
        assert queue is not None, "jobs are done once the disk was started"
        queue.items.append(job)
        queue.hand_over()

    async def stop(self) -> None:
        """Finish what was handed over, as far as there is space for it. Idempotent."""
        if self._queue is not None:
            await self._queue.close()

    def _written(self, written: tuple[Job | None, float]) -> None:
        job, seconds = written
        if job is not None:
            job.done()
            return
        self._inline.took(seconds)
        self._on_persisted(seconds)

    def _write_first(self, items: deque[Persist | Job]) -> tuple[Job | None, float]:
        first, seconds = items[0], 0.0
        job = first if isinstance(first, Job) else None
        if isinstance(first, Job):
            first.work()
        else:
            seconds = self._persist(first)
        items.popleft()
        return job, seconds

    def _persist(self, effect: Persist) -> float:
        started_s = monotonic_s()
        self._store.persist(effect)
        return monotonic_s() - started_s
