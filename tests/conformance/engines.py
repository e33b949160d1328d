"""The engines that the conformance suite judges: those of the registry, and the embedded log.

Each test gets a fresh deployment; the tests are relative to the tail they find, and assume neither one shard nor that
the log starts empty. So those of modules with the mark `shared_log` share one cluster of each engine: they neither trim
nor use names. What a test needs of what not every engine has, it says (`Engine.require`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

import pytest

import ithaca
import ithaca.aio
from ithaca.engines import registry
from ithaca.model.engine import EMBEDDED_FEATURES, EngineName, Feature
from ithaca.model.interface import Log
from ithaca.model.records import Compression, Durability
from ithaca.testing import Cluster
from tests.conformance.aio_adapter import AdaptedLog, LoopThread
from tests.engines import sparse_toy, toy


class Deployment(ABC):
    """One log, fresh, and the ways to get handles on it. Leaving its context cleans everything up."""

    @abstractmethod
    def open(self, *, compression: Compression = "none") -> Log:
        """A handle that appends; the previous one is closed."""

    @abstractmethod
    def open_reader(self) -> Log:
        """One more handle, beside the one that appends; it need only read."""

    @abstractmethod
    def close(self) -> None:
        """Close the handles that were left open, and remove what runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Engine:
    """How to get a fresh log, in a directory of its own, and what it can do."""

    name: str
    deploy: Callable[[Path], Deployment]
    features: frozenset[Feature]
    durability: Durability = "fsync"
    attach: Callable[[Cluster], Deployment] | None = None
    """The same on a cluster that runs; None where there is none."""
    cluster: EngineName = ""

    @property
    def is_dense(self) -> bool:
        """Whether every position below the tail holds a record: nothing else may subtract positions."""
        return Feature.DENSE in self.features

    def check_next(self, positions: Iterable[int], tail: int) -> None:
        """Those of records that were appended one after the other, the first of them at this tail."""
        found = list(positions)
        assert found[0] >= tail
        assert all(low < high for low, high in pairwise(found))
        if self.is_dense:
            assert found == list(range(tail, tail + len(found)))

    def check_passed(self, position: int, last: int) -> None:
        """Where somebody stands who had this record last."""
        assert position > last
        assert position == last + 1 or not self.is_dense

    def require(self, feature: Feature) -> None:
        """Skip the test on an engine that lacks the feature."""
        if feature not in self.features:
            pytest.skip(f"{self.name} does not offer {feature.name}")


class Embedded(Deployment):
    """A directory, opened in this process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "log"
        self._handles = ExitStack()

    def open(self, *, compression: Compression = "none") -> Log:
        return self._handles.enter_context(ithaca.open(self._directory, compression=compression))

    def open_reader(self) -> Log:
        return self._handles.enter_context(ithaca.open(self._directory, mode="r"))

    def close(self) -> None:
        self._handles.close()


class EmbeddedAio(Deployment):
    """The same through `ithaca.aio`, on a loop of its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "log"
        self._thread = LoopThread()
        self._handles = ExitStack()
        self._handles.callback(self._thread.stop)

    def open(self, *, compression: Compression = "none") -> Log:
        async def open_twin() -> ithaca.aio.Log:
            return await ithaca.aio.open(self._directory, compression=compression)

        return self._handles.enter_context(AdaptedLog(self._thread, self._thread.run(open_twin())))

    def open_reader(self) -> Log:
        async def open_twin() -> ithaca.aio.Log:
            return await ithaca.aio.open(self._directory, mode="r")

        return self._handles.enter_context(AdaptedLog(self._thread, self._thread.run(open_twin())))

    def close(self) -> None:
        self._handles.close()


def new_cluster(directory: Path, engine: EngineName) -> Cluster:
    """Two shards of two replicas, their servers in this process, over real sockets and files; not started."""
    return Cluster(directory / "cluster", shards=2, engine=engine)


class Clustered(Deployment):
    """A cluster, of its own if it is not started yet."""

    def __init__(self, cluster: Cluster, *, is_own: bool = False) -> None:
        self._handles = ExitStack()
        self._cluster = self._handles.enter_context(cluster) if is_own else cluster

    def open(self, *, compression: Compression = "none") -> Log:
        return self._handles.enter_context(ithaca.connect(self._cluster.bootstrap, compression=compression))

    def open_reader(self) -> Log:
        return self.open()

    def close(self) -> None:
        self._handles.close()


class ClusteredAio(Deployment):
    """The same through `ithaca.aio`, on a loop of its own."""

    def __init__(self, cluster: Cluster, *, is_own: bool = False) -> None:
        self._handles = ExitStack()
        self._cluster = self._handles.enter_context(cluster) if is_own else cluster
        self._thread = LoopThread()
        self._handles.callback(self._thread.stop)

    def open(self, *, compression: Compression = "none") -> Log:
        async def connect() -> ithaca.aio.Log:
            return await ithaca.aio.connect(self._cluster.bootstrap, compression=compression)

        return self._handles.enter_context(AdaptedLog(self._thread, self._thread.run(connect())))

    def open_reader(self) -> Log:
        return self.open()

    def close(self) -> None:
        self._handles.close()


def clustered(name: EngineName) -> list[Engine]:
    """An engine of the registry, through both interfaces."""
    features = registry.engine(name).features
    durability: Durability = "os" if name in (toy.Toy.name, sparse_toy.SparseToy.name) else "fsync"

    def through(face: type[Clustered] | type[ClusteredAio], suffix: str) -> Engine:
        def deploy(directory: Path) -> Deployment:
            return face(new_cluster(directory, name), is_own=True)

        return Engine(f"{name}{suffix}", deploy, features, durability, attach=face, cluster=name)

    return [through(Clustered, ""), through(ClusteredAio, "-aio")]


ENGINES = [
    Engine("embedded", Embedded, EMBEDDED_FEATURES),
    Engine("embedded-aio", EmbeddedAio, EMBEDDED_FEATURES),
    *(each for name in registry.names() for each in clustered(name)),
]
