"""Which lane a record goes to (design §5 "Append").

A policy names a shard, or leaves it open; inside a shard one lane is kept for as long as it works. A lane that
cannot be reached or does not answer is left alone for a while, unless there is no other.
"""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from ithaca.client.settings import check_policy
from ithaca.engines.scalog.client.append.placement import Placement
from ithaca.model.errors import InvalidInput
from ithaca.model.interface import ShardPolicy
from ithaca.model.limits import LANE_STALLED_S
from ithaca.model.positions import LaneId
from ithaca.model.view import View


class Lanes:
    """The lanes of a view, as a policy sees them."""

    def __init__(self, policy: ShardPolicy, clock: Callable[[], float], random: Random) -> None:
        check_policy(policy)
        self.policy = policy
        self._clock = clock
        self._random = random
        self._view = View(-1)
        self._by_shard: dict[int, list[LaneId]] = {}
        self._shards: list[int] = []
        self._left_until_s: dict[LaneId, float] = {}
        self._kept: dict[int | None, LaneId] = {}
        self._turn = -1
        self._placement = Placement()
        self.distances_s: Mapping[LaneId, float] = {}
        """How far away lanes are, of those that were measured."""

    def leave(self, lane: LaneId) -> None:
        """Give it nothing new for a while."""
        self._left_until_s[lane] = self._clock() + LANE_STALLED_S
        self._kept = {shard: kept for shard, kept in self._kept.items() if kept != lane}

    def shards(self, view: View) -> list[int]:
        """The live shards."""
        self._look_at(view)
        return self._shards

    def any(self, view: View) -> LaneId | None:
        """A lane for something that has no key."""
        return self.choose(view, None)

    def in_shard(self, view: View, shard: int) -> LaneId | None:
        """The lane that is used in this shard; None when it has none that is open."""
        self._look_at(view)
        return self._keep(shard, self._by_shard.get(shard, []))

    def choose(self, view: View, key: bytes | None) -> LaneId | None:
        """The lane for a record with this key; None when no lane is open anywhere."""
        if view is not self._view:
            self._look_at(view)
        policy = self.policy
        if policy == "sticky":
            return self._kept.get(None) or self._keep(None, self._all())
        if not self._shards:
            return None
        if callable(policy):
            return self._chosen_by(policy, key)
        if policy == "round_robin":
            self._turn += 1
            lanes = self._working(self._all())
            return lanes[self._turn % len(lanes)]
        if policy == "key_hash" and key is not None:
            shard = self._placement.shard_of(key, self._shards)
            return self._keep(shard, self._by_shard[shard])
        if policy == "nearest" and self.distances_s:
            near = [lane for lane in self._working(self._all()) if lane in self.distances_s]
            if near:
                return min(near, key=lambda lane: self.distances_s[lane])
        return self._keep(None, self._all())

    def _chosen_by(self, policy: Callable[[bytes | None, Sequence[int]], int], key: bytes | None) -> LaneId | None:
        shard = policy(key, tuple(self._shards))
        if shard not in self._by_shard:
            raise InvalidInput(f"the shard policy chose {shard!r}, and the live shards are {self._shards}")
        return self._keep(shard, self._by_shard[shard])

    def _look_at(self, view: View) -> None:
        if view is self._view:
            return
        self._view = view
        self._by_shard = {}
        for lane in view.live_lanes():
            self._by_shard.setdefault(lane.shard, []).append(lane)
        self._shards = sorted(self._by_shard)
        live = set(self._all())
        self._kept = {shard: lane for shard, lane in self._kept.items() if lane in live}
        self._left_until_s = {lane: until for lane, until in self._left_until_s.items() if lane in live}

    def _all(self) -> list[LaneId]:
        return [lane for lanes in self._by_shard.values() for lane in lanes]

    def _working(self, lanes: list[LaneId]) -> list[LaneId]:
        if not self._left_until_s:
            return lanes
        now_s = self._clock()
        return [lane for lane in lanes if self._left_until_s.get(lane, 0) <= now_s] or lanes

    def _keep(self, shard: int | None, lanes: list[LaneId]) -> LaneId | None:
        """The lane that was used before, or another one from now on."""
        kept = self._kept.get(shard)
        if kept is None and lanes:
            kept = self._kept[shard] = self._random.choice(self._working(lanes))
        return kept
