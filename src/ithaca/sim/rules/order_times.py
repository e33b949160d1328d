"""When each position of a simulated log was ordered, by the order's own time, which clients are not told."""

from bisect import bisect_left, bisect_right


class OrderTimes:
    """Grows with every cut that any orderer is the first to apply."""

    def __init__(self) -> None:
        self.tail = 1
        self.first = 1
        """The first position that was not trimmed."""
        self._starts: list[int] = []
        """The first position of each cut that ordered something, and beside it, when that was."""
        self._times_us: list[int] = []
        self._is_dense = True

    def add(self, tail: int, time_us: int, first: int, start: int | None = None) -> str | None:
        """Positions up to this tail are ordered; returns what is wrong with that.

        `start` is the first of them that holds a record, where they do not all: that of the next, if none does.
        """
        self.first = max(self.first, first)
        if tail <= self.tail:
            return None
        self._is_dense = self._is_dense and start is None
        start, self.tail = self.tail if start is None else start, tail
        if start >= tail:
            return None
        before = self._times_us[-1] if self._times_us else 0
        self._starts.append(start)
        self._times_us.append(max(before, time_us))
        return (
            f"position {start} was ordered at {time_us}, and the one before at {before}" if time_us < before else None
        )

    @property
    def bounds_us(self) -> tuple[int, int] | None:
        """The first and the last time of the order so far."""
        return (self._times_us[0], self._times_us[-1]) if self._times_us else None

    def first_at(self, time_us: int) -> int:
        """The first position that was ordered then or later; the tail when there is none."""
        place = bisect_left(self._times_us, time_us)
        return self._starts[place] if place < len(self._starts) else self.tail

    def time_of(self, position: int) -> int:
        """When this position was ordered."""
        return self._times_us[bisect_right(self._starts, position) - 1]

    def problem(self, time_us: int, start: int, tail_before: int, trimmed: int) -> str | None:
        """What is wrong with a subscription from a time on that was asked for at this tail, and began at `start`.

        It may begin behind the tail of then, when what came meanwhile is still from before that time; and where a trim
        has put the first position.
        """
        right = self.first_at(time_us)
        if start == right or (tail_before <= start < right) or (right < start <= trimmed):
            return None
        is_same = bisect_left(self._starts, trimmed) == bisect_left(self._starts, start)
        if not self._is_dense and right < trimmed <= start and is_same:
            return None  # between them, no record is known to be
        return f"a subscription from the time {time_us} on began at position {start} instead of {right}"
