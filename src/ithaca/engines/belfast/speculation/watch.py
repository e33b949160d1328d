"""On the leader: whose primary is gone, and what is done about it (SpecLog §4.8)."""

from collections.abc import Mapping
from typing import NamedTuple

from ithaca.engines.belfast.limits import TAKEOVER_AFTER_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Shard

_TAKEOVER_AFTER_US = int(TAKEOVER_AFTER_S * 1e6)


class TakeOver(NamedTuple):
    """Begin a takeover of the lane."""

    lane: LaneId


class Fail(NamedTuple):
    """Propose `FailLane`: too few replicas of the shard are left, and every cut waits for it."""

    lane: LaneId


class PrimaryWatch:
    """Lanes whose primary's connection is broken, or whose takeover has too few replicas. A change of the leader or of
    an aggregator is no break: a new leader counts from the first time it misses a primary."""

    def __init__(self, shards: Mapping[int, Shard], detection_us: int) -> None:
        self._shards = shards
        self._detection_us = detection_us
        self._broken: dict[LaneId, int] = {}
        self._begun: set[LaneId] = set()

    def broke(self, lane: LaneId, now_us: int) -> None:
        self._broken.setdefault(lane, now_us)

    def back(self, lane: LaneId) -> None:
        """The primary has joined again in the same boot. A takeover that has begun goes on: promises are for ever."""
        if lane not in self._begun:
            self._broken.pop(lane, None)

    def closed(self, lane: LaneId) -> None:
        self._broken.pop(lane, None)
        self._begun.discard(lane)

    def look(self, reachable: frozenset[tuple[int, int]], now_us: int) -> list[TakeOver | Fail]:
        """What is due; `reachable` are the replicas, shard and number, with intact disks that can be asked."""
        due: list[TakeOver | Fail] = []
        for lane, since_us in sorted(self._broken.items()):
            shard = self._shards.get(lane.shard)
            if shard is None:
                continue
            there = sum((lane.shard, each.replica) in reachable for each in shard.replicas)
            if there >= shard.copies:
                if now_us - since_us >= _TAKEOVER_AFTER_US and lane not in self._begun:
                    self._begun.add(lane)
                    due.append(TakeOver(lane))
            elif now_us - since_us >= self._detection_us:
                due.append(Fail(lane))
        return due

    def next_look_us(self) -> int | None:
        """When to look at the latest; None while nothing is broken."""
        waits = [since_us + _TAKEOVER_AFTER_US for lane, since_us in self._broken.items() if lane not in self._begun]
        waits += [since_us + self._detection_us for since_us in self._broken.values()]
        return min(waits, default=None)
