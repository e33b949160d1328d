"""Whose disk counts: what a replica acknowledges or promises holds as long as the disk does on which it was synced.

A directory is named by the number of its first start, which no other directory of the replica has. The order names one
disk of each replica, the first that it hears of. Acknowledgements of another do not count, and neither do promises: a
replica that is back with an emptied disk does not know what it has acknowledged. The other disk is named when nothing
depends on the first any more, that is when the shard has no open lane in a fixed order; so its lane is taken over
first, as for any change of who belongs to the shard.
"""

from collections.abc import Iterable, Mapping

from ithaca.engines.belfast.speculation.entries import NoteDisk
from ithaca.engines.scalog.ordering.outcomes import Outcome, ViewChanged

PackedDisk = tuple[int, int, int]
"""Shard, replica, disk."""

DISK_BYTES = 20
"""What one takes in a snapshot at most."""


class Disks:
    """The disk of each replica, by shard."""

    def __init__(self, packed: Iterable[PackedDisk] = ()) -> None:
        self._of_shard: dict[int, dict[int, int]] = {}
        for shard, replica, disk in packed:
            self._of_shard.setdefault(shard, {})[replica] = disk

    def of(self, shard: int) -> Mapping[int, int]:
        """The disk of each replica of the shard that is known."""
        return self._of_shard.get(shard, {})

    def may_note(self, entry: NoteDisk, *, is_held: bool) -> bool:
        """Whether the disk can be named; `is_held`: the shard has an open lane in a fixed order."""
        return not is_held or self.of(entry.shard).get(entry.replica, entry.disk) == entry.disk

    def note(self, entry: NoteDisk) -> None:
        self._of_shard.setdefault(entry.shard, {})[entry.replica] = entry.disk

    def follow(self, outcomes: Iterable[Outcome]) -> None:
        """Forget replicas that are gone: their numbers are never used again."""
        for outcome in outcomes:
            if isinstance(outcome, ViewChanged) and outcome.shard in self._of_shard:
                members = () if outcome.now is None else [each.replica for each in outcome.now.replicas]
                known = self._of_shard.pop(outcome.shard)
                left = {replica: disk for replica, disk in known.items() if replica in members}
                if left:
                    self._of_shard[outcome.shard] = left

    def __len__(self) -> int:
        return sum(map(len, self._of_shard.values()))

    def packed(self) -> list[PackedDisk]:
        return sorted(
            (shard, replica, disk) for shard, known in self._of_shard.items() for replica, disk in known.items()
        )
