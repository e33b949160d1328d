"""How much of a shard there is on a disk, and where to trim so that it becomes less."""

from collections.abc import Container
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from ithaca.engines.scalog.storage.held_lane import HeldLane
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.settled import Ints
from ithaca.model.positions import LaneId


class _Segment(NamedTuple):
    """A segment that can go; the newest sorts first."""

    negated_end: int
    """The position behind it, negated."""
    lane: LaneId
    nth: int


def position_beyond(store: LaneStore, open_lanes: Container[LaneId], bytes_max: int) -> int:
    """The position before which records must go so that the segments of the rest are within `bytes_max`.

    Segments go as a whole, and lanes in packs, the oldest first. Of what is being written, and of what is not ordered,
    nothing can go; it counts all the same. What was trimmed already does not.
    """
    # In this order: a lane is in a pack before it leaves the others.
    lanes: dict[LaneId, HeldLane] = {**store.ordered, **store.lanes}
    settled = store.settled
    lanes = {lane: held for lane, held in lanes.items() if lane not in settled}
    first_lsns = {lane: held.lane.first_lsns for lane, held in lanes.items()}  # the lanes' writers go on meanwhile
    newest: list[_Segment] = []
    kept = 0

    def offer(lane: LaneId, nth: int) -> None:
        """Have a segment looked at, unless there is none, or it was trimmed: then so were those before it."""
        end = None if nth < 0 else _end_position(lanes[lane], first_lsns[lane], nth)
        if end is not None and end > store.first:
            heappush(newest, _Segment(-end, lane, nth))

    for lane, held in lanes.items():
        nth = len(first_lsns[lane]) - 1
        if nth >= 0 and lane in open_lanes:
            kept += _bytes_of(held, first_lsns[lane][nth])
            nth -= 1
        while nth >= 0 and _end_position(held, first_lsns[lane], nth) is None:
            kept += _bytes_of(held, first_lsns[lane][nth])
            nth -= 1
        offer(lane, nth)
    packed = _Packed(*settled.by_end(store.first))
    while True:
        end = -newest[0].negated_end if newest else 0
        too_much = packed.take(end, bytes_max - kept)
        if too_much is not None:
            return too_much
        if not newest:
            return store.first
        segment = heappop(newest)
        kept += _bytes_of(lanes[segment.lane], first_lsns[segment.lane][segment.nth])
        if kept + packed.bytes > bytes_max:
            return end
        offer(segment.lane, segment.nth - 1)


class _Packed:
    """The lanes in packs, the one that ends last first; many are counted at once."""

    def __init__(self, ends: Ints, sizes: Ints) -> None:
        self._ends = ends
        self._together = np.concatenate(([0], np.cumsum(sizes)))
        """The bytes of so many of them."""
        self._taken = 0

    @property
    def bytes(self) -> int:
        """Of those that were taken."""
        return int(self._together[self._taken])

    def take(self, position: int, bytes_max: int) -> int | None:
        """Take those that end behind a position; the end of the first with which they are more than `bytes_max`."""
        stop = int(np.searchsorted(-self._ends, -position, "left"))
        if stop > self._taken:
            beyond = max(self._taken + 1, int(np.searchsorted(self._together, bytes_max, "right")))
            if beyond <= stop:
                return int(self._ends[beyond - 1])
            self._taken = stop
        return None


def _end_position(held: HeldLane, first_lsns: list[int], nth: int) -> int | None:
    """The position behind a segment; None when some of it is not ordered, 0 when it was trimmed."""
    runs = held.runs
    end_lsn = first_lsns[nth + 1] if nth + 1 < len(first_lsns) else held.lane.length
    if not 0 < end_lsn <= runs.end_lsn:
        return None
    return runs.position_of(end_lsn - 1) + 1 if end_lsn > runs.first_lsn else 0


def _bytes_of(held: HeldLane, first_lsn: int) -> int:
    try:
        return held.lane.bytes_of(first_lsn)
    except FileNotFoundError:  # it was trimmed meanwhile
        return 0
