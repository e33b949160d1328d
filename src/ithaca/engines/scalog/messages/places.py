"""Where records lie on the disk of a replica, for readers on its machine: they open the files themselves.

The replica alone knows what is ordered, and where; what it says is that, and nothing that it holds passes through it.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

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

    A stretch is a lane, an LSN of it, the position there, and how many records follow. The shard has no others below
    `up_to`.
    """

    directory: str
    device: _Natural
    inode: _Natural
    stretches: tuple[tuple[LaneId, _Natural, _Counted, _Counted], ...]
    up_to: _Counted
