"""Engines are found by their names, and one that is not there is named."""

import pytest

from ithaca.engines.registry import engine
from ithaca.model.errors import ConfigError


def test_an_engine_is_found_by_its_name() -> None:
    assert engine("scalog").name == "scalog"
    assert engine("scalog") is engine("scalog")


def test_an_engine_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="the engine 'paxos' is not in this version: use one of scalog"):
        engine("paxos")
