"""Plans: the same from the same seed, complete, and never against more than the promises allow."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.torture.faults.catalogue import INJECTORS
from ithaca.torture.plan import Fault, Strike, Targets, make_plan, order_roles, rounds_of, targets_of

FAULTS = [injector.fault for injector in INJECTORS.values()]
PRODUCERS = ["producer-1", "producer-2"]
CONSUMERS = ["consumer-1", "member-1"]


def targets(orderers: int = 3, shards: int = 2, replicas: int = 2, f: int = 1) -> Targets:
    return targets_of(
        orderers=orderers, shards=shards, replicas=replicas, f=f, producers=PRODUCERS, consumers=CONSUMERS
    )


def harmed(strikes: list[Strike]) -> Counter[str]:
    """How many servers of each group strikes harm together; groups and everything count as what they are."""
    count: Counter[str] = Counter()
    for strike in strikes:
        for target in strike.targets:
            if target in (*PRODUCERS, *CONSUMERS):
                continue
            group = "orderers" if target in (*order_roles(64), "orderers") else target.partition("-replica")[0]
            count[group] += 1
    return count


def test_a_seed_gives_one_plan() -> None:
    first, again, other = (make_plan(seed, 120, FAULTS, targets()) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    assert first != make_plan(7, 120, FAULTS[1:], targets())


@given(
    seed=st.integers(0, 1 << 32),
    orderers=st.sampled_from([1, 3, 5, 7]),
    shards=st.integers(1, 4),
    replicas=st.integers(1, 5),
    seconds=st.integers(5, 200),
)
def test_no_round_harms_more_than_is_promised(
    seed: int, orderers: int, shards: int, replicas: int, seconds: int
) -> None:
    f = replicas - 1
    plan = make_plan(seed, seconds, FAULTS, targets(orderers, shards, replicas, f))
    assert plan
    by_name = {fault.name: fault for fault in FAULTS}
    for together in rounds_of(plan):
        names = [by_name[strike.fault] for strike in together]
        if any(fault.alone or fault.aim == "all" for fault in names):
            assert len(together) == 1, "what stops everything has its round for itself"
        for group, count in harmed(together).items():
            limit = (orderers - 1) // 2 if group == "orderers" else f
            assert 0 < count <= limit
        for strike in together:
            assert len(set(strike.targets)) == len(strike.targets)


@given(seed=st.integers(0, 1 << 32))
def test_rounds_do_not_overlap(seed: int) -> None:
    rounds = list(rounds_of(make_plan(seed, 200, FAULTS, targets())))
    for earlier, later in pairwise(rounds):
        assert max(strike.at_s + strike.duration_s for strike in earlier) < min(strike.at_s for strike in later)


@given(seed=st.integers(0, 1 << 32))
def test_every_fault_comes_before_any_comes_again(seed: int) -> None:
    plan = make_plan(seed, 400, FAULTS, targets())
    assert len(plan) > 2 * len(FAULTS)
    first = [strike.fault for strike in plan[: len(FAULTS)]]
    assert sorted(first) == sorted(fault.name for fault in FAULTS)


def test_what_cannot_be_harmed_is_not_struck() -> None:
    lone = targets(orderers=1, replicas=1, f=0)
    struck = {strike.fault for strike in make_plan(1, 500, FAULTS, lone)}
    survived = {"killall", "power", "addshard", "finalize", "client", "consumer"}
    assert struck == survived, "what everything survives, and clients"
    assert make_plan(1, 60, [Fault("kill", "server")], lone) == []


def test_a_short_plan_has_a_strike_all_the_same() -> None:
    assert len(make_plan(1, 0.5, FAULTS, targets())) >= 1


@pytest.mark.parametrize(
    ("strike", "text"),
    [
        (Strike(1, 2.0, "kill", ("leader",), 0.0, ""), "kill leader"),
        (Strike(1, 2.0, "oneway", ("leader", "follower-1"), 2.5, "deaf"), "oneway deaf leader follower-1 2.5s"),
    ],
)
def test_a_strike_in_words(strike: Strike, text: str) -> None:
    assert str(strike) == text
