"""Seeds of the engine belfast that once failed."""

from dataclasses import replace

from ithaca.sim.configuration import configuration_of
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
