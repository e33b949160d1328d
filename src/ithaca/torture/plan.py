"""What is broken when: a list of strikes, made from a seed and nothing else.

Strikes come in rounds. Between two rounds the cluster heals; the strikes of one round overlap, and are against
different groups of servers: the orderers, or the replicas of one shard. In a group no more servers are harmed at a
time than the promises allow: a minority of orderers, `f` replicas. Strikes that everything must survive, such as a
kill of every process, are alone in their round.

Orderers are named by the role that they will have when they are struck, which a plan cannot know better:
`leader`, `follower-1`, `follower-2`. Everything else has the name of its directory, or of its process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

import msgspec

from ithaca.model.quorum import majority

FIRST_S = 1.5
"""When the first strike comes."""
ROUND_PAUSE_S = (0.5, 1.5)
"""Between a round's end and the next, if the cluster heals as quickly."""
PAIR_CHANCE = 0.5
"""How often a round has two strikes, if two fit."""
OVERLAP_S = 1.0
"""The second strike of a round begins so much later, at most."""

Aim = Literal["server", "replica", "group", "all", "producer", "consumer"]
"""What a fault strikes: up to a group's limit of servers; one replica; a group as a whole, one server after the
other; everything; a producer; a consumer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of strike, as far as a plan needs to know it."""

    name: str
    aim: Aim
    duration_s: tuple[float, float] = (0.0, 0.0)
    recovery_s: float = 2.0
    """How long the cluster usually takes to heal."""
    variants: tuple[str, ...] = ("",)
    alone: bool = False
    """Whether nothing else may happen at the same time, because mending it stops everything."""


class Strike(msgspec.Struct, frozen=True):
    """One fault, at `at_s` after the start or, if the cluster takes longer to heal, as soon as it is well."""

    round: int
    at_s: float
    fault: str
    targets: tuple[str, ...]
    duration_s: float
    variant: str

    def __str__(self) -> str:
        words = [self.fault, self.variant, *self.targets, f"{self.duration_s:.1f}s" if self.duration_s else ""]
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Group:
    """Servers that replace each other; `limit` of them may be harmed at a time."""

    name: str
    servers: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class Targets:
    """Whom a plan may strike."""

    orderers: Group
    shards: tuple[Group, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]


def order_roles(orderers: int) -> tuple[str, ...]:
    """The orderers by what they will be.

    >>> order_roles(3)
    ('leader', 'follower-1', 'follower-2')
    """
    return ("leader", *(f"follower-{number}" for number in range(1, orderers)))


def targets_of(
    *, orderers: int, shards: int, replicas: int, f: int, producers: Sequence[str], consumers: Sequence[str] = ()
) -> Targets:
    """The groups of a cluster of this shape."""
    return Targets(
        Group("orderers", order_roles(orderers), orderers - majority(orderers)),
        tuple(
            Group(f"shard-{shard}", tuple(f"shard-{shard}-replica-{number}" for number in range(replicas)), f)
            for shard in range(shards)
        ),
        tuple(producers),
        tuple(consumers),
    )


def make_plan(seed: int, seconds: float, faults: Sequence[Fault], targets: Targets) -> list[Strike]:
    """The strikes that begin within `seconds`, at least one; each fault comes once before any comes again."""
    chance = Random(f"plan {seed}")
    possible = [fault for fault in faults if _groups(fault, targets)]
    if not possible:
        return []
    bag = _bag(chance, possible)
    strikes: list[Strike] = []
    at_s, number = FIRST_S, 0
    while at_s < seconds or not strikes:
        number += 1
        first = next(bag)
        found, free_s, group = _strike(chance, number, at_s, first, targets, None)
        strikes.append(found)
        if not first.alone and first.aim != "all" and chance.random() < PAIR_CHANCE:
            second = next(bag)
            others = None if second.alone or second.aim == "all" else _groups(second, targets)
            if others and any(other != group for other in others):
                begin_s = at_s + chance.uniform(0, OVERLAP_S)
                paired, second_free_s, _ = _strike(chance, number, begin_s, second, targets, group)
                strikes.append(paired)
                free_s = max(free_s, second_free_s)
            else:  # it does not fit here, and so gets a round of its own
                at_s = free_s + chance.uniform(*ROUND_PAUSE_S)
                number += 1
                found, free_s, _ = _strike(chance, number, at_s, second, targets, None)
                strikes.append(found)
        at_s = free_s + chance.uniform(*ROUND_PAUSE_S)
    return strikes


def rounds_of(plan: Sequence[Strike]) -> Iterator[list[Strike]]:
    """The strikes of each round, in order."""
    number = -1
    together: list[Strike] = []
    for strike in plan:
        if strike.round != number and together:
            yield together
            together = []
        number = strike.round
        together.append(strike)
    if together:
        yield together


def _bag(chance: Random, faults: Sequence[Fault]) -> Iterator[Fault]:
    """Faults without end, in random order; each comes once before any comes again."""
    while True:
        yield from chance.sample(faults, len(faults))


def _groups(fault: Fault, targets: Targets) -> list[Group]:
    """Groups that the fault may strike."""
    harmable = [group for group in (targets.orderers, *targets.shards) if group.limit > 0]
    if fault.aim == "all":
        return [targets.orderers]
    if fault.aim == "producer":
        return [Group("producers", targets.producers, 1)] if targets.producers else []
    if fault.aim == "consumer":
        return [Group("consumers", targets.consumers, 1)] if targets.consumers else []
    if fault.aim == "replica":
        return [group for group in harmable if group != targets.orderers or not targets.shards]
    return harmable


def _strike(
    chance: Random, number: int, at_s: float, fault: Fault, targets: Targets, taken: Group | None
) -> tuple[Strike, float, Group]:
    """A strike of this fault against a group that is not taken; when the cluster should be well again; the group."""
    group = chance.choice([each for each in _groups(fault, targets) if each != taken])
    duration_s = round(chance.uniform(*fault.duration_s), 2)
    strike = Strike(
        round=number,
        at_s=round(at_s, 2),
        fault=fault.name,
        targets=_chosen(chance, fault, group),
        duration_s=duration_s,
        variant=chance.choice(fault.variants),
    )
    return strike, at_s + duration_s + fault.recovery_s, group


def _chosen(chance: Random, fault: Fault, group: Group) -> tuple[str, ...]:
    if fault.aim == "all":
        return ()
    if fault.aim == "group":
        return (group.name,)
    count = 1 if fault.aim in ("producer", "consumer", "replica") else chance.randint(1, group.limit)
    return tuple(chance.sample(group.servers, count))
