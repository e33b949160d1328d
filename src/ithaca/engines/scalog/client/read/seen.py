"""Which shard holds which positions, as far as this handle has seen: hints, so that a read asks one shard only."""

from bisect import bisect_right

from ithaca.model.limits import SEEN_RANGES_MAX


class SeenRanges:
    """Half-open ranges, sorted, disjoint; the lowest are forgotten first."""

    def __init__(self, ranges_max: int = SEEN_RANGES_MAX) -> None:
        self._ranges_max = ranges_max
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._shards: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, start: int, stop: int, shard: int) -> None:
        """The positions `[start, stop)` are in this shard; what overlaps is known already.

        >>> seen = SeenRanges()
        >>> seen.add(1, 5, 0); seen.add(9, 12, 1); seen.add(5, 7, 0)
        >>> seen.shard_of(6), seen.shard_of(7), seen.shard_of(9), len(seen)
        (0, None, 1, 2)
        """
        index = bisect_right(self._starts, start)
        if index and self._stops[index - 1] >= start:
            before = index - 1
            if self._shards[before] == shard and (index == len(self._starts) or self._starts[index] >= stop):
                self._stops[before] = max(self._stops[before], stop)
                return
            if self._stops[before] > start:
                return
        if index < len(self._starts) and self._starts[index] < stop:
            return
        self._starts.insert(index, start)
        self._stops.insert(index, stop)
        self._shards.insert(index, shard)
        if len(self._starts) > self._ranges_max:
            forgotten = self._ranges_max // 4 or 1
            del self._starts[:forgotten], self._stops[:forgotten], self._shards[:forgotten]

    def shard_of(self, position: int) -> int | None:
        """The shard that holds the position; None when it was not seen."""
        index = bisect_right(self._starts, position) - 1
        return self._shards[index] if index >= 0 and position < self._stops[index] else None
