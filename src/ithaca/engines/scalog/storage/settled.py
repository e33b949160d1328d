"""Where the lanes in packs are, by lane and by position: vectors, so that many lanes cost little.

A `SettledLanes` never changes: whoever makes or drops packs puts another one in its place. Look-ups cost the logarithm
of the number of lanes, and what overlaps: a position is asked of the lanes alone that have records on both sides of it.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ithaca.engines.scalog.storage.pack import ENTRY, HAS_HOLES, Entries, PackedAt, packed_at
from ithaca.model.cut import lane_key, lane_of
from ithaca.model.positions import LaneId

_BLOCK = 256
"""Lanes whose largest end is kept as one number."""
Ints = NDArray[np.int64]


class SettledLanes:
    """The lanes of some packs."""

    def __init__(self, packs: Sequence[tuple[int, Entries]] = ()) -> None:
        """Packs by number, each with the entries of the lanes in it; no lane is in two of them."""
        entries = np.concatenate([each for _, each in packs]) if packs else np.empty(0, ENTRY)
        numbers = [np.full(len(each), number, np.int64) for number, each in packs]
        order = np.argsort(entries["key"], kind="stable")
        self._entries: Entries = entries[order]
        self._packs: Ints = np.concatenate(numbers)[order] if packs else np.empty(0, np.int64)
        self._keys: Ints = np.ascontiguousarray(self._entries["key"])
        by_start = np.argsort(self._entries["start_position"], kind="stable")
        self._by_start: Ints = by_start[self._entries["end_position"][by_start] > 0]  # the others have no positions
        self._starts: Ints = self._entries["start_position"][self._by_start]
        self._ends: Ints = self._entries["end_position"][self._by_start]
        blocks = np.arange(0, len(self._ends), _BLOCK)
        self._block_ends: Ints = np.maximum.reduceat(self._ends, blocks) if len(blocks) else np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, lane: LaneId) -> bool:
        return self._row(lane) is not None

    def find(self, lane: LaneId) -> tuple[int, PackedAt] | None:
        """The number of the lane's pack, and where it is in there."""
        row = self._row(lane)
        return None if row is None else (int(self._packs[row]), packed_at(self._entries[row]))

    def lengths(self) -> Iterator[tuple[LaneId, int, bool]]:
        """Each lane with its length, and whether it has holes."""
        columns = (self._entries[name].tolist() for name in ("key", "length", "flags"))
        for key, length, flags in zip(*columns, strict=True):
            yield lane_of(key), length, bool(flags & HAS_HOLES)

    def has_lane_of(self, replica: int) -> bool:
        return any(lane_of(key).replica == replica for key in self._keys.tolist())

    def around(self, position: int) -> list[LaneId]:
        """The lanes that begin at or before a position and end behind it."""
        stop = int(np.searchsorted(self._starts, position, "right"))
        found: list[LaneId] = []
        for block in np.flatnonzero(self._block_ends[: -(-stop // _BLOCK)] > position).tolist():
            low, high = block * _BLOCK, min(stop, (block + 1) * _BLOCK)
            found += (self._lane(low + row) for row in np.flatnonzero(self._ends[low:high] > position).tolist())
        return found

    def next_after(self, position: int) -> tuple[int, LaneId] | None:
        """The lane that begins next behind a position, and where."""
        at = int(np.searchsorted(self._starts, position, "right"))
        return None if at == len(self._starts) else (int(self._starts[at]), self._lane(at))

    def by_time(self, time_us: int, first: int) -> tuple[int | None, list[LaneId]]:
        """Where the first lane begins of those that begin at this time or later, and the lanes that lie across it.

        Of those that lie across `first` nobody knows without looking, so they are among the latter.
        """
        entries = self._entries[self._by_start]
        later = (entries["start_us"] >= time_us) & (self._starts >= first)
        across = ~later & (entries["end_us"] >= time_us) & (self._ends > first)
        starts = self._starts[later]
        return (int(starts[0]) if len(starts) else None), list(map(self._lane, np.flatnonzero(across).tolist()))

    def by_end(self, first: int) -> tuple[Ints, Ints]:
        """Where the lanes end that do so behind a position, the last one first, and the bytes of each."""
        kept = np.flatnonzero(self._ends > first)
        order = kept[np.argsort(-self._ends[kept], kind="stable")]
        return self._ends[order], self._entries["entries_bytes"][self._by_start[order]]

    def _lane(self, at: int) -> LaneId:
        return lane_of(int(self._keys[self._by_start[at]]))

    def _row(self, lane: LaneId) -> int | None:
        key = lane_key(lane)
        row = int(np.searchsorted(self._keys, key))
        return row if row < len(self._keys) and self._keys[row] == key else None
