"""Where records lie on the disk of a replica, for readers on its machine: they open the files themselves.

The replica alone knows what is ordered, and where; what it says is that, and nothing that it holds passes through it.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from ithaca.model.errors import InvalidInput
from ithaca.model.limits import MACHINE_NAME_BYTES_MAX
from ithaca.model.positions import LaneId

_Natural = Annotated[int, Meta(ge=0)]
_Counted = Annotated[int, Meta(ge=1)]


class LocateRecords(msgspec.Struct, frozen=True, array_like=True):
    """Where the shard's records of the positions `[start, stop)` lie, for a reader on this machine."""

    machine: Annotated[str, Meta(min_length=1, max_length=MACHINE_NAME_BYTES_MAX)]
    start: _Counted
    stop: _Counted


class RecordLocations(msgspec.Struct, frozen=True, array_like=True):
    """The directory of the lanes, and device and inode to know it by; then what is in it.

    A stretch is a lane, an LSN of it, the position there, and how many records come. The shard has no others below
    `up_to`. `follows` says of each stretch where the record before it, in the whole order, ends, 0 for its own start;
    it is left out when that is so of all.
    """

    directory: str
    device: _Natural
    inode: _Natural
    stretches: tuple[tuple[LaneId, _Natural, _Counted, _Counted], ...]
    up_to: _Counted
    follows: tuple[_Natural, ...] = ()

    def __post_init__(self) -> None:
        check_follows(self.follows, len(self.stretches))


def said_follows(follows: Sequence[int]) -> tuple[int, ...]:
    """What some runs follow, as it is said: not at all if all of them follow their own starts."""
    return tuple(follows) if any(follows) else ()


def check_follows(follows: tuple[int, ...], count: int) -> None:
    """`InvalidInput` unless it is said of so many runs, or of none."""
    if len(follows) not in (0, count):
        raise InvalidInput(f"{len(follows)} of {count} runs say what they follow")
