"""Which records may be declared lost: those that are ordered, and that no replica of their shard holds.

A lane that is closed is complete nowhere if each of its copies ends before what is ordered of it. What one replica
holds reaches the others, positions and records alike, so what is gone is what is behind the longest of both. Nobody
can say where the records stood of which the positions are gone as well: they count as lost, if they are there or not.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.scalog.ordering.entries import DeclareLost
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.errors import InvalidInput, NoSuchShard
from ithaca.model.positions import LaneId


class HeldLength(NamedTuple):
    """Up to which LSN a replica has synced a lane, and up to which it knows the positions."""

    synced: int
    placed: int


def check_ordered(state: OrderingState, lane: LaneId, start: int, stop: int) -> None:
    """`InvalidInput` for what cannot be lost: it is not ordered, was trimmed, or may still be on its way."""
    if start >= stop:
        raise InvalidInput(
            f"from {start} to {stop} there is nothing: say the first LSN that is gone, and the one behind"
        )
    if lane.shard not in state.shards.by_number:
        numbers = ", ".join(map(str, state.shards.by_number)) or "none"
        raise NoSuchShard(f"there is no shard {lane.shard}: the cluster has {numbers}")
    length = state.lanes.ordered_length(lane)
    if length is None:
        raise InvalidInput(f"nothing is ordered of lane {lane}: there is no such lane, or all of it was trimmed")
    if stop > length:
        raise InvalidInput(f"only {length} records of lane {lane} are ordered: what is behind them cannot be lost")
    if state.lanes.is_open(lane):
        raise InvalidInput(
            f"lane {lane} is open: its replica may still have what others lack; start the replica, remove it, or "
            "finalize the shard, and the lane is closed"
        )


def is_declared(state: OrderingState, lane: LaneId, start: int, stop: int) -> bool:
    """Whether all of it counts as lost already."""
    return any(low <= start and stop <= high for low, high in state.lost.get(lane, ()))


def declared(lane: LaneId, start: int, stop: int, length: int, held: Mapping[int, HeldLength]) -> DeclareLost:
    """The entry that declares them lost, of a lane of which this length is ordered, by what its replicas hold.

    `InvalidInput` says what is still held, and by whom.

    >>> held = {0: HeldLength(4, 6), 1: HeldLength(3, 3)}
    >>> declared(LaneId(0, 1, 1), 4, 9, 9, held).placed
    6
    >>> declared(LaneId(0, 1, 1), 4, 6, 9, held).placed is None
    True
    """
    synced = max((each.synced for each in held.values()), default=0)
    placed = max((each.placed for each in held.values()), default=0)
    first = min(synced, placed)
    if start < first:
        has = next(number for number, each in sorted(held.items()) if each.synced == synced)
        raise InvalidInput(
            f"replica {lane.shard}/{has} holds lane {lane} up to LSN {first}: "
            + (f"no more than {first} to {length} can be lost" if first < length else "nothing of it is lost")
        )
    if stop <= placed:
        return DeclareLost(lane, start, stop)
    if stop < length:
        raise InvalidInput(
            f"nobody knows the positions of lane {lane} from LSN {max(start, placed)} on: declare all up to {length}"
        )
    return DeclareLost(lane, start, stop, max(start, placed))
