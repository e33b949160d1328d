"""A cut as several shards are told of it together: what an aggregator gets instead of a message for each shard."""

from collections.abc import Collection
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from ithaca.engines.scalog.ordering.outcomes import OrderedCut
from ithaca.model.cut import LaneLengths, Vector, check_follows, pack, shard_numbers, unpack
from ithaca.model.errors import InvalidInput

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]


class CutPart(msgspec.Struct, frozen=True, array_like=True, tag="cut-part"):
    """The runs that some shards have in a cut, as vectors of 64-bit numbers; the others are left out.

    Without `follows` each run follows its own start.
    """

    number: _Natural
    tail: _Natural
    time_us: _Natural
    keys: bytes
    lsns: bytes
    counts: bytes
    positions: bytes
    follows: bytes = b""

    def __post_init__(self) -> None:
        keys, positions = unpack(self.keys), unpack(self.positions)
        LaneLengths(keys, unpack(self.lsns)).check()
        LaneLengths(keys, unpack(self.counts)).check()
        if len(positions) != len(keys):
            raise InvalidInput(f"cut {self.number} has {len(positions)} positions for {len(keys)} runs")
        if len(positions) and not 0 < int(positions.min()) <= int(positions.max()) < self.tail:
            raise InvalidInput(f"cut {self.number} has positions outside 1..{self.tail - 1}")
        check_follows(self.number, positions, unpack(self.follows))

    @classmethod
    def of(cls, cut: OrderedCut, shards: Vector | None = None) -> "CutPart":
        """The part of these shards, or all of the cut."""
        columns = [cut.keys, cut.lsns, cut.counts, cut.positions, *([] if cut.follows is None else [cut.follows])]
        if shards is not None and len(cut.keys):
            rows = np.isin(shard_numbers(cut.keys), shards)
            columns = [column[rows] for column in columns]
        return cls(cut.number, cut.tail, cut.time_us, *map(pack, columns))

    def unpacked(self) -> OrderedCut:
        keys, lsns, counts, positions = map(unpack, (self.keys, self.lsns, self.counts, self.positions))
        follows = unpack(self.follows) if self.follows else None
        return OrderedCut(self.number, self.tail, self.time_us, keys, lsns, counts, positions, follows)


def shard_vector(shards: Collection[int]) -> Vector:
    return np.fromiter(shards, np.int64, len(shards))
