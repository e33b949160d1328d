"""Cuts as vectors: lanes in order and their lengths, as int64 (design §5 "Order", Scalog §4.1).

A lane is one signed 64-bit key, so that a vector of keys sorts as the lanes do, and all lanes of a shard
are neighbours:

```
bit 62..43 shard (20) | 42..31 replica (12) | 30..0 incarnation (31)
```
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from operator import lt
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import INCARNATION_MAX, LANE_RECORDS_MAX, REPLICA_NUMBER_MAX, SHARD_NUMBER_MAX
from ithaca.model.positions import LaneId

Vector = NDArray[np.int64]

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]

_REPLICA_SHIFT = 31
_SHARD_SHIFT = 43
_PACKED = np.dtype("<i8")

FEW = 8
"""Up to so many lanes a loop beats vectors, whose every operation costs a microsecond or more."""


def lane_key(lane: LaneId) -> int:
    """The lane as one number; `InvalidInput` for a lane that cannot exist.

    >>> lane_of(lane_key(LaneId(3, 1, 7)))
    LaneId(shard=3, replica=1, incarnation=7)
    """
    shard, replica, incarnation = lane
    if not (0 <= shard <= SHARD_NUMBER_MAX and 0 <= replica <= REPLICA_NUMBER_MAX):
        raise InvalidInput(
            f"lane {lane}: shards are numbered up to {SHARD_NUMBER_MAX}, replicas up to {REPLICA_NUMBER_MAX}"
        )
    if not 0 < incarnation <= INCARNATION_MAX:
        raise InvalidInput(f"lane {lane}: incarnations are numbered from 1 to {INCARNATION_MAX}")
    return shard << _SHARD_SHIFT | replica << _REPLICA_SHIFT | incarnation


def lane_of(key: int) -> LaneId:
    """The inverse of `lane_key`."""
    return LaneId(key >> _SHARD_SHIFT, key >> _REPLICA_SHIFT & REPLICA_NUMBER_MAX, key & INCARNATION_MAX)


def lanes_of(keys: Vector) -> list[LaneId]:
    """Each of these as a lane.

    >>> lanes_of(np.array([lane_key(LaneId(3, 1, 7))]))
    [LaneId(shard=3, replica=1, incarnation=7)]
    """
    if len(keys) <= FEW:
        return [lane_of(key) for key in keys.tolist()]
    columns = (keys >> _SHARD_SHIFT, keys >> _REPLICA_SHIFT & REPLICA_NUMBER_MAX, keys & INCARNATION_MAX)
    return list(map(LaneId._make, zip(*(column.tolist() for column in columns), strict=True)))


def shard_of(key: int) -> int:
    return key >> _SHARD_SHIFT


def shard_numbers(keys: Vector) -> Vector:
    """The shard of each lane."""
    return keys >> _SHARD_SHIFT


def shards_of(keys: Vector) -> list[int]:
    """The shards of the lanes, each once, in order."""
    return sorted(set(shard_numbers(keys).tolist()))


def shard_rows(keys: Vector, shard: int) -> slice:
    """Where the lanes of a shard stand in a sorted vector of keys."""
    if len(keys) <= FEW:
        shards = [key >> _SHARD_SHIFT for key in keys.tolist()]
        start = bisect_left(shards, shard)
        return slice(start, bisect_right(shards, shard, start))
    start, stop = np.searchsorted(keys, (shard << _SHARD_SHIFT, (shard + 1) << _SHARD_SHIFT)).tolist()
    return slice(start, stop)


def pack(vector: Vector) -> bytes:
    """A vector as bytes: 8 per element, little-endian."""
    return vector.astype(_PACKED, copy=False).tobytes()


def unpack(data: bytes) -> Vector:
    """The inverse of `pack`, without a copy, and so read-only; `InvalidInput` for a broken length."""
    if len(data) % _PACKED.itemsize:
        raise InvalidInput(f"a vector of {len(data)} bytes is not a whole number of 64-bit elements")
    return np.frombuffer(data, _PACKED).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class LaneLengths:
    """Lanes in order, and the length of each: how many of its records a cut covers in all."""

    keys: Vector
    lengths: Vector

    @classmethod
    def of(cls, lengths: Mapping[LaneId, int]) -> "LaneLengths":
        """From a mapping, in any order."""
        return cls.of_keys({lane_key(lane): length for lane, length in lengths.items()})

    @classmethod
    def of_keys(cls, lengths: Mapping[int, int]) -> "LaneLengths":
        """From a mapping of lane keys, in any order."""
        if len(lengths) <= FEW:
            return cls.of_pairs(sorted(lengths.items()))
        keys = np.fromiter(lengths.keys(), np.int64, len(lengths))
        values = np.fromiter(lengths.values(), np.int64, len(lengths))
        order = np.argsort(keys)
        return cls(keys[order], values[order])

    @classmethod
    def of_pairs(cls, pairs: list[tuple[int, int]]) -> "LaneLengths":
        """From lane keys in order, each with its length."""
        columns = np.array(pairs, np.int64).reshape(-1, 2)
        return cls(columns[:, 0], columns[:, 1])

    def pairs(self) -> list[tuple[int, int]]:
        """Lane keys in order, each with its length."""
        return list(zip(self.keys.tolist(), self.lengths.tolist(), strict=True))

    def to_dict(self) -> dict[LaneId, int]:
        return {lane_of(key): length for key, length in self.pairs()}

    def check(self) -> None:
        """`InvalidInput` unless lanes are in order, each once, and lengths are possible."""
        if len(self.keys) != len(self.lengths):
            raise InvalidInput(f"a cut of {len(self.keys)} lanes has {len(self.lengths)} lengths")
        if len(self.keys) == 0:
            return
        if len(self.keys) <= FEW:
            keys, lengths = self.keys.tolist(), self.lengths.tolist()
            in_order = keys[0] >= 0 and all(map(lt, keys, keys[1:]))
            shortest, longest = min(lengths), max(lengths)
        else:
            in_order = self.keys[0] >= 0 and bool((self.keys[1:] > self.keys[:-1]).all())
            shortest, longest = int(self.lengths.min()), int(self.lengths.max())
        if not in_order:
            raise InvalidInput("the lanes of a cut are not in order")
        if shortest < 0 or longest > LANE_RECORDS_MAX:
            raise InvalidInput(f"a cut has a length outside 0..{LANE_RECORDS_MAX}")

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LaneLengths)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.lengths, other.lengths)
        )

    __hash__ = None  # type: ignore[assignment]


def followed(positions: Vector, counts: Vector, end: int) -> Vector | None:
    """What each run of a cut follows; `end` is where the last record before the cut ends. None in a dense order.

    >>> followed(np.array([7, 1, 5]), np.array([2, 3, 2]), 1) is None
    False
    >>> followed(np.array([7, 1, 5]), np.array([2, 3, 2]), 1).tolist()
    [0, 0, 4]
    """
    order = np.argsort(positions)
    ends = np.concatenate(([end], (positions + counts)[order][:-1]))
    if (ends == positions[order]).all():
        return None
    follows = np.empty(len(positions), np.int64)
    follows[order] = np.where(ends == positions[order], 0, ends)
    return follows


def check_follows(number: int, positions: Vector, follows: Vector) -> None:
    """`InvalidInput` if the runs of a cut cannot follow this: nothing is said, or of each something before it."""
    if len(follows) not in (0, len(positions)):
        raise InvalidInput(f"cut {number} says of {len(follows)} runs what they follow, and has {len(positions)}")
    if len(follows) and (int(follows.min()) < 0 or bool((follows > positions).any())):
        raise InvalidInput(f"cut {number} has runs that follow what is behind them")


class LaneRun(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """`count` records of a lane, from `lsn` on, got the positions from `position` on.

    The record before them, in the whole order, ends at `follows`; 0 stands for the run's own start, which is so
    wherever positions are dense. What is cut off at the front of a run leaves a piece that follows its own start.
    """

    lane: LaneId
    lsn: _Length
    position: Annotated[int, Meta(ge=1, lt=1 << 62)]
    count: Annotated[int, Meta(ge=1, le=LANE_RECORDS_MAX)]
    follows: _Natural = 0


class ShardCut(msgspec.Struct, frozen=True, array_like=True, tag="cut"):
    """What one shard is told of a cut: how far the order reaches, and its own runs, if it has any in it."""

    shard: Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
    number: _Natural
    tail: _Natural
    """The next position after this cut."""
    time_us: _Natural
    """The order's own time, which never falls."""
    runs: tuple[LaneRun, ...] = ()
