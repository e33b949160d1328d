"""Which rows were trimmed: all below a watermark, and ranges above it (§2.6 of the paper)."""

from bisect import bisect_left, bisect_right

from ithaca.engines.corfu.sequencing.limits import UNIT_TRIMS_MAX


class Trims:
    """Half-open ranges, apart from each other, behind the watermark."""

    def __init__(self, below: int = 0, ranges: tuple[tuple[int, int], ...] = (), first: int = 0) -> None:
        self.below = below
        self.first = first
        """The first position of the log that was not trimmed, as far as is known: it may lie inside a row."""
        self._lows = [low for low, _ in ranges]
        self._highs = [high for _, high in ranges]

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self._lows, self._highs, strict=True))

    @property
    def is_full(self) -> bool:
        """Whether no range that touches no other can be added."""
        return len(self._lows) >= UNIT_TRIMS_MAX

    def __contains__(self, row: int) -> bool:
        if row < self.below:
            return True
        at = bisect_right(self._lows, row) - 1
        return at >= 0 and row < self._highs[at]

    def apply(self, low: int, high: int, before: int) -> None:
        """The rows `[low, high)` go, and of the log everything before a position."""
        if low:
            self.add(low, high)
        else:
            self.raise_to(high, before)

    def take(self, below: int, ranges: tuple[tuple[int, int], ...], first: int) -> None:
        """Everything goes that another unit has trimmed."""
        self.raise_to(below, first)
        for low, high in ranges:
            self.add(low, high)

    def raise_to(self, below: int, first: int = 0) -> None:
        """Everything below this row goes, and of the log everything before this position."""
        self.first = max(self.first, first)
        if below > self.below:
            self.below = below
            self._absorb()

    def add(self, low: int, high: int) -> None:
        """The rows `[low, high)` go; touching ranges become one."""
        if low >= high:
            return
        first, last = bisect_left(self._highs, low), bisect_right(self._lows, high)
        if first < last:
            low, high = min(low, self._lows[first]), max(high, self._highs[last - 1])
        self._lows[first:last], self._highs[first:last] = [low], [high]
        self._absorb()

    def _absorb(self) -> None:
        """Drop what is below the watermark; a range that touches it raises it."""
        while self._lows and self._lows[0] <= self.below:
            self.below = max(self.below, self._highs[0])
            del self._lows[0], self._highs[0]
