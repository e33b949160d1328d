"""A thread for what would hold up an event loop: it runs jobs in their order, and tells the loop what came of them.

The thread sleeps on an event descriptor, and is woken only when it does. Waking through one takes a quarter of
the time of the primitives of `threading`: the write lets go of the interpreter's lock, so that the thread need
not wait for it a second time.
"""

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

_log = logging.getLogger("ithaca")


class OsDiskThread:
    """One daemon thread, started with the first job. `tell` is for the jobs, the rest for the loop's thread."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._name = name
        self._loop = loop
        self._jobs: deque[Callable[[], None]] = deque()
        self._sleeping = False
        self._wake_fd = -1
        self._thread: threading.Thread | None = None
        self._is_last_job_done = False
        self._ended: asyncio.Future[None] | None = None

    def submit(self, job: Callable[[], None]) -> None:
        """Have a job run behind those submitted before. An exception out of it is a bug: the loop's handler gets it."""
        assert self._ended is None, f"thread {self._name} was closed"
        self._put(job)

    def tell(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have the loop call this."""
        with suppress(RuntimeError):  # the loop was closed: there is nobody left to tell
            self._loop.call_soon_threadsafe(callback, *arguments)

    async def close(self) -> None:
        """End the thread behind the jobs submitted so far, which have told all they tell. Idempotent."""
        if self._ended is None:
            self._ended = self._loop.create_future()
            if self._thread is None:
                self._ended.set_result(None)
            else:
                self._put(self._finish)
        await asyncio.shield(self._ended)

    def _put(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if self._sleeping:
            self._sleeping = False
            os.eventfd_write(self._wake_fd, 1)
        elif self._thread is None:
            self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def _end(self) -> None:
        """In the loop: the thread has said its last word."""
        assert self._thread is not None
        assert self._ended is not None
        self._thread.join()
        os.close(self._wake_fd)
        self._ended.set_result(None)

    # The thread.

    def _run(self) -> None:
        while not self._is_last_job_done:
            job = self._next()
            try:
                job()
            except Exception as failure:
                message = f"a job of thread {self._name} failed"
                _log.error(message, exc_info=failure)
                self.tell(self._loop.call_exception_handler, {"message": message, "exception": failure})

    def _next(self) -> Callable[[], None]:
        """Sleep until there is a job."""
        while not self._jobs:
            self._sleeping = True
            # Looked at once more, now that whoever submits one wakes: an early wake-up does no harm.
            if not self._jobs:
                os.eventfd_read(self._wake_fd)
            self._sleeping = False
        return self._jobs.popleft()

    def _finish(self) -> None:
        self._is_last_job_done = True
        self.tell(self._end)
