"""Which shards can order, whose lanes are closed because theirs cannot, and who gets no lane meanwhile.

What is ordered is on f+1 replicas, so a shard that has fewer left orders nothing: whatever its lanes accept waits, for
as long as a replica is away. If another shard can order, there is no need to wait. Then the lanes of the first are
closed, by entries like any other: what was ordered of them stays, sessions move, and clients send the rest elsewhere.

A closed lane is never open again, so replicas need new ones once f+1 of them are heard of. Until then whoever joins is
let in without one, and serves what it has. Nothing here is about safety: to close a lane too soon, or to open one too
soon, costs a move of its sessions, and no record.
"""

from ithaca.engines.scalog.ordering.liveness import Liveness, Member
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard


class Availability:
    """What the replicas of one term that are heard of, and those that are not, add up to."""

    def __init__(self, state: OrderingState, liveness: Liveness, patience_us: int) -> None:
        """`patience_us`: how long a shard may be short of a replica that was removed, before its lanes are closed."""
        self._state = state
        self._liveness = liveness
        self._patience_us = patience_us
        self._short_us: dict[int, int] = {}

    def look(self, counted_us: int) -> None:
        """So much time counts since the last look."""
        shards = [shard for shard in self._state.shards.by_number.values() if _is_short(shard)]
        self._short_us = {shard.shard: self._short_us.get(shard.shard, 0) + counted_us for shard in shards}

    def silent(self, shard: Shard) -> list[int]:
        """The replicas of the shard of which nothing was heard for too long, in order."""
        return [each.replica for each in shard.replicas if self._liveness.is_silent((shard.shard, each.replica))]

    def lane_to_close(self, number: int) -> LaneId | None:
        """The next lane to be closed of a shard that orders nothing; None if there is none, or nowhere else to go.

        Those of silent replicas go first: who is told at once, by a replica that lives, finds all of them closed.
        """
        shard = self._state.shards.by_number.get(number)
        if shard is None or not self._is_stuck(shard) or not self._is_elsewhere(number):
            return None
        silent = self.silent(shard)
        lanes = sorted(shard.open_lanes(), key=lambda lane: (lane.replica not in silent, lane))
        return lanes[0] if lanes else None

    def why_stuck(self, number: int) -> str:
        """Why a shard orders nothing, in words."""
        shard = self._state.shards.by_number[number]
        silent = self.silent(shard)
        many = ", ".join(f"{number}/{replica}" for replica in silent)
        who = f"of replica {many} nothing is heard" if silent else f"it has {len(shard.replicas)} replicas"
        return f"{who}, and {shard.copies} must have synced what is ordered"

    def may_open(self, number: int, replica: int, boot: int) -> bool:
        """Whether a replica that joins as this start of its may have a lane, or need not wait for one."""
        shard = self._state.shards.by_number.get(number)
        known = None if shard is None else shard.find(replica)
        if shard is None or known is None or shard.phase == "finalized":
            return True  # this is not what it is refused for
        has_one = boot == known.boot and known.is_open
        if has_one or self._alive(shard, joins=replica) >= shard.copies:
            return True
        # Its own is closed: another one would cost a start, and be of no use.
        return boot != known.boot and not self._is_elsewhere(number)

    def _is_stuck(self, shard: Shard) -> bool:
        if shard.phase == "finalized":
            return False
        if _is_short(shard):
            return self._short_us.get(shard.shard, 0) >= self._patience_us
        return len(shard.replicas) - len(self.silent(shard)) < shard.copies

    def _is_elsewhere(self, number: int) -> bool:
        """Whether another shard takes appends, and its replicas are heard of, so that it can order them."""
        return any(
            shard.phase == "live"
            and any(self._liveness.is_alive((shard.shard, lane.replica)) for lane in shard.open_lanes())
            and self._alive(shard) >= shard.copies
            for other, shard in self._state.shards.by_number.items()
            if other != number
        )

    def _alive(self, shard: Shard, joins: int | None = None) -> int:
        """How many replicas of the shard are heard of, with the one that joins just now."""
        members: list[Member] = [(shard.shard, each.replica) for each in shard.replicas]
        return sum(member[1] == joins or self._liveness.is_alive(member) for member in members)


def _is_short(shard: Shard) -> bool:
    return shard.phase != "finalized" and not shard.is_ordering
