"""What waits to be written by a disk's thread, in its order: the part that all who write behind an event loop share.

While there are items a job goes on taking them, and tells the loop once for each write. A full disk holds up
no job: the items stay, and are tried again later. After any other failure nothing more is written.

Between the loop and a job:

1. One job at a time takes items; the loop may take some itself only while the queue `is_idle`.
2. Whoever queues something while a job says that it takes it need not do anything. A job takes that back before
   it tells of its last write, and whoever hears of that looks at the queue again: nothing is forgotten.
3. A job may be asked for although the one before it is about to take the last item: then it finds nothing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ithaca.model.errors import StorageFull
from ithaca.runtime import machine

Item = TypeVar("Item")
Written = TypeVar("Written")


class DiskQueue(Generic[Item, Written]):
    """A queue and the thread that writes it. Every method is for the thread of the loop."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        write: Callable[[deque[Item]], Written],
        written: Callable[[Written], None],
        full: Callable[[StorageFull], None],
        failed: Callable[[Exception], None],
        retry_s: float,
    ) -> None:
        """`write`, in the thread, takes some items; after `StorageFull` they are back. The others are for the loop."""
        self.items: deque[Item] = deque()
        self._loop = loop
        self._write = write
        self._written = written
        self._full = full
        self._failed = failed
        self._retry_s = retry_s
        self._retry: asyncio.TimerHandle | None = None
        self._thread = machine.current().disk_thread(name, loop)
        self._jobs_unheard = 0
        """Jobs that the thread was given and the loop has not heard the end of."""
        self._has_taker = False
        """Whether what is queued now will be taken: by a job, or once there is space."""
        self._is_stuck = False
        """Set by a job that found the disk full, or failed: nothing is to be written behind it."""
        self._is_closing = False

    @property
    def is_idle(self) -> bool:
        """Whether the loop may write: no job does, and of all that did it has heard."""
        return not self._has_taker and self._jobs_unheard == 0

    def hand_over(self) -> None:
        """Have the thread write what is queued, unless it will do so anyway."""
        if not self._has_taker and not self._is_closing:
            self._has_taker = True
            self._submit()

    async def close(self, last: Callable[[], None] | None = None) -> None:
        """Write what is queued, as far as there is space for it, then do what is to be done last. Idempotent."""
        if not self._is_closing:
            self._is_closing = True
            if self._retry is not None:
                self._retry.cancel()
            if self.items or last is not None:
                self._thread.submit(lambda: self._finish(last))
        await self._thread.close()

    def _submit(self) -> None:
        self._jobs_unheard += 1
        self._thread.submit(self._work)

    def _heard(self, written: Written, is_last: bool) -> None:
        if is_last:
            self._jobs_unheard -= 1
        if self.items:
            self.hand_over()
        self._written(written)

    def _found_nothing(self) -> None:
        self._jobs_unheard -= 1
        if self.items:
            self.hand_over()

    def _wait_for_space(self, error: StorageFull) -> None:
        self._jobs_unheard -= 1
        if not self._is_closing:
            self._retry = self._loop.call_later(self._retry_s, self._try_again)
        self._full(error)

    def _try_again(self) -> None:
        self._retry = None
        self._is_stuck = False
        self._submit()

    # The jobs.

    def _work(self) -> None:
        if not self.items:  # the job before took them, between the loop's look at the queue and its asking for this job
            self._has_taker = False
            self._thread.tell(self._found_nothing)
            return
        is_last = False
        while not is_last:
            try:
                written = self._write(self.items)
            except Exception as error:
                self._is_stuck = True
                self._thread.tell(self._wait_for_space if isinstance(error, StorageFull) else self._failed, error)
                return
            is_last = not self.items
            if is_last:
                self._has_taker = False
            self._thread.tell(self._heard, written, is_last)

    def _finish(self, last: Callable[[], None] | None) -> None:
        if self.items and not self._is_stuck:
            self._work()
        if last is not None:
            last()
