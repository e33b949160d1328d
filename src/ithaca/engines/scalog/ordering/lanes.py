"""The lanes and how far each is ordered: where a cut turns into positions (Scalog §4.1).

Lanes that may grow stand in sorted vectors, one row each, so that a cut costs a few vector operations over
the lanes that moved, however many records they hold. A closed lane leaves the vectors; that alone makes
cuts pass over it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import numpy as np

from ithaca.engines.scalog.ordering.closed_lanes import ClosedLane, ClosedLanes
from ithaca.model.cut import FEW, LaneLengths, Vector, lane_key, pack, shard_rows, unpack
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId

NEVER = int(np.iinfo(np.int64).max)
"""As a version of the view: no cut counts."""


class Runs(NamedTuple):
    """What a cut orders, in lane order: `counts` records of lanes `keys` from `lsns`, at `positions`."""

    keys: Vector
    lsns: Vector
    counts: Vector
    positions: Vector

    @property
    def total(self) -> int:
        """Records in all of them."""
        return int(self.counts.sum())


NO_RUNS = Runs(*(np.empty(0, np.int64) for _ in range(4)))


class PackedLanes(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot."""

    keys: bytes
    lengths: bytes
    ends: bytes
    since: bytes
    closed: list[tuple[LaneId, ClosedLane]] = []
    """Of version 1; since then they are columns."""
    closed_keys: bytes = b""
    closed_lengths: bytes = b""
    closed_ends: bytes = b""

    def __post_init__(self) -> None:
        LaneLengths(unpack(self.keys), unpack(self.lengths)).check()
        if not len(self.keys) == len(self.ends) == len(self.since):
            raise InvalidInput("the columns of the open lanes are not of one length")
        if self.closed and self.closed_keys:
            raise InvalidInput("there are closed lanes of two versions")
        self.closed_lanes()

    def closed_lanes(self) -> ClosedLanes:
        if self.closed:
            return ClosedLanes(dict(self.closed))
        return ClosedLanes.of_columns(*map(unpack, (self.closed_keys, self.closed_lengths, self.closed_ends)))


class LaneTable:
    """Open lanes as vectors, closed ones by name."""

    def __init__(self) -> None:
        self.keys: Vector = np.empty(0, np.int64)
        self.lengths: Vector = np.empty(0, np.int64)
        self._ends: Vector = np.empty(0, np.int64)
        self._since: Vector = np.empty(0, np.int64)
        """The first version of the view whose cuts count for the lane: when its shard's epoch began."""
        self._row_of: dict[int, int] | None = None
        """Rows by key, made when they are asked for: lanes that are opened one after the other ask for none."""
        self.closed = ClosedLanes()
        self.parts: Counter[int] = Counter()
        """How many published parts of each shard are among the closed lanes."""
        self.own_to: dict[LaneId, int] = {}
        """Of open lanes that have positions of their own, whether they use them or not: where those end."""

    @property
    def parts_most(self) -> int:
        """Published parts of which something is left, in the shard that has most of them."""
        return max(self.parts.values(), default=0)

    def open(self, lane: LaneId, since: int) -> None:
        """A new lane, of length 0."""
        key = lane_key(lane)
        row = int(np.searchsorted(self.keys, key))
        assert row == len(self.keys) or self.keys[row] != key, f"lane {lane} is open"
        assert lane not in self.closed, f"lane {lane} is closed"
        self._set(
            np.insert(self.keys, row, key),
            np.insert(self.lengths, row, 0),
            np.insert(self._ends, row, 0),
            np.insert(self._since, row, since),
        )

    def close(self, lane: LaneId) -> ClosedLane:
        """Take an open lane out of the order, at the length it has."""
        row = self._row(lane)
        assert row is not None, f"lane {lane} is not open"
        closed = ClosedLane(int(self.lengths[row]), max(int(self._ends[row]), self.own_to.pop(lane, 0)))
        self._set(*(np.delete(column, row) for column in (self.keys, self.lengths, self._ends, self._since)))
        self.closed.add(lane, closed)
        return closed

    def close_at(self, lane: LaneId, length: int, end: int) -> None:
        """Take in a published part, which never was an open lane."""
        self.closed.add(lane, ClosedLane(length, end))
        self.parts[lane.shard] += 1

    def is_open(self, lane: LaneId) -> bool:
        return self._row(lane) is not None

    def ordered_end(self, lane: LaneId) -> int:
        """The position behind the last record of an open lane, 0 if it has none."""
        row = self._row(lane)
        assert row is not None, f"lane {lane} is not open"
        return int(self._ends[row])

    def ordered_length(self, lane: LaneId) -> int | None:
        """How much of the lane is ordered, None for a lane that never was or was forgotten."""
        row = self._row(lane)
        if row is not None:
            return int(self.lengths[row])
        closed = self.closed.get(lane)
        return closed.length if closed else None

    def gate(self, shard: int, since: int) -> None:
        """From now on only cuts of this version of the view, or later, count for the shard."""
        self._since[shard_rows(self.keys, shard)] = since

    def ordered_lengths(self, shard: int) -> dict[LaneId, int]:
        """The ordered length of every lane of the shard, open and closed, in order."""
        rows = shard_rows(self.keys, shard)
        lengths = LaneLengths(self.keys[rows], self.lengths[rows]).to_dict()
        lengths |= self.closed.lengths(shard)
        return dict(sorted(lengths.items()))

    def growing(self, moved: LaneLengths, view: int) -> LaneLengths:
        """The part of a cut that orders something."""
        return self._grown(moved, view)[1]

    def order(self, moved: LaneLengths, view: int, tail: int) -> Runs:
        """Take the maximum of each lane, and give positions from `tail` on to what that adds."""
        rows, grown = self._grown(moved, view)
        if len(rows) == 1:
            return self._order_one(int(rows[0]), grown, tail)
        lsns = self.lengths[rows]
        counts = grown.lengths - lsns
        stops = tail + np.cumsum(counts)
        self.lengths[rows] = grown.lengths
        self._ends[rows] = stops
        return Runs(grown.keys, lsns, counts, stops - counts)

    def order_at(self, moved: LaneLengths, positions: Vector) -> Runs:
        """Give these positions, and those behind each, to what lanes have grown by: all are open, and all grow."""
        rows, grown = self._grown(moved, NEVER)
        assert len(grown) == len(moved) == len(positions), "a lane is closed, or does not grow"
        lsns = self.lengths[rows]
        counts = grown.lengths - lsns
        self.lengths[rows] = grown.lengths
        self._ends[rows] = positions + counts
        return Runs(grown.keys, lsns, counts, positions)

    def _order_one(self, row: int, grown: LaneLengths, tail: int) -> Runs:
        """A single lane has moved: the usual case of a log that is not busy."""
        lsn, length = int(self.lengths[row]), int(grown.lengths[0])
        self.lengths[row] = length
        self._ends[row] = tail + length - lsn
        lsns, counts, positions = np.array([[lsn], [length - lsn], [tail]], np.int64)
        return Runs(grown.keys, lsns, counts, positions)

    def _grown(self, moved: LaneLengths, view: int) -> tuple[Vector, LaneLengths]:
        """The rows of the lanes that a cut orders something of, and their new lengths."""
        if len(moved) <= FEW:
            return self._few_grown(moved, view)
        if not len(self.keys):
            return np.empty(0, np.int64), LaneLengths(self.keys[:0], self.lengths[:0])
        rows = np.minimum(np.searchsorted(self.keys, moved.keys), len(self.keys) - 1)
        grows = (self.keys[rows] == moved.keys) & (self._since[rows] <= view) & (self.lengths[rows] < moved.lengths)
        return rows[grows], LaneLengths(moved.keys[grows], moved.lengths[grows])

    def _few_grown(self, moved: LaneLengths, view: int) -> tuple[Vector, LaneLengths]:
        rows: list[int] = []
        pairs: list[tuple[int, int]] = []
        row_of = self._rows()
        for key, length in moved.pairs():
            row = row_of.get(key)
            if row is not None and self._since[row] <= view and self.lengths[row] < length:
                rows.append(row)
                pairs.append((key, length))
        grown = moved if len(pairs) == len(moved) else LaneLengths.of_pairs(pairs)
        return np.array(rows, np.int64), grown

    def forget(self, first: int, pinned: set[LaneId]) -> list[LaneId]:
        """Drop closed lanes that have no record at `first` or behind it, in order."""
        return self.drop(lane for lane in self.closed.ended(first) if lane not in pinned)

    def is_empty(self, lane: LaneId) -> bool:
        """Whether the lane is closed, and has no record."""
        closed = self.closed.get(lane)
        return closed is not None and not closed.length

    def drop(self, lanes: Iterable[LaneId]) -> list[LaneId]:
        """Forget closed lanes; returns them in order."""
        gone = sorted(lanes)
        self.closed.drop(gone)
        for lane in gone:
            self.parts[lane.shard] -= lane.is_part
        return gone

    def has_lanes(self, shard: int) -> bool:
        rows = shard_rows(self.keys, shard)
        return rows.start < rows.stop or self.closed.has_lane_of(shard)

    def packed(self) -> PackedLanes:
        closed_keys, closed_lengths, closed_ends = map(pack, self.closed.columns())
        return PackedLanes(
            *(pack(self.keys), pack(self.lengths), pack(self._ends), pack(self._since)),
            closed_keys=closed_keys,
            closed_lengths=closed_lengths,
            closed_ends=closed_ends,
        )

    @classmethod
    def restored(cls, packed: PackedLanes) -> "LaneTable":
        table = cls()
        # Copies: what is unpacked is read-only, and lengths are updated in place.
        table._set(*(unpack(data).copy() for data in (packed.keys, packed.lengths, packed.ends, packed.since)))
        table.closed = packed.closed_lanes()
        table.parts = table.closed.parts()
        return table

    def _row(self, lane: LaneId) -> int | None:
        return self._rows().get(lane_key(lane))

    def _rows(self) -> dict[int, int]:
        if self._row_of is None:
            self._row_of = {key: row for row, key in enumerate(self.keys.tolist())}
        return self._row_of

    def _set(self, keys: Vector, lengths: Vector, ends: Vector, since: Vector) -> None:
        self.keys, self.lengths, self._ends, self._since = keys, lengths, ends, since
        self._row_of = None
