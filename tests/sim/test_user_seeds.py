"""Seeds of clusters that have users: they are drawn apart, and what nobody may do is looked for."""

from dataclasses import replace
from typing import Any

import pytest

from ithaca.model.engine import EngineName
from ithaca.model.errors import NotAllowed
from ithaca.sim.clients import outsiders
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import run_configuration
from ithaca.users.caller import Caller

SEED = 37


@pytest.mark.parametrize("engine", outsiders.ENGINES)
def test_some_seeds_have_users_and_some_of_their_programs_are(engine: EngineName) -> None:
    drawn = [configuration_of(seed, engine) for seed in range(1, 101)]
    with_users = [each for each in drawn if each.users]
    assert SEED in {each.seed for each in with_users}
    assert 5 <= len(with_users) <= 15
    assert not any(each.ordinary for each in drawn if not each.users)
    assert {kind for each in with_users for kind in each.ordinary} == set(outsiders.ORDINARY)


def test_an_engine_without_users_has_no_such_seeds() -> None:
    assert not any(configuration_of(seed, "corfu").users for seed in range(1, 101))


def test_a_seed_without_users_is_what_it_was() -> None:
    drawn = configuration_of(SEED)
    assert replace(drawn, users=False).cluster().users is None
    assert drawn.cluster().client_token == outsiders.SimulatedUsers().operator_token()


@pytest.mark.parametrize("engine", outsiders.ENGINES)
def test_outsiders_do_nothing_that_they_may_not(engine: EngineName) -> None:
    """And programs that are users get on with the rights that they have."""
    result = run_configuration(replace(configuration_of(SEED, engine), ordinary=outsiders.ORDINARY))
    assert result.violation is None, f"{result.violation}\n{result.report}"
    assert result.counts["outsider may not append"]
    assert result.counts["program made a user"]


def test_a_gate_that_lets_everybody_append_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that cannot be broken is none: without rights the outsider's record is acknowledged."""
    monkeypatch.setattr(Caller, "prefixes", lambda self, right: None)
    result = run_configuration(replace(configuration_of(SEED), ordinary=()))
    assert result.violation is not None
    assert result.rule == outsiders.RULE, result.violation


def test_a_gate_that_refuses_what_a_program_may_do_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: Caller, right: Any) -> None:
        if self.name.startswith("producer-"):
            raise NotAllowed("this is not refused", right=right)

    monkeypatch.setattr(Caller, "prefixes", refused)
    result = run_configuration(replace(configuration_of(SEED), ordinary=("producer",)))
    assert result.violation is not None
    assert "this is not refused" in str(result.violation)
