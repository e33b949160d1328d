"""Seeds in which replicas are replaced: by an operator, or as the answer to a silent one.

Drawn apart from the rest of a configuration, so that the other seeds stay what they were.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.config.failures import Action, FailurePolicy

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration

REPLACE = "replace-replica"
"""The fault: a replica's host is given up, and another machine, at another address, takes its place."""
_CHANCE = 0.25
_DESTROYING = {"wipe", "flip", "failed-sync"}


def with_replacing(configuration: "Configuration") -> "Configuration":
    """The same, or with spares, an answer to failures, and the fault."""
    random = Random(f"replacing of {configuration.seed}")
    return replacing(configuration, random) if random.random() < _CHANCE else configuration


def replacing(configuration: "Configuration", random: Random) -> "Configuration":
    """Draw spares, an answer and the fault for it."""
    faults = set(configuration.faults)
    answers: list[Action] = ["none", "finalize-and-add"]
    if configuration.replicas > 1:
        answers += ["replace", "replace"]
        if random.random() < 0.7:
            faults.add(REPLACE)
    if configuration.masking:
        answers += ["mask", "mask"]
    answer = random.choice(answers)
    if answer != "none":
        faults |= {"pause"} if random.random() < 0.7 else {"kill"}
    if answer == "replace":
        # A silent replica counts as lost from then on: no other may lose its data at the same time.
        faults -= _DESTROYING
    spares = configuration.spares
    if answer == "finalize-and-add":  # the leader numbers new shards itself
        faults.discard("add-shard")
        spares = 0
    return replace(
        configuration,
        faults=tuple(sorted(faults)),
        spares=spares,
        failures=FailurePolicy(answer, random.choice((300, 1000, 3000))),
        pool=configuration.replicas * random.randint(1, 3),
        limits=configuration.limits | {"FIRST_SIGN_S": random.choice((1, 4))},
    )
