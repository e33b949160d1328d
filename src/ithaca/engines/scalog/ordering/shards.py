"""Which shards and replicas there are, and how that changes: the view (Scalog §4.4, design §5 "Reconfigure").

Every change makes a new version of the view. A change of who belongs to a shard also raises the shard's
epoch, and from then on only cuts count that were proposed by a leader which knew it: then f+1 replicas of
the *present* configuration have synced what is ordered.
"""

from collections.abc import Container, Iterable
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Finalize,
    OpenLane,
    RegisterShard,
    RemoveReplica,
)
from ithaca.engines.scalog.ordering.lanes import NEVER, LaneTable
from ithaca.engines.scalog.ordering.outcomes import (
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    Outcome,
    RefusedEntry,
    ViewChanged,
)
from ithaca.model.limits import (
    BOOT_AHEAD_S_MAX,
    BOOT_LEAP_MAX,
    BOOT_MAX,
    ORDERING_REPLICAS_MAX,
    PART_INCARNATION_MIN,
    SHARD_REPLICAS_MAX,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Replica, Shard, View

T = TypeVar("T")

SHARD_BYTES = 80
REPLICA_BYTES = 40
"""What a shard, and a replica without its host, take in a snapshot at most."""


class Grace(msgspec.Struct, frozen=True, array_like=True):
    """When a finalizing shard is finalized: with the first cut that is this late, by number and by time."""

    cut: Annotated[int, Meta(ge=0)]
    until_us: Annotated[int, Meta(ge=0)]

    def is_over(self, cut: int, time_us: int) -> bool:
        return cut >= self.cut and time_us >= self.until_us


class PackedShards(msgspec.Struct, frozen=True, array_like=True):
    """The table in a snapshot."""

    version: Annotated[int, Meta(ge=0, lt=1 << 62)]
    shards: list[Shard]
    graces: list[tuple[int, Grace]]
    reclaimed: list[int]


class ShardTable:
    """The shards by number. Every method takes effect, or returns a refusal and does nothing."""

    def __init__(self, lanes: LaneTable) -> None:
        self._lanes = lanes
        self.version = 0
        self.by_number: dict[int, Shard] = {}
        self.graces: dict[int, Grace] = {}
        self._reclaimed: set[int] = set()
        self.view_bytes = 0
        """A bound on what all shards take in a snapshot."""

    @property
    def number_last(self) -> int:
        """The highest number that a shard has ever had."""
        return max(max(self.by_number, default=0), max(self._reclaimed, default=0))

    @property
    def replica_last_most(self) -> int:
        """The highest number that a replica of any shard has ever had."""
        return max((shard.replica_last for shard in self.by_number.values()), default=0)

    @property
    def reclaimed_count(self) -> int:
        return len(self._reclaimed)

    @property
    def replica_count(self) -> int:
        """Replicas of all shards that are not finalized."""
        return sum(shard.size for shard in self.by_number.values() if shard.phase != "finalized")

    @property
    def view(self) -> View:
        return View(self.version, tuple(shard for _, shard in sorted(self.by_number.items())))

    def is_live(self, shard: int) -> bool:
        known = self.by_number.get(shard)
        return known is not None and known.phase == "live"

    def register(self, entry: RegisterShard) -> list[Outcome]:
        known = self.by_number.get(entry.shard)
        if known is not None:
            if _as_registered(known) == _as_registered(entry):
                return [ViewChanged(self.version, known.shard, known)]
            return [RefusedEntry(entry, "another shard has this number")]
        if entry.shard in self._reclaimed:
            return [RefusedEntry(entry, "another shard has this number")]
        if self._is_taken(address for _, address in entry.replicas):
            return [RefusedEntry(entry, "another replica has this address")]
        if self.replica_count + len(entry.replicas) > ORDERING_REPLICAS_MAX:
            return [RefusedEntry(entry, "too many replicas")]
        replicas = tuple(Replica(number, address) for number, address in entry.replicas)
        return [
            self._put(
                Shard(
                    entry.shard,
                    entry.f,
                    entry.masking,
                    replicas,
                    replica_last=replicas[-1].replica,
                    epoch_view=self.version + 1,
                )
            )
        ]

    def open_lane(self, entry: OpenLane) -> list[Outcome]:
        found = self._find(entry)
        if isinstance(found, RefusedEntry):
            return [found]
        shard, replica = found
        if shard.phase == "finalized":
            return [RefusedEntry(entry, "the shard is finalized")]
        if entry.boot < replica.boot:
            return [RefusedEntry(entry, "the replica has started again since")]
        lane = LaneId(shard.shard, replica.replica, replica.incarnation)
        if entry.boot == replica.boot:
            return [LaneOpened(lane, replica.boot) if replica.is_open else RefusedEntry(entry, "the lane is closed")]
        if replica.incarnation >= PART_INCARNATION_MIN - 1:
            return [RefusedEntry(entry, "too many incarnations")]
        outcomes: list[Outcome] = [self._close(lane)] if replica.is_open else []
        lane = lane._replace(incarnation=lane.incarnation + 1)
        self._lanes.open(lane, since=shard.epoch_view if shard.is_ordering else NEVER)
        started = msgspec.structs.replace(replica, boot=entry.boot, incarnation=lane.incarnation, is_open=True)
        outcomes += [LaneOpened(lane, entry.boot), self._put(_with(shard, started))]
        return outcomes

    def close_lane(self, entry: CloseLane) -> list[Outcome]:
        lane = entry.lane
        if not self._lanes.is_open(lane):
            closed = self._lanes.closed.get(lane)
            return [LaneClosed(lane, closed.length) if closed else RefusedEntry(entry, "no such lane")]
        return [self._close(lane), self.closed(lane)]

    def closed(self, lane: LaneId) -> ViewChanged:
        """An open lane was closed: the view says so."""
        shard = self.by_number[lane.shard]
        replica = shard.find(lane.replica)
        assert replica is not None, f"lane {lane} was open, and its replica is gone"
        return self._put(_with(shard, msgspec.structs.replace(replica, is_open=False)))

    def remove(self, entry: RemoveReplica) -> list[Outcome]:
        """The replica's lane is closed. A shard without masking orders nothing until it is complete again."""
        found = self._find(entry)
        if isinstance(found, RefusedEntry):
            return [found]
        shard, replica = found
        if entry.epoch != shard.epoch:
            return [RefusedEntry(entry, "the configuration has changed")]
        # Ordered records are on f+1 replicas, so that with f of them gone every one has a copy left.
        if len(shard.replicas) - 1 < shard.size - shard.f:
            return [RefusedEntry(entry, "too few replicas would remain")]
        lane = LaneId(shard.shard, replica.replica, replica.incarnation)
        outcomes: list[Outcome] = [self._close(lane)] if replica.is_open else []
        rest = tuple(each for each in shard.replicas if each.replica != replica.replica)
        return [*outcomes, self._reconfigure(shard, rest)]

    def add(self, entry: AddReplica) -> list[Outcome]:
        shard = self.by_number.get(entry.shard)
        if shard is None:
            return [RefusedEntry(entry, "no such shard")]
        known = shard.find(entry.replica)
        if known is not None and known.address == entry.address:
            return [ViewChanged(self.version, shard.shard, shard)]
        if entry.replica <= shard.replica_last:
            return [RefusedEntry(entry, "replica number was used")]
        if entry.epoch != shard.epoch:
            return [RefusedEntry(entry, "the configuration has changed")]
        if len(shard.replicas) >= (SHARD_REPLICAS_MAX if shard.phase == "finalized" else shard.size):
            return [RefusedEntry(entry, "the shard is complete")]
        if self._is_taken([entry.address]):
            return [RefusedEntry(entry, "another replica has this address")]
        grown = msgspec.structs.replace(shard, replica_last=entry.replica)
        return [self._reconfigure(grown, (*shard.replicas, Replica(entry.replica, entry.address)))]

    def finalize(self, entry: Finalize, cut: int) -> list[Outcome]:
        """At once, or with a grace from cut number `cut` on; at once also cuts a grace short."""
        shard = self.by_number.get(entry.shard)
        if shard is None:
            return [
                RefusedEntry(entry, "the shard was reclaimed" if self.was_reclaimed(entry.shard) else "no such shard")
            ]
        if shard.phase == "finalized":
            return [FinalizedShard(shard.shard, shard.final_cut)]
        if not entry.may_be_last and not any(self.is_live(other) for other in self.by_number if other != shard.shard):
            return [RefusedEntry(entry, "no other shard is live")]
        if entry.cuts == 0 and entry.until_us == 0:
            return self._finalize(shard, cut)
        if shard.phase == "finalizing":
            return [RefusedEntry(entry, "the shard is finalizing")]
        self.graces[shard.shard] = Grace(cut + entry.cuts, entry.until_us)
        return [self._put(msgspec.structs.replace(shard, phase="finalizing"))]

    def finalize_due(self, cut: int, time_us: int, later: Container[int] = ()) -> list[Outcome]:
        """Finalize the shards whose grace is over with this cut, which still counted for them; these with another."""
        over = sorted(shard for shard, grace in self.graces.items() if grace.is_over(cut, time_us))
        due = [shard for shard in over if shard not in later]
        return [outcome for shard in due for outcome in self._finalize(self.by_number[shard], cut)]

    def reclaim(self) -> list[Outcome]:
        """Drop finalized shards of which no lane is left; their numbers are never reused."""
        finalized = sorted(number for number, shard in self.by_number.items() if shard.phase == "finalized")
        outcomes: list[Outcome] = []
        for number in finalized:
            if not self._lanes.has_lanes(number):
                self.view_bytes -= _bytes(self.by_number.pop(number))
                self._reclaimed.add(number)
                self.version += 1
                outcomes.append(ViewChanged(self.version, number, None))
        return outcomes

    def packed(self) -> PackedShards:
        return PackedShards(
            self.version, list(self.view.shards), sorted(self.graces.items(), key=_first), sorted(self._reclaimed)
        )

    @classmethod
    def restored(cls, packed: PackedShards, lanes: LaneTable) -> "ShardTable":
        table = cls(lanes)
        table.version = packed.version
        table.by_number = {shard.shard: shard for shard in packed.shards}
        table.graces = dict(packed.graces)
        table._reclaimed = set(packed.reclaimed)
        table.view_bytes = sum(map(_bytes, packed.shards))
        return table

    def was_reclaimed(self, shard: int) -> bool:
        """Whether there was a shard of this number, of which nothing is left."""
        return shard in self._reclaimed

    def _is_taken(self, addresses: Iterable[Address]) -> bool:
        """Whether a replica has one of them; those of finalized shards are there, too."""
        taken = {each.address for shard in self.by_number.values() for each in shard.replicas}
        return not taken.isdisjoint(addresses)

    def _finalize(self, shard: Shard, cut: int) -> list[Outcome]:
        self.graces.pop(shard.shard, None)
        outcomes: list[Outcome] = [self._close(lane) for lane in shard.open_lanes()]
        replicas = tuple(msgspec.structs.replace(each, is_open=False) for each in shard.replicas)
        final = msgspec.structs.replace(shard, replicas=replicas, phase="finalized", final_cut=cut)
        return [*outcomes, FinalizedShard(shard.shard, cut), self._put(final)]

    def _reconfigure(self, shard: Shard, replicas: tuple[Replica, ...]) -> ViewChanged:
        now = msgspec.structs.replace(shard, replicas=replicas, epoch=shard.epoch + 1, epoch_view=self.version + 1)
        self._lanes.gate(shard.shard, now.epoch_view if now.is_ordering else NEVER)
        return self._put(now)

    def _find(self, entry: OpenLane | RemoveReplica) -> tuple[Shard, Replica] | RefusedEntry:
        """The shard and the replica that the entry is about."""
        shard = self.by_number.get(entry.shard)
        if shard is None:
            return RefusedEntry(entry, "no such shard")
        replica = shard.find(entry.replica)
        return RefusedEntry(entry, "no such replica") if replica is None else (shard, replica)

    def _close(self, lane: LaneId) -> LaneClosed:
        return LaneClosed(lane, self._lanes.close(lane).length)

    def _put(self, shard: Shard) -> ViewChanged:
        self.version += 1
        former = self.by_number.get(shard.shard)
        self.view_bytes += _bytes(shard) - (0 if former is None else _bytes(former))
        self.by_number[shard.shard] = shard
        return ViewChanged(self.version, shard.shard, shard)


def boot_max(known: int, time_us: int) -> int:
    """The highest boot that a start of a replica can have whose last one was `known`: more would leave none for later.

    A new directory begins with the time, an old one counts on; so that not even a thousand starts that lie about it
    use the numbers up.
    """
    return min(BOOT_MAX, max(known + BOOT_LEAP_MAX, time_us + BOOT_AHEAD_S_MAX * 1_000_000))


def _bytes(shard: Shard) -> int:
    return SHARD_BYTES + sum(REPLICA_BYTES + len(each.address.host.encode()) for each in shard.replicas)


def _with(shard: Shard, replica: Replica) -> Shard:
    replicas = tuple(replica if each.replica == replica.replica else each for each in shard.replicas)
    return msgspec.structs.replace(shard, replicas=replicas)


def _as_registered(shard: Shard | RegisterShard) -> object:
    """What a retry of the registration repeats."""
    replicas = (
        shard.replicas
        if isinstance(shard, RegisterShard)
        else tuple((each.replica, each.address) for each in shard.replicas)
    )
    return shard.shard, shard.f, shard.masking, replicas


def _first(pair: tuple[int, T]) -> int:
    return pair[0]
