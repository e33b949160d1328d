"""Planted bugs of shards that cannot order, because a replica is silent."""

from ithaca.sim.configuration import Configuration
from ithaca.sim.scalog.one_silent import SILENT_FAULTS
from tests.planted.bug import Bug


def _one_is_silent(drawn: Configuration) -> bool:
    return drawn.faults == SILENT_FAULTS


SILENCE = (
    Bug(
        "silence-lanes-stay-open",
        "a shard that cannot order keeps its lanes, although there is elsewhere to go",
        "ithaca.engines.scalog.ordering.decisions.availability",
        "return lanes[0] if lanes else None",
        "return None",
        needs=_one_is_silent,
    ),
    Bug(
        "silence-only-of-the-silent",
        "only the lanes of the silent replica are closed, and those of the others wait for it",
        "ithaca.engines.scalog.ordering.decisions.availability",
        "lanes = sorted(shard.open_lanes(), key",
        "lanes = sorted([lane for lane in shard.open_lanes() if lane.replica in silent], key",
        needs=_one_is_silent,
    ),
    Bug(
        "silence-no-lane-again",
        "a replica whose lane was closed waits for more replicas than its shard needs, and never gets another",
        "ithaca.engines.scalog.ordering.decisions.availability",
        "if has_one or self._alive(shard, joins=replica) >= shard.copies:",
        "if has_one or self._alive(shard, joins=replica) > shard.copies:",
        needs=_one_is_silent,
    ),
)
