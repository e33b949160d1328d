"""The only writer of a lane under an event loop: what was queued during a sync goes into the next (design §5, §9).

The event loop queues batches that have their places already; a thread writes and syncs them in groups and
tells the loop once per group (`disk_queue`). A full disk keeps the group, and everything behind it, until there
is space again. Any other failure ends the writing for good: what was synced before is safe, and nothing comes
after it. While the disk is quick, a small group is written by the loop itself, at the end of its turn
(`inline_writes`).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ithaca.model.errors import IthacaError, StorageError, StorageFull
from ithaca.model.limits import GROUP_BYTES_MAX, INLINE_GROUP_BYTES_MAX, STORAGE_FULL_RETRY_S
from ithaca.runtime.disk_queue import DiskQueue
from ithaca.runtime.inline_writes import InlineWrites
from ithaca.runtime.machine import monotonic_s
from ithaca.storage.lane import Lane
from ithaca.storage.state import TrimmedTo, control_entry
from ithaca.wire.batch import CONTROL, Batch
from ithaca.wire.build import place

_log = logging.getLogger("ithaca")


class _Written(NamedTuple):
    """A group that was synced, and the lane's length behind it."""

    length: int
    seconds: float
    batches: int
    size_bytes: int


_Entries = tuple[Batch, ...]
"""What is written together: a batch, behind its place if it has one."""


def _bytes_of(entries: _Entries) -> int:
    return sum(entry.total_bytes for entry in entries)


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
        """`on_synced` gets the lane's length; `on_group` a group's seconds, batches, bytes."""
        self.lane = lane
        self.queued_bytes = 0
        """Accepted and not yet known to be synced."""
        self._loop = loop
        self._on_synced = on_synced
        self._on_full = on_full
        self._on_failed = on_failed
        self._on_group = on_group
        self._next_lsn = lane.length
        self._is_full = False
        self._failed = False
        self._is_closing = False
        self._close_failure: Exception | None = None
        self._turn_planned = False
        self._inline = InlineWrites()
        self._queue: DiskQueue[_Entries, _Written] = DiskQueue(
            f"ithaca-lane-{lane.lane}",
            loop,
            write=self._write_group,
            written=self._synced,
            full=self._found_full,
            failed=self._fail,
            retry_s=STORAGE_FULL_RETRY_S,
        )

    def write(self, batch: Batch, position: int = 0) -> None:
        """Queue a batch that has the lane's next place; `position`: of its first record, to be written with it."""
        assert batch.base_lsn == self._next_lsn, f"{batch.base_lsn} is not the place behind {self._next_lsn}"
        self._next_lsn = batch.end_lsn
        self._put((place(position, 0), batch) if position else (batch,))

    def trim(self, before_lsn: int) -> None:
        """Let go of the records below an LSN, durably, behind what is queued; the thread removes their segments."""
        self._put((control_entry(TrimmedTo(before_lsn)),))
        self._queue.hand_over()

    async def close(self) -> None:
        """Write what is queued, as far as there is space for it, end the thread, close the lane. Idempotent."""
        self._is_closing = True
        await self._queue.close(self._close_lane)
        if self._close_failure is not None and not self._failed:
            raise self._typed(self._close_failure)

    def _put(self, entries: _Entries) -> None:
        assert not self._is_closing, "the lane's writer was closed"
        if self._failed:
            return
        self.queued_bytes += _bytes_of(entries)
        self._queue.items.append(entries)
        if self.queued_bytes > INLINE_GROUP_BYTES_MAX or not self._inline.are_quick:
            self._queue.hand_over()
        elif not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """At the end of the loop's turn: write what has come together, or have it written."""
        self._turn_planned = False
        queue = self._queue
        if not queue.items or self._is_closing:
            return
        if queue.is_idle and self.queued_bytes <= INLINE_GROUP_BYTES_MAX:
            try:
                written = self._write_group(queue.items)
            except StorageFull:
                pass  # the thread tries again, and says so
            except Exception as failure:
                self._fail(failure)
            else:
                self._synced(written)
        if queue.items:
            queue.hand_over()

    def _synced(self, written: _Written) -> None:
        self._inline.took(written.seconds)
        self.queued_bytes -= written.size_bytes
        if self._is_full:
            self._is_full = False
            self._on_full(False)
        self._on_synced(written.length)
        if self._on_group is not None:
            self._on_group(written.seconds, written.batches, written.size_bytes)

    def _found_full(self, _: StorageFull) -> None:
        if not self._is_full:
            self._is_full = True
            self._on_full(True)

    def _fail(self, failure: Exception) -> None:
        self._failed = True
        self._queue.items.clear()
        self._on_failed(self._typed(failure))

    def _typed(self, failure: Exception) -> IthacaError:
        if isinstance(failure, IthacaError):
            return failure
        _log.error("writing lane %s failed", self.lane.lane, exc_info=failure)
        return StorageError(f"writing lane {self.lane.lane} failed: {failure!r}")

    # In the thread, or in the loop while the thread has nothing to do.

    def _write_group(self, queue: deque[_Entries]) -> _Written:
        """Write and sync what goes together; back into the queue with it if the disk is full."""
        started_s = monotonic_s()
        group = [queue.popleft()]
        size_bytes = _bytes_of(group[0])
        while queue and size_bytes + _bytes_of(queue[0]) <= GROUP_BYTES_MAX:
            size_bytes += _bytes_of(queue[0])
            group.append(queue.popleft())
        try:
            self._commit([entry for entries in group for entry in entries])
        except StorageFull:
            queue.extendleft(reversed(group))
            raise
        return _Written(self.lane.length, monotonic_s() - started_s, len(group), size_bytes)

    def _commit(self, group: list[Batch]) -> None:
        base_lsns = [batch.base_lsn for batch in group if batch.count]
        prepared = self.lane.prepare(group)
        assert base_lsns == [batch.base_lsn for batch in prepared.entries if batch.count]
        self.lane.commit(prepared)
        if any(batch.kind == CONTROL for batch in group):
            self.lane.drop_trimmed()

    def _close_lane(self) -> None:
        try:
            self.lane.close()
        except Exception as failure:
            self._close_failure = failure
