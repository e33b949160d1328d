"""How one Raft server's persists get to the disk: in the loop while that is quick, else in a thread."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from ithaca.model.errors import StorageFull
from ithaca.model.limits import RAFT_FULL_RETRY_S
from ithaca.raft.events import Persist
from ithaca.runtime.patient_disk import Patience
from ithaca.storage.raftlog import RaftLog


class RaftDisk:
    """Writes persists in their order, and says of each how many seconds it took."""

    def __init__(
        self,
        log: RaftLog,
        persisted: Callable[[float], None],
        full: Callable[[StorageFull], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._log = log
        self._on_persisted = persisted
        self._on_full = full
        self._on_failed = failed
        self._patience = Patience()
        self._handed_over = 0
        """Persists that the thread has not reported yet."""
        self._queue: queue.SimpleQueue[Persist | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="ithaca-raft-disk", daemon=True)
        self._thread.start()

    def write(self, effect: Persist) -> None:
        """Write a persist; `persisted` is called from within, or later from the loop."""
        if self._handed_over or effect.snapshot is not None or not self._patience.waits:
            self._hand_over(effect)
            return
        started_s = time.perf_counter()
        try:
            self._log.persist(effect)
        except StorageFull as error:
            self._on_full(error)
            self._hand_over(effect)
        except Exception as error:
            self._on_failed(error)
        else:
            seconds = time.perf_counter() - started_s
            self._patience.took(seconds)
            self._on_persisted(seconds)

    def _hand_over(self, effect: Persist) -> None:
        self._handed_over += 1
        self._queue.put(effect)

    def _taken_back(self, seconds: float) -> None:
        self._handed_over -= 1
        self._patience.took(seconds)
        self._on_persisted(seconds)

    async def stop(self) -> None:
        if self._thread is None:
            return
        self._stopping.set()
        self._queue.put(None)
        await asyncio.shield(self._ended)
        self._thread.join()

    def _run(self) -> None:
        try:
            while (effect := self._queue.get()) is not None:
                started_s = time.perf_counter()
                if not self._write(effect):
                    return
                self._report(self._taken_back, time.perf_counter() - started_s)
        except Exception as error:
            self._report(self._on_failed, error)
        finally:
            self._report(self._end)

    def _write(self, effect: Persist) -> bool:
        while True:
            try:
                self._log.persist(effect)
                return True
            except StorageFull as error:
                self._report(self._on_full, error)
                if self._stopping.wait(RAFT_FULL_RETRY_S):
                    return False

    def _report(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody is left to be told
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
