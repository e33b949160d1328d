"""Fixtures of the conformance suite: every test that asks for one of these runs once per engine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from ithaca.model.engine import EngineName
from ithaca.model.interface import Log
from ithaca.testing import Cluster
from tests.conformance.engines import ENGINES, Deployment, Engine, new_cluster


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    engine: Engine = request.param
    return engine


@pytest.fixture(scope="package")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[EngineName], Cluster]]:
    """One cluster of each engine, started when it is first asked for; it ends before other packages simulate theirs."""
    with ExitStack() as stack:

        @cache
        def cluster(name: EngineName) -> Cluster:
            return stack.enter_context(new_cluster(tmp_path_factory.mktemp("shared"), name))

        yield cluster


@pytest.fixture
def deployment(
    engine: Engine, tmp_path: Path, request: pytest.FixtureRequest, clusters: Callable[[EngineName], Cluster]
) -> Iterator[Deployment]:
    """A log, no handle open yet: a fresh one, or that of all tests with the mark `shared_log`."""
    if engine.attach is not None and request.node.get_closest_marker("shared_log") is not None:
        found = engine.attach(clusters(engine.cluster))
    else:
        found = engine.deploy(tmp_path)
    with found:
        yield found


@pytest.fixture
def log(deployment: Deployment) -> Log:
    """A handle that appends."""
    return deployment.open()
