"""Crashes at any operation: what was committed is there, byte for byte, and nothing else but a prefix beyond."""

from collections.abc import Iterable

import pytest
from tests.storage.crashes import CrashingLane, live_once

from ithaca.model.records import Durability

pytestmark = pytest.mark.usefixtures("small_limits")

SEEDS = 300
FAILED_ONCE = (486, 511, 524, 825, 888, 1003, 1018, 1146, 1212, 1483, 1855, 1884, 1956, 2078, 2239, 2279, 2312)
CAMPAIGN_SEEDS, CAMPAIGN_CHUNK = 5000, 250


def run(seeds: Iterable[int]) -> int:
    """Every seed with both durabilities; returns how often the lane fell."""
    crashes = 0
    for seed in seeds:
        durability: Durability = "os" if seed % 3 == 2 else "fsync"
        try:
            crashes += live_once(seed, durability).crashes
        except Exception as error:
            raise AssertionError(f"seed {seed}, durability {durability}") from error
    return crashes


def test_a_crash_anywhere_loses_nothing_committed() -> None:
    assert run([*FAILED_ONCE, *range(SEEDS)]) > 2 * SEEDS


def test_what_a_recycled_segment_still_holds_never_resurfaces() -> None:
    recycled = 0
    for seed in range(100):
        life = CrashingLane(seed, "fsync" if seed % 2 else "os")
        try:
            life.live(["trimming"])
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        recycled += life.recycled
    assert recycled > 100


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(SEEDS, SEEDS + CAMPAIGN_SEEDS, CAMPAIGN_CHUNK))
def test_a_crash_anywhere_loses_nothing_committed_many_times(first: int) -> None:
    assert run(range(first, first + CAMPAIGN_CHUNK)) > 2 * CAMPAIGN_CHUNK
