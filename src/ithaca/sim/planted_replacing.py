"""Planted bugs of replicas that come and go: who may be added, and whose word counts."""

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
)
