"""The order, one record at a time: an oracle that shares no code with the vectors it checks.

It knows only what decides positions: which lanes are open, who belongs to a shard, how far lanes are
ordered. Every record that was ever ordered is an element of one Python list; its position is its place there.
"""

from dataclasses import dataclass, field

from ithaca.model.positions import LaneId


@dataclass
class NaiveShard:
    f: int
    masking: bool
    members: set[int]
    numbers_used: int
    epoch: int = 1
    finalized: bool = False
    grace: tuple[int, int] | None = None
    boots: dict[int, int] = field(default_factory=dict)
    incarnations: dict[int, int] = field(default_factory=dict)

    @property
    def full_size(self) -> int:
        return 2 * self.f + 1 if self.masking else self.f + 1


class NaiveOrder:
    def __init__(self) -> None:
        self.shards: dict[int, NaiveShard] = {}
        self.log: list[tuple[LaneId, int]] = []
        self.ordered: dict[LaneId, int] = {}
        self.open: set[LaneId] = set()
        self.cuts = 0
        self.time_us = 0

    def register(self, shard: int, f: int, masking: bool) -> None:
        size = 2 * f + 1 if masking else f + 1
        self.shards[shard] = NaiveShard(f, masking, set(range(size)), numbers_used=size)

    def start(self, shard: int, replica: int, boot: int) -> None:
        group = self.shards[shard]
        if replica not in group.members or group.finalized or boot <= group.boots.get(replica, 0):
            return
        self._close_replica(shard, replica)
        group.boots[replica] = boot
        group.incarnations[replica] = group.incarnations.get(replica, 0) + 1
        lane = LaneId(shard, replica, group.incarnations[replica])
        self.open.add(lane)
        self.ordered[lane] = 0

    def close(self, lane: LaneId) -> None:
        self.open.discard(lane)

    def cut(self, lengths: dict[LaneId, int], time_us: int, epochs: dict[int, int]) -> None:
        """`epochs` is the epoch of each shard that the proposer knew."""
        for lane in sorted(lengths):
            group = self.shards[lane.shard]
            if lane not in self.open or epochs.get(lane.shard) != group.epoch or len(group.members) < group.f + 1:
                continue
            while self.ordered[lane] < lengths[lane]:
                self.log.append((lane, self.ordered[lane]))
                self.ordered[lane] += 1
        self.cuts += 1
        self.time_us = max(self.time_us, time_us)
        for shard, group in self.shards.items():
            if group.grace and self.cuts >= group.grace[0] and self.time_us >= group.grace[1]:
                self._finalize(shard)

    def finalize(self, shard: int, cuts: int, until_us: int) -> None:
        group = self.shards[shard]
        if cuts == 0 and until_us == 0:
            self._finalize(shard)
        elif not group.finalized and group.grace is None:
            group.grace = (self.cuts + cuts, until_us)

    def remove(self, shard: int, replica: int, epoch: int) -> None:
        group = self.shards[shard]
        enough = len(group.members) - 1 >= group.full_size - group.f
        if replica in group.members and epoch == group.epoch and enough:
            self._close_replica(shard, replica)
            group.members.remove(replica)
            group.epoch += 1

    def add(self, shard: int, replica: int, epoch: int) -> None:
        group = self.shards[shard]
        if replica < group.numbers_used or epoch != group.epoch:
            return
        if group.finalized or len(group.members) < group.full_size:
            group.members.add(replica)
            group.numbers_used = replica + 1
            group.epoch += 1

    def _finalize(self, shard: int) -> None:
        group = self.shards[shard]
        group.finalized, group.grace = True, None
        for replica in group.members:
            self._close_replica(shard, replica)

    def _close_replica(self, shard: int, replica: int) -> None:
        self.open = {lane for lane in self.open if lane[:2] != (shard, replica)}
