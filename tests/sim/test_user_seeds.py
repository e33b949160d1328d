"""Seeds of clusters that have users: they are drawn apart, and what nobody may do is looked for."""

from dataclasses import replace

import pytest

from ithaca.sim.clients import outsiders
from ithaca.sim.configuration import configuration_of
from ithaca.sim.run import run_configuration
from ithaca.users.caller import Caller

SEED = 37


def test_some_seeds_of_scalog_have_users_and_no_others() -> None:
    with_users = [seed for seed in range(1, 101) if configuration_of(seed).users]
    assert SEED in with_users
    assert 5 <= len(with_users) <= 15
    assert not any(configuration_of(seed, "raft").users for seed in with_users)


def test_a_seed_without_users_is_what_it_was() -> None:
    drawn = configuration_of(SEED)
    assert replace(drawn, users=False).cluster().users is None
    assert drawn.cluster().client_token == outsiders.SimulatedUsers().operator_token()


def test_outsiders_do_nothing_that_they_may_not() -> None:
    result = run_configuration(configuration_of(SEED))
    assert result.violation is None
    assert result.counts["outsider may not append"]


def test_a_gate_that_lets_everybody_append_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that cannot be broken is none: without rights the outsider's record is acknowledged."""
    monkeypatch.setattr(Caller, "prefixes", lambda self, right: None)
    result = run_configuration(configuration_of(SEED))
    assert result.violation is not None
    assert result.rule == outsiders.RULE, result.violation
