"""When shards are added and finalized, on single samples and on simulated loads."""

import dataclasses
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.cluster.autoscaling.policy import (
    Add,
    AutoscalePolicy,
    AutoscaleSettings,
    Finalize,
    Nothing,
    Sample,
    ShardLoad,
)
from ithaca.model.errors import InvalidInput

SETTINGS = AutoscaleSettings(
    shards_min=1, shards_max=4, bytes_per_s=100, records_per_s=10, pending_bytes=1000, lag_records=50, cooldown_s=60
)
QUIET = ShardLoad(0, 0, 0, 0, 0)


def sample(time_s: float, *loads: ShardLoad) -> Sample:
    """Loads of shards 0, 1, and so on."""
    return Sample(time_s, tuple(dataclasses.replace(load, shard=shard) for shard, load in enumerate(loads)))


def bytes_per_s(*rates: float) -> list[ShardLoad]:
    return [dataclasses.replace(QUIET, bytes_per_s=rate) for rate in rates]


@pytest.mark.parametrize(
    "hot",
    [
        dataclasses.replace(QUIET, bytes_per_s=100),
        dataclasses.replace(QUIET, records_per_s=10),
        dataclasses.replace(QUIET, pending_bytes=1000),
        dataclasses.replace(QUIET, lag_records=50),
    ],
    ids=["bytes", "records", "pending", "lag"],
)
def test_each_measure_alone_can_ask_for_a_shard_once_it_has_lasted(hot: ShardLoad) -> None:
    policy = AutoscalePolicy(SETTINGS)
    assert isinstance(policy.decide(sample(0, hot, hot)), Nothing)
    assert isinstance(policy.decide(sample(9.9, hot, hot)), Nothing)
    assert isinstance(policy.decide(sample(10, hot, hot)), Add)


def test_a_peak_that_passes_asks_for_nothing() -> None:
    policy = AutoscalePolicy(SETTINGS)
    for time_s in range(0, 100, 5):
        rate = 60 if time_s % 10 else 150
        assert isinstance(policy.decide(sample(time_s, *bytes_per_s(rate, rate))), Nothing)


def test_the_idlest_shard_goes_and_of_equals_the_newest() -> None:
    policy = AutoscalePolicy(SETTINGS)
    policy.decide(sample(0, *bytes_per_s(20, 5, 30)))
    assert policy.decide(sample(120, *bytes_per_s(20, 5, 30))) == Finalize(
        1, "cold for 120 s: 28 bytes/s per shard with one fewer, the limit is 100"
    )
    policy = AutoscalePolicy(SETTINGS)
    policy.decide(sample(0, QUIET, QUIET, QUIET))
    decision = policy.decide(sample(120, QUIET, QUIET, QUIET))
    assert isinstance(decision, Finalize)
    assert decision.shard == 2


def test_nothing_is_decided_while_a_shard_cannot_be_measured() -> None:
    policy = AutoscalePolicy(SETTINGS)
    hot = bytes_per_s(500, 500)
    policy.decide(sample(0, *hot))
    decision = policy.decide(dataclasses.replace(sample(20, *hot), unknown=(2,)))
    assert decision == Nothing("shards that cannot be measured: 2")
    assert isinstance(policy.decide(sample(21, *hot)), Nothing), "it counts from the beginning again"
    assert isinstance(policy.decide(Sample(22, ())), Nothing)


def test_too_few_and_too_many_shards_are_mended_whatever_the_load() -> None:
    settings = dataclasses.replace(SETTINGS, shards_min=2, shards_max=3)
    assert isinstance(AutoscalePolicy(settings).decide(sample(0, QUIET)), Add)
    decision = AutoscalePolicy(settings).decide(sample(0, *bytes_per_s(500, 500, 400, 500)))
    assert decision == Finalize(2, "4 shards are live, the most is 3")


def test_at_the_bounds_it_is_said_why_nothing_happens() -> None:
    settings = dataclasses.replace(SETTINGS, shards_min=2, shards_max=2, hot_s=0, cold_s=0)
    assert "hot, but 2 shards is the most" in AutoscalePolicy(settings).decide(sample(0, *bytes_per_s(500, 0))).reason
    assert "cold, but 2 shards is the least" in AutoscalePolicy(settings).decide(sample(0, QUIET, QUIET)).reason


def test_an_action_is_followed_by_a_pause() -> None:
    policy = AutoscalePolicy(dataclasses.replace(SETTINGS, hot_s=0))
    hot = bytes_per_s(500)
    assert isinstance(policy.decide(sample(0, *hot)), Add)
    assert policy.decide(sample(30, *hot)) == Nothing("cooling down for another 30 s")
    assert isinstance(policy.decide(sample(60, *hot)), Add)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"shards_min": 0}, "1 <= min <= max"),
        ({"shards_min": 5, "shards_max": 4}, "1 <= min <= max"),
        ({"bytes_per_s": 0}, "bytes_per_s is 0: use a number above 0"),
        ({"records_per_s": math.inf}, "records_per_s is inf"),
        ({"pending_bytes": -1}, "pending_bytes is -1"),
        ({"lag_records": math.nan}, "lag_records is nan"),
        ({"hot_s": -1}, "hot_s is -1: use 0 or more seconds"),
        ({"cooldown_s": math.inf}, "cooldown_s is inf"),
        ({"finalize_below": 1.0}, "finalize_below is 1.0: use a share between 0 and 1"),
        ({"finalize_below": 0.0}, "finalize_below is 0.0"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        AutoscaleSettings(**wrong)  # type: ignore[arg-type]


# Simulated loads

Curve = Callable[[float], float]
"""Bytes a second of all shards together, over time."""

settings_of = st.builds(
    AutoscaleSettings,
    shards_min=st.integers(1, 4),
    shards_max=st.integers(4, 12),
    bytes_per_s=st.floats(1, 1e6),
    finalize_below=st.floats(0.05, 0.95),
    hot_s=st.floats(0, 60),
    cold_s=st.floats(0, 30),
    cooldown_s=st.floats(0, 100),
)


def simulate(
    settings: AutoscaleSettings, curve: Curve, shards: int, seconds: int = 2500
) -> list[tuple[float, int, Add | Finalize]]:
    """(time, shards before, decision) of each action; the load is spread evenly over the shards there are."""
    policy, actions = AutoscalePolicy(settings), []
    live = list(range(shards))
    for time_s in range(0, seconds, 5):
        rate = curve(time_s) / len(live)
        loads = tuple(ShardLoad(shard, rate, 0, 0, 0) for shard in live)
        decision = policy.decide(Sample(float(time_s), loads))
        if isinstance(decision, Nothing):
            continue
        actions.append((float(time_s), len(live), decision))
        if isinstance(decision, Add):
            live.append(max(live) + 1)
        else:
            live.remove(decision.shard)
    return actions


@given(settings_of, st.floats(0, 20), st.integers(1, 16))
def test_a_steady_load_is_answered_in_one_direction_and_then_left_alone(
    settings: AutoscaleSettings, share: float, shards: int
) -> None:
    total = share * settings.bytes_per_s
    actions = simulate(settings, lambda time_s: total, shards)
    within = [
        decision for _, before, decision in actions if settings.shards_min <= before <= settings.shards_max
    ]  # not those that only mend a wrong number
    assert len({type(decision) for decision in within}) <= 1
    added = sum(isinstance(decision, Add) for _, _, decision in actions)
    finally_live = shards + added - (len(actions) - added)
    assert settings.shards_min <= finally_live <= settings.shards_max
    if finally_live < settings.shards_max:
        assert total / finally_live < settings.bytes_per_s * (1 + 1e-9), "not hot any more"
    if finally_live > settings.shards_min:
        cold = settings.finalize_below * settings.bytes_per_s
        assert total / (finally_live - 1) >= cold * (1 - 1e-9), "not cold any more"


@given(settings_of, st.lists(st.floats(0, 20), min_size=1, max_size=40), st.integers(1, 4))
def test_bounds_and_pauses_hold_whatever_the_load_does(
    settings: AutoscaleSettings, shares: list[float], shards: int
) -> None:
    actions = simulate(settings, lambda time_s: shares[int(time_s / 100) % len(shares)] * settings.bytes_per_s, shards)
    for time_s, before, decision in actions:
        if isinstance(decision, Add):
            assert before < settings.shards_max
        else:
            assert before > settings.shards_min
        assert decision.reason, time_s
    times = [time_s for time_s, _, _ in actions]
    assert all(later - earlier >= settings.cooldown_s for earlier, later in pairwise(times))


def test_a_day_brings_shards_in_the_morning_and_takes_them_in_the_evening() -> None:
    settings = AutoscaleSettings(shards_min=1, shards_max=6, bytes_per_s=100)
    day_s = 86_400
    actions = simulate(settings, lambda time_s: 250 - 240 * math.cos(2 * math.pi * time_s / day_s), 1, day_s)
    kinds = [type(decision) for _, _, decision in actions]
    assert kinds == [Add] * 4 + [Finalize] * 4
    assert all(time_s < day_s / 2 for time_s, _, decision in actions if isinstance(decision, Add))
    assert all(time_s > day_s / 2 for time_s, _, decision in actions if isinstance(decision, Finalize))
