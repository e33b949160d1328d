"""The only writer of a lane under an event loop: what was queued during a sync goes into the next (design §5, §9).

The event loop queues batches that have their places already; a thread writes and syncs them in groups and
tells the loop once per group. A full disk keeps the group, and everything behind it, until there is space
again. Any other failure ends the writing for good: what was synced before is safe, and nothing comes after it.

The thread sleeps on an event descriptor, and is woken only when it does. Waking through one takes a quarter
of the time of the primitives of `threading`: the write lets go of the interpreter's lock, so that the thread
need not wait for it a second time. While the disk is quick, a small group is written by the loop itself, at the
end of its turn (`patient_disk`).
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ithaca.model.errors import IthacaError, StorageError, StorageFull
from ithaca.model.limits import GROUP_BYTES_MAX, INLINE_GROUP_BYTES_MAX, STORAGE_FULL_RETRY_S
from ithaca.runtime.patient_disk import Patience
from ithaca.storage.lane import Lane
from ithaca.storage.state import TrimmedTo, control_entry
from ithaca.wire.batch import Batch

_log = logging.getLogger("ithaca")


class LaneWriter:
    """The only writer of a lane. Every method is for the thread of the loop, and callbacks come there."""

    def __init__(
        self,
        lane: Lane,
        *,
        loop: asyncio.AbstractEventLoop,
        on_synced: Callable[[int], None],
        on_full: Callable[[bool], None],
        on_failed: Callable[[IthacaError], None],
        on_group: Callable[[float, int, int], None] | None = None,
    ) -> None:
        """`on_synced` gets the lane's length; `on_group`, in either thread, a group's seconds, batches, bytes."""
        self.lane = lane
        self.queued_bytes = 0
        """Accepted and not yet known to be synced."""
        self._loop = loop
        self._on_synced = on_synced
        self._on_full = on_full
        self._on_failed = on_failed
        self._on_group = on_group
        self._next_lsn = lane.length
        self._failed = False
        self._queue: deque[Batch] = deque()
        self._sleeping = False
        self._turn_planned = False
        self._writing = threading.Lock()
        """Held by whoever takes from the queue and writes."""
        self._patience = Patience()
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._closing = threading.Event()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._thread: threading.Thread | None = None

    def write(self, batch: Batch) -> None:
        """Queue a batch that has the lane's next place."""
        assert batch.base_lsn == self._next_lsn, f"{batch.base_lsn} is not the place behind {self._next_lsn}"
        self._next_lsn = batch.end_lsn
        self._put(batch)

    def trim(self, before_lsn: int) -> None:
        """Let go of the records below an LSN, durably, behind what is queued."""
        self._put(control_entry(TrimmedTo(before_lsn)))

    def _put(self, batch: Batch) -> None:
        assert not self._closing.is_set(), "the lane's writer was closed"
        if self._failed:
            return
        self.queued_bytes += batch.total_bytes
        self._queue.append(batch)
        if self.queued_bytes > INLINE_GROUP_BYTES_MAX or not self._patience.waits:
            self._rouse()
        elif not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _rouse(self) -> None:
        """Have the thread write what is queued."""
        if self._sleeping:
            self._wake()
        elif self._thread is None and not self._closing.is_set():
            self._start()

    def _turn(self) -> None:
        """At the end of the loop's turn: write what has come together, or have it written."""
        self._turn_planned = False
        if not self._queue or self._failed:
            return
        if self.queued_bytes > INLINE_GROUP_BYTES_MAX or not self._writing.acquire(blocking=False):
            self._rouse()
            return
        group: list[Batch] = []
        try:
            group = self._take()
            started = time.perf_counter()
            self._commit(group)
            self._patience.took(time.perf_counter() - started)
        except StorageFull:
            self._queue.extendleft(reversed(group))
            group = []
        except Exception as failure:
            self._fail(self._typed(failure))
            return
        finally:
            self._writing.release()
        if group:
            written_bytes = sum(batch.total_bytes for batch in group)
            self._synced(self.lane.length, written_bytes)
            self._observe(started, group, written_bytes)
        if self._queue:
            self._rouse()

    async def close(self) -> None:
        """Write what is queued, as far as there is space for it, end the thread, close the lane. Idempotent."""
        if not self._closing.is_set():
            self._closing.set()
            if self._thread is None:
                self._start()
            self._wake()
        await asyncio.shield(self._ended)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"ithaca-lane-{self.lane.lane}", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        self._sleeping = False
        os.eventfd_write(self._wake_fd, 1)

    # In the loop, told by the thread.

    def _synced(self, length: int, written_bytes: int) -> None:
        self.queued_bytes -= written_bytes
        self._on_synced(length)

    def _fail(self, error: IthacaError) -> None:
        self._failed = True
        self._queue.clear()
        self._on_failed(error)

    def _end(self, error: IthacaError | None) -> None:
        assert self._thread is not None
        self._thread.join()  # this was its last word
        os.close(self._wake_fd)
        if error is None or self._failed:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)

    # The thread.

    def _run(self) -> None:
        error: IthacaError | None = None
        try:
            while self._wait():
                with self._writing:
                    if self._queue and not self._write(self._take()):
                        break
        except Exception as failure:
            self._tell(self._fail, self._typed(failure))
            self._closing.wait()
        try:
            self.lane.close()
        except Exception as failure:
            error = self._typed(failure)
        self._tell(self._end, error)

    def _wait(self) -> bool:
        """Sleep until something is queued; False when nothing is, and nothing will be."""
        while not self._queue:
            if self._closing.is_set():
                return False
            self._sleeping = True
            # Looked at once more, now that whoever queues something wakes: an early wake-up does no harm.
            if not self._queue and not self._closing.is_set():
                os.eventfd_read(self._wake_fd)
            self._sleeping = False
        return True

    def _take(self) -> list[Batch]:
        """What is written together."""
        queue = self._queue
        group = [queue.popleft()]
        size = group[0].total_bytes
        while queue:
            size += queue[0].total_bytes
            if size > GROUP_BYTES_MAX:
                break
            group.append(queue.popleft())
        return group

    def _write(self, group: list[Batch]) -> bool:
        """Write and sync a group; False when the disk is full and nobody waits for space any more."""
        started = time.perf_counter()
        is_full = False
        while True:
            try:
                self._commit(group)
                break
            except StorageFull:
                if not is_full:
                    is_full = True
                    self._tell(self._on_full, True)
                if self._closing.wait(STORAGE_FULL_RETRY_S):
                    return False
        if is_full:
            self._tell(self._on_full, False)
        written_bytes = sum(batch.total_bytes for batch in group)
        self._tell(self._synced, self.lane.length, written_bytes)
        self._patience.took(time.perf_counter() - started)
        self._observe(started, group, written_bytes)
        return True

    def _observe(self, started: float, group: list[Batch], written_bytes: int) -> None:
        if self._on_group is not None:
            self._on_group(time.perf_counter() - started, len(group), written_bytes)

    def _commit(self, group: list[Batch]) -> None:
        places = [batch.base_lsn for batch in group if batch.count]
        prepared = self.lane.prepare(group)
        assert places == [batch.base_lsn for batch in prepared.entries if batch.count]
        self.lane.commit(prepared)
        if len(places) < len(group):
            self.lane.drop_trimmed()

    def _typed(self, failure: Exception) -> IthacaError:
        if isinstance(failure, IthacaError):
            return failure
        _log.error("writing lane %s failed", self.lane.lane, exc_info=failure)
        return StorageError(f"writing lane {self.lane.lane} failed: {failure!r}")

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: there is nobody left to tell
            self._loop.call_soon_threadsafe(callback, *arguments)
