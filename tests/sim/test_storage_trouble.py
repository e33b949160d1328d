"""Whoever is asked for something by a fault is there to do it."""

from dataclasses import replace

import pytest

from ithaca.model.engine import EngineName
from ithaca.sim.configuration import MEMBER_FAULTS, configuration_of
from ithaca.sim.run import run_configuration
from ithaca.sim.scalog.storage_trouble import ASK_IN_VAIN
from ithaca.sim.world import World

SEED = 37
"""Spares may be asked for in vain, and nothing else asks the administrator."""


def test_a_spare_is_asked_for_in_vain_where_nothing_else_changes_the_cluster() -> None:
    drawn = configuration_of(SEED)
    assert ASK_IN_VAIN in drawn.faults
    result = run_configuration(replace(drawn, faults=(ASK_IN_VAIN,)), story=True)
    assert result.violation is None, f"{result.violation}\n{result.report}"
    assert result.counts[f"fault {ASK_IN_VAIN}"] > 0
    assert "was asked for in vain" in result.report


@pytest.mark.parametrize(("engine", "kind"), [("scalog", ASK_IN_VAIN), ("raft", MEMBER_FAULTS[0])])
def test_the_administrator_is_there_for_those_who_ask(engine: EngineName, kind: str) -> None:
    for faults in ((kind,), ("kill",)):
        with World(replace(configuration_of(SEED, engine), faults=faults)) as world:
            is_there = any(client.name == world.administrator.name for client in world.clients)
            assert is_there == (kind in faults)
