"""Seeds of the engine belfast that once failed, and rules that a world without faults shows."""

from dataclasses import replace

import pytest

from ithaca.engines.belfast.speculation.placement import Placement
from ithaca.sim.belfast import silence
from ithaca.sim.belfast.lost_lanes import LOSE_LANE
from ithaca.sim.belfast.speculators import speculators_of
from ithaca.sim.configuration import Configuration, configuration_of
from ithaca.sim.run import run_configuration, run_seed


def test_consumers_have_everything_before_a_publication_of_nothing() -> None:
    """It is the last that happens, behind slots that stay empty: no record is there that they could wait for."""
    drawn = configuration_of(1, "belfast")
    result = run_configuration(replace(drawn, faults=(), consumers=2, publishers=0, trims=False, claimants=0))
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_a_replica_goes_on_as_its_next_boot_when_all_of_its_shard_had_a_lane() -> None:
    """Its process ended with `WrongLane`, which a process that nobody starts again does not survive."""
    result = run_seed(101, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_what_retention_lets_go_is_told_from_what_lies_beside_it_in_the_same_cut() -> None:
    """A trim ended between the runs of a cut, and what came behind was taken for the rest of it that went too early."""
    result = run_seed(24, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_a_speculator_that_comes_late_to_several_lanes_goes_on() -> None:
    """What was held back of one lane let others go on, and its reading ended with a `KeyError`: it waited for ever."""
    result = run_seed(525, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_a_leader_whose_state_is_full_of_windows_does_without_slots() -> None:
    """It proposed one void window after the other, and its process did nothing else any more."""
    result = run_seed(191, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_a_publication_behind_one_of_nothing_is_told_what_became_of_itself() -> None:
    """Both had the same position, and whoever published records was told that these were none."""
    result = run_seed(21, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_a_spare_that_was_a_replica_before_becomes_one_again() -> None:
    """Its promises, and the number of its disk, lay in a directory without `meta`: it ended with `Corrupt`."""
    result = run_seed(112, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def test_an_order_is_idle_although_a_part_is_reported_that_nobody_will_finish() -> None:
    """Its maker was killed, and it was reported once a second for longer than silence was waited for."""
    result = run_seed(281, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"


def calm() -> Configuration:
    """Nothing is broken, and somebody speculates."""
    drawn = configuration_of(1, "belfast")
    assert speculators_of(drawn.seed)
    assert drawn.slots.mode == "fixed"
    return replace(drawn, faults=(), publishers=0, trims=False, claimants=0, consumers=0, troubled_s=1.0, producers=1)


def test_an_idle_order_is_silent() -> None:
    result = run_configuration(calm())
    assert result.violation is None, f"{result.violation}\n{result.report}"
    assert result.counts["record delivered before its place was final"] > 0


def test_an_order_that_is_never_silent_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Primaries pass cuts by the clock that have no record, while somebody listens."""
    clocked = property(lambda placement: bool(placement._speculators and placement._cut is not None))
    monkeypatch.setattr(Placement, "is_clocked", clocked)
    monkeypatch.setattr(silence, "IDLE_S", 3.0)
    assert run_configuration(calm()).rule == silence.RULE


def test_lanes_are_taken_over_or_lost_and_speculators_are_told() -> None:
    seed = 46
    assert LOSE_LANE in configuration_of(seed, "belfast").faults
    assert speculators_of(seed)
    result = run_seed(seed, "belfast")
    assert result.violation is None, f"{result.violation}\n{result.report}"
    assert result.counts["path order: lane taken over"] > 0
    assert result.counts["speculation failed"] > 0
