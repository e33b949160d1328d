"""Which versions objects have, and where: an index for each shard, built from the log. Pure.

An object's versions are in one shard as long as that takes appends, so that a shard is the object's own stream (Scalog
§5.3, vScalog). When it moves it has versions in two, and the newest is the one with the highest position.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ithaca.model.records import Record


class Version(NamedTuple):
    """One version of an object: what was put at this position, in this shard.

    >>> Version(b"page", position=7, shard=0).position
    7
    """

    object: bytes
    position: int
    shard: int


class VersionIndex:
    """The positions of every object's versions, by shard."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = len(prefix)
        self._shards: dict[int, dict[bytes, array[int]]] = {}
        self._position = 1

    def add(self, records: Iterable[Record]) -> None:
        """Records in the order of their positions; those that were added before are passed over."""
        for record in records:
            if record.position < self._position:
                continue
            self._position = record.position + 1
            assert record.key is not None
            index = self._shards.setdefault(record.shard, {})
            name = record.key[self._prefix :]
            positions = index.get(name)
            if positions is None:
                positions = index[name] = array("q")
            positions.append(record.position)

    def newest(self, name: bytes, position_max: int | None = None) -> Version | None:
        """The newest version of an object, of those up to this position."""
        best: Version | None = None
        for shard, index in self._shards.items():
            positions = index.get(name)
            if positions is None:
                continue
            at = len(positions) if position_max is None else bisect_right(positions, position_max)
            if at and (best is None or positions[at - 1] > best.position):
                best = Version(name, positions[at - 1], shard)
        return best

    def history(self, name: bytes) -> list[Version]:
        """All versions of an object, the oldest first."""
        return sorted(
            (
                Version(name, position, shard)
                for shard, index in self._shards.items()
                for position in index.get(name, ())
            ),
            key=lambda version: version.position,
        )

    def objects(self, shard: int | None = None) -> Iterator[bytes]:
        """The names of the objects that have a version, in this shard if one is named."""
        found: set[bytes] = set()
        for number, index in self._shards.items():
            if shard is None or number == shard:
                found |= index.keys()
        return iter(sorted(found))

    def shards(self) -> dict[int, int]:
        """How many objects have a version in each shard."""
        return {shard: len(index) for shard, index in sorted(self._shards.items())}
