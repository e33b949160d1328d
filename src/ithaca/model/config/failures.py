"""What a cluster does about a replica that is silent, as its file says it (Scalog §4.4.2).

| action             | what the leader of the ordering layer does, without an operator                              |
|--------------------|----------------------------------------------------------------------------------------------|
| `none`             | nothing: the replica is waited for                                                           |
| `mask`             | closes its lane; the rest of a masking shard goes on, and it gets a new lane when it is back |
| `replace`          | removes it, and has a spare copy the shard and take its place                                |
| `finalize-and-add` | finalizes its shard at once, and makes a new one of spares                                   |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ithaca.model.config.rules import Amount, Choice, Number, Rule
from ithaca.model.limits import DETECTION_AGGREGATED_MS_MIN, DETECTION_MS, DETECTION_MS_MAX, DETECTION_MS_MIN

Action = Literal["none", "mask", "replace", "finalize-and-add"]

RULES: Final[Mapping[str, Rule]] = {
    "action": Choice(get_args(Action)),
    "answer": Choice(get_args(Action)),  # its former name
    "detection_ms": Amount(Number(DETECTION_MS_MIN, DETECTION_MS_MAX), "ms"),
}


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """What is done about a replica of which nothing was heard for `detection_ms`."""

    action: Action = "none"
    detection_ms: int = DETECTION_MS


NO_ACTION: Final = FailurePolicy()
"""What a file says that says nothing of it."""


def failure_policy(table: Mapping[str, Any]) -> FailurePolicy:
    """What a table that was checked says."""
    return FailurePolicy(table.get(action_key(table), "none"), table.get("detection_ms", DETECTION_MS))


def action_key(table: Mapping[str, Any]) -> str:
    """The key of a table that says what is done."""
    return "answer" if "answer" in table and "action" not in table else "action"


def action_problem(action: Action, shards: Iterable[tuple[int, bool, int]], spares: int) -> str | None:
    """Why this cannot be done in a cluster of these shards (number, masking, replicas); None when it can.

    >>> action_problem("mask", [(0, True, 3), (1, False, 2)], spares=0)
    'action is "mask", and shard 1 has no masking: give it 3, 5, ... replicas and masking = true'
    """
    for shard, masking, replicas in shards:
        if action == "mask" and not masking:
            return f'action is "mask", and shard {shard} has no masking: give it 3, 5, ... replicas and masking = true'
        if action == "replace" and replicas == 1:
            return f'action is "replace", and shard {shard} has one replica: nobody could send its records to another'
        if action == "finalize-and-add" and spares < replicas:
            return (
                f'action is "finalize-and-add", and there are {spares} spares for the {replicas} replicas of shard '
                f"{shard}: add [[spare]] tables, each with an address"
            )
    if action == "replace" and not spares:
        return 'action is "replace", and there is no spare: add a table [[spare]] with an address'
    return None


def detection_problem(policy: FailurePolicy, *, has_aggregators: bool) -> str | None:
    """Why a failure must not be detected so soon; None when it may.

    A replica whose aggregator hangs is silent, and must not count as failed before it has left that for another.
    """
    if policy.action == "none" or not has_aggregators or policy.detection_ms >= DETECTION_AGGREGATED_MS_MIN:
        return None
    return (
        f"detection_ms is {policy.detection_ms}, and there are aggregators: a replica needs longer to leave one that "
        f"hangs; use at least {DETECTION_AGGREGATED_MS_MIN}"
    )
