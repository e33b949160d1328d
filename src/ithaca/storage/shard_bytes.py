"""How much of a shard there is on a disk, and where to trim so that it becomes less."""

from collections.abc import Container
from heapq import heappop, heappush
from typing import NamedTuple

from ithaca.model.positions import LaneId
from ithaca.storage.lane_store import HeldLane, LaneStore


class _Segment(NamedTuple):
    """A segment that can go; the newest sorts first."""

    negated_end: int
    """The position behind it, negated."""
    lane: LaneId
    place: int


def position_beyond(store: LaneStore, open_lanes: Container[LaneId], bytes_max: int) -> int:
    """The position before which records must go so that the segments of the rest are within `bytes_max`.

    Segments go as a whole, the oldest first. Of what is being written, and of what is not ordered, nothing can go; it
    counts all the same. What was trimmed already does not.
    """
    lanes = store.lanes
    first_lsns = {lane: held.lane.first_lsns for lane, held in lanes.items()}  # the lanes' writers go on meanwhile
    newest: list[_Segment] = []
    kept = 0

    def offer(lane: LaneId, place: int) -> None:
        """Have a segment looked at, unless there is none, or it was trimmed: then so were those before it."""
        end = None if place < 0 else _end_position(lanes[lane], first_lsns[lane], place)
        if end is not None and end > store.first:
            heappush(newest, _Segment(-end, lane, place))

    for lane, held in lanes.items():
        place = len(first_lsns[lane]) - 1
        if place >= 0 and lane in open_lanes:
            kept += _bytes_of(held, first_lsns[lane][place])
            place -= 1
        while place >= 0 and _end_position(held, first_lsns[lane], place) is None:
            kept += _bytes_of(held, first_lsns[lane][place])
            place -= 1
        offer(lane, place)
    while newest:
        segment = heappop(newest)
        kept += _bytes_of(lanes[segment.lane], first_lsns[segment.lane][segment.place])
        if kept > bytes_max:
            return -segment.negated_end
        offer(segment.lane, segment.place - 1)
    return store.first


def _end_position(held: HeldLane, first_lsns: list[int], place: int) -> int | None:
    """The position behind a segment; None when some of it is not ordered, 0 when it was trimmed."""
    runs = held.runs
    end_lsn = first_lsns[place + 1] if place + 1 < len(first_lsns) else held.lane.length
    if not 0 < end_lsn <= runs.end_lsn:
        return None
    return runs.position_of(end_lsn - 1) + 1 if end_lsn > runs.first_lsn else 0


def _bytes_of(held: HeldLane, first_lsn: int) -> int:
    try:
        return held.lane.bytes_of(first_lsn)
    except FileNotFoundError:  # it was trimmed meanwhile
        return 0
