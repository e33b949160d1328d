"""Which cuts the ordering layer must still keep (design §5 "Order").

A cut is kept until f+1 replicas of each shard in it have synced its runs; from then on the shards themselves
know the positions of their records. What may go is soft state of the leader, learnt from reports; that it
goes is ordered, with the next cut, so that every server keeps the same.
"""

from collections.abc import Container, Mapping

from ithaca.engines.scalog.ordering.outcomes import OrderedCut
from ithaca.model.limits import ORDERING_CUTS_UNSYNCED_MAX, ORDERING_FORGET_CUTS_MAX, ORDERING_RUNS_UNSYNCED_MAX


class Retention:
    """Kept cuts, each with the shards that have not synced its runs yet."""

    def __init__(self, kept: Mapping[int, OrderedCut], shards: Container[int]) -> None:
        """`shards` are those that there are, at any time: nobody waits for one that was reclaimed."""
        self._shards = shards
        self._waiting: dict[int, set[int]] = {}
        self._runs: dict[int, int] = {}
        self._runs_total = 0
        self._synced: dict[int, int] = {}
        for cut in kept.values():
            self.keep(cut)

    def keep(self, cut: OrderedCut) -> None:
        """A cut was applied."""
        if len(cut.keys):
            missing = {shard for shard in cut.shards if self._synced.get(shard, 0) < cut.number}
            self._waiting[cut.number] = {shard for shard in missing if shard in self._shards}
            self._runs[cut.number] = len(cut.keys)
            self._runs_total += len(cut.keys)

    def synced(self, shard: int, number: int) -> None:
        """f+1 replicas of the shard have synced the runs of this cut and of all before."""
        if number <= self._synced.get(shard, 0):
            return
        self._synced[shard] = number
        for kept, shards in self._waiting.items():
            if kept > number:
                break
            shards.discard(shard)

    def reclaimed(self, shard: int) -> None:
        """Nobody waits for a shard that is gone."""
        self._synced.pop(shard, None)
        for shards in self._waiting.values():
            shards.discard(shard)

    def take(self) -> tuple[int, ...]:
        """Cuts that may be forgotten, for the next entry; each is told once."""
        free = [number for number, shards in self._waiting.items() if not shards][:ORDERING_FORGET_CUTS_MAX]
        for number in free:
            del self._waiting[number]
            self._runs_total -= self._runs.pop(number)
        return tuple(free)

    def holding_back(self) -> set[int]:
        """Shards that have left an old cut unsynced for too long: they get no new ones until they have.

        Without this one shard whose disks are slow would make every server keep cuts without bound.
        """
        if len(self._waiting) <= ORDERING_CUTS_UNSYNCED_MAX and self._runs_total <= ORDERING_RUNS_UNSYNCED_MAX:
            return set()
        runs = 0
        holders: set[int] = set()
        for age, number in enumerate(reversed(self._waiting)):
            runs += self._runs[number]
            if age >= ORDERING_CUTS_UNSYNCED_MAX or runs > ORDERING_RUNS_UNSYNCED_MAX:
                holders |= self._waiting[number]
        return holders
