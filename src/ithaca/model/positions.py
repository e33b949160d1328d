"""Places in the log, and the only conversions between them.

A *position* is a record's place in the total order: positions start at 1, rise and are never reused, and 0 means
"before the first". Where an engine has `Feature.DENSE` every position below the tail holds a record; elsewhere some
hold none and never will, so that records are not counted by subtracting positions. A batch's records are next to each
other everywhere. An *LSN* is a record's place in one lane, from 0. Ranges are half-open.
"""

from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from ithaca.model.limits import INCARNATION_MAX, PART_INCARNATION_MIN, REPLICA_NUMBER_MAX, SHARD_NUMBER_MAX

FIRST: Final = 1
"""The first position."""


class LaneId(NamedTuple):
    """The FIFO sequence of records that one start of one replica accepted. Lanes sort in this order.

    One that is decoded is within the bounds of what can exist.
    """

    shard: Annotated[int, Meta(ge=0, le=SHARD_NUMBER_MAX)]
    replica: Annotated[int, Meta(ge=0, le=REPLICA_NUMBER_MAX)]
    incarnation: Annotated[int, Meta(ge=1, le=INCARNATION_MAX)]

    @property
    def is_part(self) -> bool:
        """Whether it is a prepared part: written once, and ordered as a whole or not at all."""
        return self.incarnation >= PART_INCARNATION_MIN

    def __str__(self) -> str:
        return f"{self.shard}-{self.replica}-{self.incarnation}"


def position_of(lsn: int) -> int:
    """The position of a record in a log that has a single lane (the embedded log)."""
    return lsn + 1


def lsn_of(position: int) -> int:
    """The inverse of `position_of`."""
    return position - 1
