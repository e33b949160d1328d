"""The lanes that are closed and complete on this disk, positions included: nothing about them changes any more.

There may be very many, so that as little as possible is kept of each.
"""

from collections.abc import Iterable, Iterator

from ithaca.model.cut import lane_key, lane_of
from ithaca.model.positions import LaneId


class SettledCopies:
    """Their lengths, and which of them have holes."""

    def __init__(self, found: Iterable[tuple[LaneId, int, bool]] = ()) -> None:
        """`found`: each lane with its length, and whether it has holes."""
        self._lengths: dict[int, int] = {}
        self._holes: set[int] = set()
        for lane, length, has_holes in found:
            self.add(lane, length, has_holes)

    def __len__(self) -> int:
        return len(self._lengths)

    def __contains__(self, lane: LaneId) -> bool:
        return lane_key(lane) in self._lengths

    def __iter__(self) -> Iterator[LaneId]:
        """In order, whatever is done meanwhile."""
        return map(lane_of, sorted(self._lengths))

    def items(self) -> Iterator[tuple[LaneId, int]]:
        """Each lane with its length."""
        return ((lane_of(key), length) for key, length in self._lengths.items())

    def add(self, lane: LaneId, length: int, has_holes: bool) -> None:
        key = lane_key(lane)
        self._lengths[key] = length
        if has_holes:
            self._holes.add(key)

    def length(self, lane: LaneId) -> int | None:
        return self._lengths.get(lane_key(lane))

    def has_holes(self, lane: LaneId) -> bool:
        return lane_key(lane) in self._holes

    def drop(self, lane: LaneId) -> bool:
        """Says whether it was here."""
        key = lane_key(lane)
        self._holes.discard(key)
        return self._lengths.pop(key, None) is not None
