"""The newest batches of a lane, in memory: what followers that keep up read."""

from bisect import bisect_right
from itertools import islice
from typing import NamedTuple

from ithaca.wire.batch import Batch


class _Window(NamedTuple):
    """Batches with consecutive LSNs, and the base LSN of each; replaced as one, so readers need no lock."""

    bases: list[int]
    batches: list[Batch | None]
    start: int
    stop: int


class TailCache:
    """Bounded by bytes. One writer, any number of readers."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._window = _Window([], [], 0, 0)
        self._end_lsn = 0

    def add(self, batch: Batch) -> None:
        """Note the lane's newest batch; one that is known already changes nothing."""
        bases, batches, start, stop = self._window
        if batch.base_lsn < self._end_lsn:
            return
        self._end_lsn = batch.end_lsn
        bases.append(batch.base_lsn)
        batches.append(batch)
        stop += 1
        self._bytes += batch.total_bytes
        while self._bytes > self._bytes_max and start < stop:
            dropped = batches[start]
            assert dropped is not None
            self._bytes -= dropped.total_bytes
            batches[start] = None  # frees it now; a reader with an older window takes it for a miss
            start += 1
        if start > 64 and start * 2 > stop:
            bases, batches = bases[start:stop], batches[start:stop]
            start, stop = 0, len(batches)
        self._window = _Window(bases, batches, start, stop)

    def get(self, lsn: int, bytes_max: int) -> list[Batch]:
        """Batches from the one that holds `lsn` on, about `bytes_max` of them; empty when it is not here."""
        bases, batches, start, stop = self._window
        at = bisect_right(bases, lsn, start, stop) - 1
        if at < start or lsn >= self._end_lsn:
            return []
        found: list[Batch] = []
        for batch in islice(batches, at, stop):
            if batch is None or (not found and lsn >= batch.end_lsn):
                return []
            found.append(batch)
            bytes_max -= batch.total_bytes
            if bytes_max <= 0:
                break
        return found
