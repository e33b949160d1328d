"""Planted bugs of replicas that come and go."""

from ithaca.sim.bug import Bug

REPLACING = (
    Bug(
        "replace-learner-too-early",
        "a learner is added as soon as it is heard of, whatever it has copied",
        "ithaca.server.orderer_spares",
        "if not has_room or not leader.has_caught_up(number, replica):",
        "if not has_room:",
    ),
)
