"""What applying an entry did: what shards, clients and whoever asked must be told.

Outcomes of one entry stand in the order in which they happened. Each may be told twice without harm: they
say what is so, not what to add.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise, repeat
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from ithaca.engines.scalog.ordering.entries import OrderingEntry
from ithaca.engines.scalog.ordering.lost import Unplaced
from ithaca.engines.scalog.ordering.prepared.outcomes import PartOutcome
from ithaca.model.consumers import ConsumerOutcome
from ithaca.model.cut import (
    FEW,
    LaneLengths,
    LaneRun,
    ShardCut,
    Vector,
    check_follows,
    lanes_of,
    pack,
    shard_numbers,
    shard_rows,
    shards_of,
    unpack,
)
from ithaca.model.errors import InvalidInput
from ithaca.model.positions import LaneId
from ithaca.model.security.users import UserOutcome
from ithaca.model.view import ClusterConfiguration, Shard
from ithaca.users.names import ANONYMOUS

_Natural = Annotated[int, Meta(ge=0, lt=1 << 62)]

Reason = Literal[
    "the log is not configured",
    "the state is full",
    "another log",
    "another engine",
    "no such shard",
    "the shard was reclaimed",
    "another shard has this number",
    "another replica has this address",
    "no other shard is live",
    "too many replicas",
    "no such replica",
    "replica number was used",
    "too few replicas would remain",
    "the shard is complete",
    "the configuration has changed",
    "the replica has started again since",
    "too many incarnations",
    "the shard is finalized",
    "the shard is finalizing",
    "no such lane",
    "the lane is closed",
    "another lane of the shard is open",
    "the lane is to be taken over first",
    "a publication waits",
    "too many publications",
    "beyond the tail",
    "beyond what is ordered",
    "the lane does not end there",
    "too many lost ranges",
    "too many parts",
    "too many published parts",
    "no such part",
    "the part has another length",
    "too many writers",
    "no such writer",
    "the writer has published since",
    "too many sessions",
    "no such session",
    "the session was opened again",
    "the session lives elsewhere",
    "the source is not closed",
]


class Configured(msgspec.Struct, frozen=True, array_like=True, tag="configured"):
    configuration: ClusterConfiguration


class ViewChanged(msgspec.Struct, frozen=True, array_like=True, tag="view-changed"):
    """The shard as it is in this version of the view; None when it was reclaimed."""

    version: int
    shard: int
    now: Shard | None


class LaneOpened(msgspec.Struct, frozen=True, array_like=True, tag="lane-opened"):
    """The replica's start number `boot` got this lane."""

    lane: LaneId
    boot: int


class LaneClosed(msgspec.Struct, frozen=True, array_like=True, tag="lane-closed"):
    """Every holder cuts its copy to this length, or fetches the rest from a peer."""

    lane: LaneId
    length: int


class FinalizedShard(msgspec.Struct, frozen=True, array_like=True, tag="shard-finalized"):
    """Cut `cut` was the last one for this shard; the closing of its lanes stands before this."""

    shard: int
    cut: int


class Session(msgspec.Struct, frozen=True, array_like=True):
    """A session: only batches of its epoch, and only its home accepts them."""

    producer_id: int
    name: str
    epoch: int
    home: LaneId
    unused: tuple[LaneId, ...] = ()
    """Older versions had a field here that nobody used; it is empty."""
    carried: bytes = b""
    """What the home before this one knew of it."""
    active_us: int = 0
    """The order's time at which it was opened, was moved, lost its home or was seen to have appended; 0: not known."""
    seen_seq: int = 0
    """The number with which it would have gone on when the leader last asked its home; 0: it never did."""

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody will ask for its name again."""
        return self.name.startswith(ANONYMOUS)


class SessionOpened(msgspec.Struct, frozen=True, array_like=True, tag="session-opened"):
    session: Session


class SessionMoved(msgspec.Struct, frozen=True, array_like=True, tag="session-moved"):
    session: Session
    source: LaneId


class ExpiredSession(msgspec.Struct, frozen=True, array_like=True, tag="session-expired"):
    session: Session


class TrimmedLog(msgspec.Struct, frozen=True, array_like=True, tag="trimmed"):
    """`first` is the first position that can be read; of `lanes` nothing can, so nobody need keep them."""

    first: int
    lanes: tuple[LaneId, ...] = ()


class RangeLost(msgspec.Struct, frozen=True, array_like=True, tag="range-lost"):
    """The LSNs `[start, stop)` of the lane are gone. If `unplaced` is there, so are the positions of what is behind."""

    lane: LaneId
    start: int
    stop: int
    unplaced: Unplaced | None = None


class RefusedEntry(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """The entry changed nothing."""

    entry: OrderingEntry
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class OrderedCut:
    """A cut with the positions it assigned: run n is `counts[n]` records of lane `keys[n]` from `lsns[n]` on,
    at `positions[n]` and up. Runs stand in lane order, and so do their positions, unless parts were published in
    another one. Where positions are dense, they are together contiguous up to the tail, and each follows its own start;
    else `follows` says where the record before each run ends, 0 for its own start.
    """

    number: int
    tail: int
    """The next position after this cut."""
    time_us: int
    keys: Vector
    lsns: Vector
    counts: Vector
    positions: Vector
    follows: Vector | None = None

    def columns(self, rows: slice = slice(None)) -> Iterator[tuple[int, int, int, int, int]]:
        """Of each run the lane's key, the LSN, the position, the count, and what it follows."""
        follows = np.zeros(len(self.keys), np.int64) if self.follows is None else self.follows
        columns = (self.keys, self.lsns, self.positions, self.counts, follows)
        return zip(*(column[rows].tolist() for column in columns), strict=True)

    @property
    def shards(self) -> list[int]:
        """The shards that have a run in this cut."""
        return shards_of(self.keys)

    def of_shard(self, shard: int) -> ShardCut:
        """What this shard is streamed."""
        return ShardCut(shard, self.number, self.tail, self.time_us, tuple(self._runs(shard_rows(self.keys, shard))))

    def runs_by_shard(self) -> dict[int, tuple[LaneRun, ...]]:
        """The runs of each shard that has some, taken apart in one go: one cut is news for very many shards."""
        if len(self.keys) <= FEW:
            return {shard: tuple(runs) for shard, runs in groupby(self._runs(), lambda run: run.lane.shard)}
        shards = shard_numbers(self.keys)
        starts = np.flatnonzero(np.diff(shards, prepend=-1))
        runs, places = tuple(self._runs()), pairwise([*starts.tolist(), len(shards)])
        return {shard: runs[start:stop] for shard, (start, stop) in zip(shards[starts].tolist(), places, strict=True)}

    def _runs(self, rows: slice = slice(None)) -> Iterator[LaneRun]:
        keys, lsns, positions, counts = (column[rows] for column in (self.keys, self.lsns, self.positions, self.counts))
        follows = repeat(0, len(keys)) if self.follows is None else self.follows[rows].tolist()
        return map(LaneRun, lanes_of(keys), lsns.tolist(), positions.tolist(), counts.tolist(), follows)


class PackedCut(msgspec.Struct, frozen=True, array_like=True):
    """An `OrderedCut` in a snapshot; positions that are missing follow from the tail and the counts.

    Without `follows` each run follows its own start.
    """

    number: _Natural
    tail: _Natural
    time_us: _Natural
    keys: bytes
    lsns: bytes
    counts: bytes
    positions: bytes = b""
    follows: bytes = b""

    def __post_init__(self) -> None:
        keys, counts = unpack(self.keys), unpack(self.counts)
        LaneLengths(keys, unpack(self.lsns)).check()
        LaneLengths(keys, counts).check()
        if int(counts.sum()) > self.tail:
            raise InvalidInput(f"cut {self.number} orders more than there is below its tail of {self.tail}")
        positions = unpack(self.positions)
        if len(positions) not in (0, len(counts)) or (len(positions) and int(positions.max()) >= self.tail):
            raise InvalidInput(f"cut {self.number} has positions that its tail of {self.tail} does not allow")
        check_follows(self.number, self._positions(counts), unpack(self.follows))

    @classmethod
    def of(cls, cut: OrderedCut) -> "PackedCut":
        in_order = np.array_equal(cut.positions, _positions_below(cut.tail, cut.counts))
        positions = b"" if in_order else pack(cut.positions)
        follows = b"" if cut.follows is None else pack(cut.follows)
        return cls(
            cut.number, cut.tail, cut.time_us, pack(cut.keys), pack(cut.lsns), pack(cut.counts), positions, follows
        )

    def unpacked(self) -> OrderedCut:
        counts = unpack(self.counts)
        positions = self._positions(counts)
        follows = unpack(self.follows) if self.follows else None
        return OrderedCut(
            self.number, self.tail, self.time_us, unpack(self.keys), unpack(self.lsns), counts, positions, follows
        )

    def _positions(self, counts: Vector) -> Vector:
        return unpack(self.positions) if self.positions else _positions_below(self.tail, counts)


def _positions_below(tail: int, counts: Vector) -> Vector:
    """Where runs of these counts begin that stand one behind the other up to the tail."""
    return tail - np.cumsum(counts[::-1])[::-1]


class ConsumersTold(msgspec.Struct, frozen=True):
    """What came of each command of a `ConsumerChanges`."""

    outcomes: tuple[ConsumerOutcome, ...]


class UsersTold(msgspec.Struct, frozen=True):
    """What came of each command of a `UserChanges`."""

    outcomes: tuple[UserOutcome, ...]


class EngineOutcome(msgspec.Struct, frozen=True):
    """What only an engine that is built on this one has."""


Outcome = (
    Configured
    | ViewChanged
    | LaneOpened
    | LaneClosed
    | FinalizedShard
    | OrderedCut
    | TrimmedLog
    | PartOutcome
    | SessionOpened
    | SessionMoved
    | ExpiredSession
    | RangeLost
    | RefusedEntry
    | ConsumersTold
    | UsersTold
    | EngineOutcome
)
