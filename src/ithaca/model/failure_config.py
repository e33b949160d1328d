"""What a cluster does about a replica that is silent, as its file says it (Scalog §4.4.2).

| answer             | what the leader of the ordering layer does, without an operator                              |
|--------------------|----------------------------------------------------------------------------------------------|
| `none`             | nothing: the replica is waited for                                                           |
| `mask`             | closes its lane; the rest of a masking shard goes on, and it gets a new lane when it is back |
| `replace`          | removes it, and has a spare copy the shard and take its place                                |
| `finalize-and-add` | finalizes its shard at once, and makes a new one of spares                                   |
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ithaca.model.limits import DETECTION_AGGREGATED_MS_MIN, DETECTION_MS, DETECTION_MS_MAX, DETECTION_MS_MIN
from ithaca.model.rules import Choice, Number, Rule

Answer = Literal["none", "mask", "replace", "finalize-and-add"]

RULES: Final[Mapping[str, Rule]] = {
    "answer": Choice(get_args(Answer)),
    "detection_ms": Number(DETECTION_MS_MIN, DETECTION_MS_MAX),
}


@dataclass(frozen=True, slots=True)
class FailurePolicy:
    """The answer to a replica of which nothing was heard for `detection_ms`."""

    answer: Answer = "none"
    detection_ms: int = DETECTION_MS


NO_ANSWER: Final = FailurePolicy()
"""What a file says that says nothing of it."""


def failure_policy(table: Mapping[str, Any]) -> FailurePolicy:
    """What a table that was checked says."""
    return FailurePolicy(table.get("answer", "none"), table.get("detection_ms", DETECTION_MS))


def answer_problem(answer: Answer, shards: Iterable[tuple[int, bool, int]], spares: int) -> str | None:
    """Why the answer cannot be given in a cluster of these shards (number, masking, replicas); None when it can.

    >>> answer_problem("mask", [(0, True, 3), (1, False, 2)], spares=0)
    'answer is "mask", and shard 1 has no masking: give it 3, 5, ... replicas and masking = true'
    """
    for shard, masking, replicas in shards:
        if answer == "mask" and not masking:
            return f'answer is "mask", and shard {shard} has no masking: give it 3, 5, ... replicas and masking = true'
        if answer == "replace" and replicas == 1:
            return f'answer is "replace", and shard {shard} has one replica: nobody could send its records to another'
        if answer == "finalize-and-add" and spares < replicas:
            return (
                f'answer is "finalize-and-add", and there are {spares} spares for the {replicas} replicas of shard '
                f"{shard}: add [[spare]] tables, each with an address"
            )
    if answer == "replace" and not spares:
        return 'answer is "replace", and there is no spare: add a table [[spare]] with an address'
    return None


def detection_problem(policy: FailurePolicy, *, has_aggregators: bool) -> str | None:
    """Why a failure must not be detected so soon; None when it may.

    A replica whose aggregator hangs is silent, and must not count as failed before it has left that for another.
    """
    if policy.answer == "none" or not has_aggregators or policy.detection_ms >= DETECTION_AGGREGATED_MS_MIN:
        return None
    return (
        f"detection_ms is {policy.detection_ms}, and there are aggregators: a replica needs longer to leave one that "
        f"hangs; use at least {DETECTION_AGGREGATED_MS_MIN}"
    )
