"""The lanes that never grow again, as columns: there may be a million of them.

Those that were closed lately stand in a dictionary beside the columns, and go into them together.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from ithaca.model.cut import LaneLengths, Vector, lane_key, lane_of, shard_numbers, shard_of, shard_rows
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import INCARNATION_MAX, LANE_RECORDS_MAX, PART_INCARNATION_MIN
from ithaca.model.positions import LaneId

_RECENT_MAX = 4096
"""So many stand beside the columns at most."""
_END_MAX = (1 << 62) - 1


class ClosedLane(msgspec.Struct, frozen=True, array_like=True):
    """A lane that never grows again: its ordered length, and the position behind its last record (or 0)."""

    length: Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]
    end: Annotated[int, Meta(ge=0, le=_END_MAX)]


class ClosedLanes:
    """A mapping of lanes, in order; what is dropped is dropped together."""

    def __init__(self, lanes: Mapping[LaneId, ClosedLane] | None = None) -> None:
        self._keys: Vector = np.empty(0, np.int64)
        self._lengths: Vector = np.empty(0, np.int64)
        self._ends: Vector = np.empty(0, np.int64)
        self._recent: dict[int, ClosedLane] = {lane_key(lane): closed for lane, closed in (lanes or {}).items()}

    @classmethod
    def of_columns(cls, keys: Vector, lengths: Vector, ends: Vector) -> "ClosedLanes":
        """`InvalidInput` unless lanes are in order, each once, and what is said of them is possible."""
        LaneLengths(keys, lengths).check()
        if len(keys) != len(ends) or bool(((ends < 0) | (ends > _END_MAX) | (keys & INCARNATION_MAX == 0)).any()):
            raise InvalidInput("closed lanes, or where they end, are not what can be")
        closed = cls()
        closed._keys, closed._lengths, closed._ends = keys, lengths, ends
        return closed

    def columns(self) -> tuple[Vector, Vector, Vector]:
        """The keys of all lanes in order, their lengths and their ends; none of them is changed later."""
        if self._recent:
            keys = sorted(self._recent)
            values = [self._recent[key] for key in keys]
            rows = np.searchsorted(self._keys, keys)
            self._keys = np.insert(self._keys, rows, keys)
            self._lengths = np.insert(self._lengths, rows, [closed.length for closed in values])
            self._ends = np.insert(self._ends, rows, [closed.end for closed in values])
            self._recent = {}
        return self._keys, self._lengths, self._ends

    def __len__(self) -> int:
        return len(self._keys) + len(self._recent)

    def __contains__(self, lane: LaneId) -> bool:
        return self.get(lane) is not None

    def __getitem__(self, lane: LaneId) -> ClosedLane:
        closed = self.get(lane)
        if closed is None:
            raise KeyError(lane)
        return closed

    def get(self, lane: LaneId) -> ClosedLane | None:
        key = lane_key(lane)
        recent = self._recent.get(key)
        if recent is not None:
            return recent
        row = self._row(key)
        return None if row is None else ClosedLane(int(self._lengths[row]), int(self._ends[row]))

    def items(self) -> Iterator[tuple[LaneId, ClosedLane]]:
        for key, length, end in zip(*(column.tolist() for column in self.columns()), strict=True):
            yield lane_of(key), ClosedLane(length, end)

    def add(self, lane: LaneId, closed: ClosedLane) -> None:
        assert lane not in self, f"lane {lane} is closed"
        self._recent[lane_key(lane)] = closed
        if len(self._recent) > _RECENT_MAX:
            self.columns()

    def drop(self, lanes: Collection[LaneId]) -> None:
        """Forget lanes, all of which are here."""
        old = [key for key in map(lane_key, lanes) if self._recent.pop(key, None) is None]
        if old:
            rows = np.searchsorted(self._keys, old)
            assert (self._keys[np.minimum(rows, len(self._keys) - 1)] == old).all()
            self._keys, self._lengths, self._ends = (
                np.delete(column, rows) for column in (self._keys, self._lengths, self._ends)
            )

    def ended(self, first: int) -> list[LaneId]:
        """The lanes that have no record at a position or behind it, in order."""
        old = self._keys[self._ends <= first].tolist()
        return list(map(lane_of, sorted(old + [key for key, closed in self._recent.items() if closed.end <= first])))

    def lengths(self, shard: int) -> dict[LaneId, int]:
        """How long each lane of a shard is."""
        rows = shard_rows(self._keys, shard)
        lengths = LaneLengths(self._keys[rows], self._lengths[rows]).to_dict()
        return lengths | {lane_of(key): closed.length for key, closed in self._recent.items() if shard_of(key) == shard}

    def has_lane_of(self, shard: int) -> bool:
        rows = shard_rows(self._keys, shard)
        return rows.start < rows.stop or any(shard_of(key) == shard for key in self._recent)

    def parts(self) -> Counter[int]:
        """How many parts of each shard are among them."""
        keys = self.columns()[0]
        are_parts = (keys & INCARNATION_MAX) >= PART_INCARNATION_MIN
        shards, counts = np.unique(shard_numbers(keys[are_parts]), return_counts=True)
        return Counter(dict(zip(shards.tolist(), counts.tolist(), strict=True)))

    def _row(self, key: int) -> int | None:
        row = int(np.searchsorted(self._keys, key))
        return row if row < len(self._keys) and self._keys[row] == key else None
