"""Planted bugs of replicas that come and go: who may be removed, who may be added, and whose word counts."""

from ithaca.sim.bug import Bug

REPLACING = (
    Bug(
        "client-late-answers-count",
        "what a lane says that its session has left is taken for the answer to what was sent to another",
        "ithaca.client.links",
        "self._appenders = {number: each for number, each in self._appenders.items() if each is not appender}",
        "pass",
    ),
    Bug(
        "replace-learner-too-early",
        "a learner is added as soon as it is heard of, whatever it has copied",
        "ithaca.server.orderer_spares",
        "if not has_room or not leader.has_caught_up(number, replica):",
        "if not has_room:",
    ),
    Bug(
        "replace-old-cuts-count",
        "cuts that were proposed under an earlier configuration of a shard order something of it",
        "ithaca.ordering.shards",
        "self._lanes.gate(shard.shard, now.epoch_view if now.is_ordering else NEVER)",
        "self._lanes.gate(shard.shard, 0)",
    ),
    Bug(
        "replace-removed-goes-on",
        "a replica that was removed does not notice, and waits to be let in again",
        "ithaca.server.replica_order",
        """            if isinstance(self._refusal, NoSuchReplica):
                self._follower.order_removed(self._refusal)
                return
""",
        """            if isinstance(self._refusal, NoSuchReplica):
                continue
""",
    ),
    Bug(
        "failure-nobody-else-has-it",
        "a silent replica is removed although the others still fetch what only it has",
        "ithaca.server.orderer_failures",
        "        if len(whole) < shard.size - shard.f:\n",
        "        if len(shard.replicas) == len(failed):\n",
    ),
)
