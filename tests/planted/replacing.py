"""Planted bugs of replicas that come and go."""

from ithaca.sim.scalog.storage_trouble import ASK_IN_VAIN
from tests.planted.bug import Bug

REPLACING = (
    Bug(
        "replace-learner-too-early",
        "a learner is added as soon as it is heard of, whatever it has copied",
        "ithaca.engines.scalog.ordering.decisions.spares",
        "if not has_room or not leader.has_caught_up(number, replica):",
        "if not has_room:",
        needs=lambda drawn: drawn.pool > 0,
    ),
    Bug(
        "replace-known-by-present-name",
        "a replica that was a spare joins as what it is started as, and not as what it enlisted as",
        "ithaca.engines.scalog.server.replica.identity",
        "self.address = meta.address",
        "self.address = enlisted_as",
        needs=lambda drawn: "rename" in drawn.faults,
    ),
    Bug(
        "replace-given-up-learns-on",
        "a learner that nobody asks for any more stays one",
        "ithaca.engines.scalog.ordering.decisions.spares",
        "return [each for each in self._learners.items() if _left_s(each[1], now_s) <= 0]",
        "return []",
        needs=lambda drawn: ASK_IN_VAIN in drawn.faults,
    ),
    Bug(
        "replace-started-as-nobody",
        "a replica that was a spare is nobody when it starts: it quarantines what it holds, and asks for a place",
        "ithaca.engines.scalog.server.replica.spare",
        "known = replica_meta.identity(self._disk, self._directory)",
        "known = None",
        needs=lambda drawn: drawn.pool > 0,
    ),
    Bug(
        "replace-lanes-of-removed-dropped",
        "when a replica joins, it drops the lanes of those that were removed",
        "ithaca.engines.scalog.replica.core",
        "            if lane not in listed:\n",
        "            if lane not in listed or summary.shard.find(lane.replica) is None:\n",
        needs=lambda drawn: drawn.pool > 0,
    ),
)
