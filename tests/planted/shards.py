"""Planted bugs of shards that come and go."""

from tests.planted.bug import Bug

SHARDS = (
    Bug(
        "shard-final-forgets-lane",
        "finalizing a shard closes all of its lanes but one",
        "ithaca.engines.scalog.ordering.shards",
        "outcomes: list[Outcome] = [self._close(lane) for lane in shard.open_lanes()]\n        replicas",
        "outcomes: list[Outcome] = [self._close(lane) for lane in list(shard.open_lanes())[1:]]\n        replicas",
        needs=lambda drawn: "finalize" in drawn.faults,
    ),
    Bug(
        "shard-ordered-after-final",
        "a lane that is closed stays in the order: later cuts still count for it",
        "ithaca.engines.scalog.ordering.lanes",
        "self._set(*(np.delete(column, row) for column in (self.keys, self.lengths, self._ends, self._since)))",
        "pass",
    ),
    Bug(
        "shard-closed-lane-takes",
        "a lane goes on taking batches after it was closed",
        "ithaca.engines.scalog.replica.appends",
        "if copy is None or lane != copy.lane or not copy.is_open:\n            self._effects",
        "if copy is None or lane != copy.lane:\n            self._effects",
        needs=lambda drawn: "finalize" in drawn.faults,
    ),
    Bug(
        "shard-leaving-is-home",
        "a session may move to a shard that is being finalized",
        "ithaca.engines.scalog.ordering.sessions",
        'return None if self._shards.is_live(lane.shard) else "the shard is finalizing"',
        "return None",
        needs=lambda drawn: "finalize-unheard" in drawn.faults,
    ),
    Bug(
        "shard-view-not-awaited",
        "a filtered subscription passes a watermark without the streams of the shards that came",
        "ithaca.client.merge",
        "if view <= self._view:\n            state.up_to",
        "if view >= 0:\n            state.up_to",
        needs=lambda drawn: "add-shard" in drawn.faults,
    ),
    Bug(
        "shard-reclaimed-too-early",
        "a lane is forgotten, and its shard reclaimed, although it is the home of a session",
        "ithaca.engines.scalog.ordering.state",
        "gone = self.lanes.forget(self.first, pinned=self.sessions.homes())",
        "gone = self.lanes.forget(self.first, pinned=set())",
        needs=lambda drawn: drawn.trims and "finalize" in drawn.faults,
    ),
    Bug(
        "shard-grace-cut-short",
        "a grace ends with its cuts or its time, and not with both",
        "ithaca.engines.scalog.ordering.shards",
        "return cut >= self.cut and time_us >= self.until_us",
        "return cut >= self.cut or time_us >= self.until_us",
        needs=lambda drawn: "finalize" in drawn.faults,
    ),
    Bug(
        "shard-grace-not-ended",
        "a shard that is finalized at once keeps the grace that it had",
        "ithaca.engines.scalog.ordering.shards",
        "self.graces.pop(shard.shard, None)\n",
        "pass\n",
        needs=lambda drawn: "finalize" in drawn.faults,
    ),
    Bug(
        "shard-not-streamed",
        "a subscription does not take up the shards that came since it began",
        "ithaca.client.merge",
        "return added, removed\n",
        "return (added if len(added) == len(self._shards) else []), removed\n",
        needs=lambda drawn: "add-shard" in drawn.faults,
    ),
)
