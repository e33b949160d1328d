"""The engines that the conformance suite judges: those of the registry, and the embedded log.

Each test gets a fresh deployment; the tests are relative to the tail they find, and assume neither one shard nor that
the log starts empty. What a test needs of what not every engine has, it says (`Engine.require`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from tests.conformance.aio_adapter import AdaptedLog, LoopThread
from tests.engines import toy

import ithaca
import ithaca.aio
from ithaca.engines import registry
from ithaca.model.engine import EMBEDDED_FEATURES, EngineName, Feature
from ithaca.model.interface import Log
from ithaca.model.records import Compression, Durability
from ithaca.testing import Cluster


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


class Clustered(Deployment):
    """Two shards of two replicas, their servers in this process, over real sockets and files."""

    def __init__(self, directory: Path, engine: EngineName) -> None:
        self._handles = ExitStack()
        self._cluster = self._handles.enter_context(Cluster(directory / "cluster", shards=2, engine=engine))

    def open(self, *, compression: Compression = "none") -> Log:
        return self._handles.enter_context(ithaca.connect(self._cluster.bootstrap, compression=compression))

    def open_reader(self) -> Log:
        return self.open()

    def close(self) -> None:
        self._handles.close()


class ClusteredAio(Deployment):
    """The same through `ithaca.aio`, on a loop of its own."""

    def __init__(self, directory: Path, engine: EngineName) -> None:
        self._handles = ExitStack()
        self._cluster = self._handles.enter_context(Cluster(directory / "cluster", shards=2, engine=engine))
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
    durability: Durability = "os" if name == toy.Toy.name else "fsync"
    return [
        Engine(name, partial(Clustered, engine=name), features, durability),
        Engine(f"{name}-aio", partial(ClusteredAio, engine=name), features, durability),
    ]


ENGINES = [
    Engine("embedded", Embedded, EMBEDDED_FEATURES),
    Engine("embedded-aio", EmbeddedAio, EMBEDDED_FEATURES),
    *(each for name in registry.names() for each in clustered(name)),
]
