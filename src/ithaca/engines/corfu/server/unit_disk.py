"""The writer of a unit: what its core accepts goes to the disk in groups, and the core is told when it is synced.

Rows that come together in a turn of the loop are written at its end, there and then while the disk is quick; what else
there is to write, and whatever comes while something is being written, is left to the disk's thread.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ithaca.engines.corfu.sequencing.unit import Change, Persist, RowChange, TrimChange
from ithaca.engines.corfu.storage.unit_store import Checkpoint, UnitStore
from ithaca.model.errors import StorageFull
from ithaca.model.limits import GROUP_BYTES_MAX, INLINE_GROUP_BYTES_MAX, STORAGE_FULL_RETRY_S
from ithaca.runtime.disk_queue import DiskQueue
from ithaca.runtime.inline_writes import InlineWrites
from ithaca.runtime.machine import monotonic_s


class _Reclaim(NamedTuple):
    """Let go of what lies below this LSN."""

    lsn: int


class _Group(NamedTuple):
    """What was written: changes up to a number, with the LSNs of rows, or something else."""

    changes: list[Change]
    lsns: list[int]
    number: int
    seconds: float = 0.0
    checkpoint: Checkpoint | None = None


_Item = Persist | Checkpoint | _Reclaim


class UnitDisk:
    """The only writer of a store. Methods belong to the loop, and so do the callbacks."""

    def __init__(
        self,
        store: UnitStore,
        *,
        loop: asyncio.AbstractEventLoop,
        on_synced: Callable[[int], None],
        on_full: Callable[[bool], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        """`on_synced` gets the number of the last change that is durable; its rows are in the store's index by then."""
        self._store = store
        self._loop = loop
        self._on_synced = on_synced
        self._on_full = on_full
        self._on_failed = on_failed
        self._is_full = False
        self._has_ended = False
        self._turn_planned = False
        self._inline = InlineWrites()
        self._close_failure: Exception | None = None
        self._queue: DiskQueue[_Item, _Group] = DiskQueue(
            "ithaca-unit",
            loop,
            write=self._write,
            written=self._written,
            full=self._found_full,
            failed=on_failed,
            retry_s=STORAGE_FULL_RETRY_S,
        )

    def persist(self, effect: Persist) -> None:
        """Make a change durable behind those before."""
        if self._has_ended:
            return
        if not isinstance(effect.change, RowChange) or not self._inline.are_quick:
            self._put(effect)
            return
        self._queue.items.append(effect)
        if not self._turn_planned:
            self._turn_planned = True
            self._loop.call_soon(self._turn)

    async def close(self) -> None:
        """Write what is queued, as far as there is space for it, and close the store. Idempotent."""
        self._has_ended = True
        await self._queue.close(self._close_store)
        if self._close_failure is not None:
            raise self._close_failure

    def _put(self, item: _Item) -> None:
        self._queue.items.append(item)
        self._queue.hand_over()

    def _turn(self) -> None:
        """At the end of the loop's turn: write what has come together, or have it written."""
        self._turn_planned = False
        queue = self._queue
        if not queue.items or self._has_ended:
            return
        if queue.is_idle and _are_small_rows(queue.items):
            try:
                group = self._write(queue.items)
            except StorageFull:
                pass  # the thread tries again, and says so
            except Exception as failure:
                self._has_ended = True
                queue.items.clear()
                self._on_failed(failure)
            else:
                self._written(group)
        if queue.items:
            queue.hand_over()

    def _written(self, group: _Group) -> None:
        if self._is_full:
            self._is_full = False
            self._on_full(False)
        if group.checkpoint is not None:
            self._store.checkpointed(group.checkpoint)
        if not group.changes:
            return
        if isinstance(group.changes[-1], RowChange):
            self._inline.took(group.seconds)
        self._store.noted(group.changes, group.lsns)
        self._on_synced(group.number)
        due = self._store.due_checkpoint()
        if due is not None:
            self._put(due)
        if any(isinstance(change, TrimChange) and change.low == 0 for change in group.changes):
            self._put(_Reclaim(self._store.reclaimable()))

    def _found_full(self, _: StorageFull) -> None:
        if not self._is_full:
            self._is_full = True
            self._on_full(True)

    # In the thread, or in the loop while the thread has nothing to do

    def _close_store(self) -> None:
        try:
            self._store.close()
        except Exception as failure:
            self._close_failure = failure

    def _write(self, queue: deque[_Item]) -> _Group:
        item = queue[0]
        if isinstance(item, Checkpoint):
            self._store.checkpoint(item)
            queue.popleft()
            return _Group([], [], 0, checkpoint=item)
        if isinstance(item, _Reclaim):
            self._store.reclaim(item.lsn)
            queue.popleft()
            return _Group([], [], 0)
        group: list[Persist] = []
        size_bytes = 0
        while queue and isinstance(following := queue[0], Persist) and size_bytes < GROUP_BYTES_MAX:
            size_bytes += _bytes_of(following.change)
            group.append(following)
            queue.popleft()
        changes = [each.change for each in group]
        started_s = monotonic_s()
        try:
            lsns = self._store.commit(changes)
        except StorageFull:
            queue.extendleft(reversed(group))
            raise
        return _Group(changes, lsns, group[-1].number, monotonic_s() - started_s)


def _are_small_rows(items: Iterable[_Item]) -> bool:
    """Whether these are rows alone, and few enough to be written in the loop."""
    size_bytes = 0
    for item in items:
        if not isinstance(item, Persist) or not isinstance(item.change, RowChange):
            return False
        size_bytes += _bytes_of(item.change)
    return size_bytes <= INLINE_GROUP_BYTES_MAX


def _bytes_of(change: Change) -> int:
    return change.entry.batch.total_bytes if isinstance(change, RowChange) and change.entry.batch is not None else 128
