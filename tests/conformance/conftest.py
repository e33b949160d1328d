"""Fixtures of the conformance suite: every test that asks for one of these runs once per engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.engines import ENGINES, Deployment, Engine

from ithaca.model.interface import Log


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    engine: Engine = request.param
    return engine


@pytest.fixture
def deployment(engine: Engine, tmp_path: Path) -> Iterator[Deployment]:
    """A fresh log, no handle open yet."""
    with engine.deploy(tmp_path) as deployment:
        yield deployment


@pytest.fixture
def log(deployment: Deployment) -> Log:
    """A handle that appends to a fresh log."""
    return deployment.open()
