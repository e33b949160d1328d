"""The newest batches of a lane, in memory: what followers that keep up read.

Large batches are left to the page cache: keeping them would have each append build into cold memory, which
costs it more than a positioned read costs the follower. Batches stay as they are stored: nothing here decompresses
them, nor keeps what others have decompressed.
"""

import sys
from bisect import bisect_right
from itertools import islice
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from ithaca.model.limits import CACHED_BATCH_BYTES_MAX
from ithaca.wire.batch import Batch


class _Window(NamedTuple):
    """Batches with consecutive LSNs, and the base LSN of each; replaced as one, so readers need no lock.

    Only `[start, stop)` of the lists counts: behind it a writer that was interrupted may have left something.
    """

    bases: list[int]
    batches: list[Batch | None]
    start: int
    stop: int
    bytes: int
    end_lsn: int


class CacheBudget:
    """What the caches of many lanes keep together: the one that nothing was added to for longest gives way."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes: WeakKeyDictionary[TailCache, int] = WeakKeyDictionary()
        """Of each cache that keeps something, the one that was added to last at the end."""
        self._total = 0
        """At least what they keep: those that are gone are taken off when it matters."""
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """What they keep."""
        with self._lock:
            return sum(self._bytes.values())

    def added(self, cache: "TailCache") -> None:
        """Something was added to a cache."""
        with self._lock:
            self._total += cache.bytes - self._bytes.pop(cache, 0)
            self._bytes[cache] = cache.bytes
            if self._total <= self._bytes_max:
                return
            self._total = sum(self._bytes.values())
            for other in list(self._bytes):
                if self._total <= self._bytes_max or other is cache:
                    break
                self._total -= self._bytes.pop(other)
                other.empty()


class TailCache:
    """Bounded by what it keeps in memory (`Batch.kept_bytes`). One writer, any number of readers."""

    def __init__(self, bytes_max: int, budget: CacheBudget | None = None) -> None:
        self._bytes_max = bytes_max
        self.budget = budget
        """What it shares with others, if it does."""
        self._window = _Window([], [], 0, 0, 0, 0)

    @property
    def bytes(self) -> int:
        return self._window.bytes

    def empty(self) -> None:
        """Keep nothing, for now; by anybody. What is being added meanwhile may be kept, and what was before it."""
        self._window = _Window([], [], 0, 0, 0, self._window.end_lsn)

    def add(self, batch: Batch) -> None:
        """Note the lane's newest batch; one that is known already changes nothing."""
        before = self._window
        self._add(batch)
        if self.budget is not None and self._window is not before:
            self.budget.added(self)

    def _add(self, batch: Batch) -> None:
        bases, batches, first, stop, size, end_lsn = self._window
        if batch.base_lsn < end_lsn:
            return
        if batch.total_bytes > CACHED_BATCH_BYTES_MAX:
            self._window = _Window([], [], 0, 0, 0, batch.end_lsn)
            return
        del bases[stop:], batches[stop:]
        bases.append(batch.base_lsn)
        batches.append(batch)
        stop += 1
        size += batch.kept_bytes
        start = first
        while size > self._bytes_max and start < stop:
            dropped = batches[start]
            assert dropped is not None
            size -= dropped.kept_bytes
            start += 1
        if start > 64 and start * 2 > stop:
            kept = batches[start:stop]
            self._window = _Window(bases[start:stop], kept, 0, len(kept), size, batch.end_lsn)
        else:
            self._window = _Window(bases, batches, start, stop, size, batch.end_lsn)
            if start > first:
                batches[first:start] = [None] * (start - first)  # frees them; in an older window they are a miss

    def get(self, lsn: int, bytes_max: int, stop_lsn: int = sys.maxsize) -> list[Batch]:
        """Batches from the one that holds `lsn` on, up to the one that reaches `stop_lsn`, about `bytes_max` of them;
        empty when it is not here."""
        bases, batches, start, stop, _, end_lsn = self._window
        at = bisect_right(bases, lsn, start, stop) - 1
        if at < start or lsn >= end_lsn:
            return []
        found: list[Batch] = []
        for batch in islice(batches, at, stop):
            if batch is None or (not found and lsn >= batch.end_lsn):
                return []
            found.append(batch)
            bytes_max -= batch.total_bytes
            if bytes_max <= 0 or batch.end_lsn >= stop_lsn:
                break
        return found
