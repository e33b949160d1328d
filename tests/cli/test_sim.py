"""`ithaca sim`: one seed, several, a wrong range; for people and for programs."""

from tests.cli.command import ithaca, json_lines

from ithaca.sim.engine import simulated
from ithaca.sim.run import run_seed


def test_one_seed() -> None:
    expected = run_seed(3)
    told = ithaca("sim", "--seed", "3").stdout.decode()
    assert told.startswith("seed 3: nothing violated\n")
    assert f"trace {expected.trace}, {expected.events} events" in told
    assert "story:" not in told
    assert "story:" in ithaca("sim", "--seed", "3", "--story").stdout.decode()
    (result,) = json_lines(ithaca("sim", "--seed", "3", "--json").stdout)
    assert (result["seed"], result["trace"], result["violation"]) == (3, expected.trace, None)


def test_several_seeds_are_summed_up() -> None:
    lines = ithaca("sim", "--seeds", "1..2", "--workers", "1").stdout.decode().splitlines()
    assert lines[-1] == "2 seeds, 0 violated"
    named = {line.split(maxsplit=1)[1] for line in lines[:-1]}
    assert named >= {f"fault {kind}" for kind in simulated("scalog").faults} | {
        f"path {name}" for name in simulated("scalog").paths
    }


def test_what_is_no_range_of_seeds_is_refused() -> None:
    assert "write it as 1..200" in ithaca("sim", "--seeds", "5..2", status=2).stderr.decode()
    assert "exclude each other" in ithaca("sim", "--seed", "1", "--seeds", "1..2", status=2).stderr.decode()
    assert "--seed N or --seeds A..B" in ithaca("sim", status=2).stderr.decode()


def test_an_engine_is_simulated_by_its_name() -> None:
    expected = run_seed(3, "scalog").trace
    assert f"trace {expected}" in ithaca("sim", "--engine", "scalog", "--seed", "3").stdout.decode()
    assert "is not in this version: use one of scalog" in " ".join(
        ithaca("sim", "--engine", "paxos", "--seed", "3", status=2).stderr.decode().split()
    )
