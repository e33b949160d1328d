"""The moments at which it hurts come about, and nothing is violated by them."""

from dataclasses import replace

import pytest

from ithaca.sim.configuration import configuration_of
from ithaca.sim.faults.shards import FINALIZE_UNHEARD
from ithaca.sim.run import run_configuration
from ithaca.sim.scalog.bad_moments import MOMENT_FAULTS

_SEED = 9
_ALL = (*MOMENT_FAULTS, FINALIZE_UNHEARD)


@pytest.mark.parametrize("kind", _ALL)
def test_each_comes_about_where_nothing_else_does(kind: str) -> None:
    drawn = configuration_of(_SEED)
    assert kind in drawn.faults
    result = run_configuration(replace(drawn, faults=(kind,), focus="everybody"))
    assert result.violation is None
    assert result.counts[f"fault {kind}"] > 0


def test_most_seeds_have_none() -> None:
    without = [seed for seed in range(1, 101) if not {*_ALL} & {*configuration_of(seed).faults}]
    assert 70 <= len(without) <= 90
