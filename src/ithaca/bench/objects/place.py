"""The logs that objects are measured on: of a directory, of a cluster, or of a cluster for each of several engines."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import ithaca
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.measure import Progress
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import EngineName
from ithaca.model.interface import Log

Address = str | Path
"""How a log is found from another process: a cluster's bootstrap address, or a directory."""


@dataclass(frozen=True, slots=True)
class Target:
    """A handle on a log, and how others find that log."""

    log: Log
    address: Address


@contextmanager
def measured_log(directory: Path, cluster: str | Shape | None, progress: Progress) -> Iterator[Target]:
    """A handle on a fresh log in `directory`, or on the cluster that is named; None means an embedded log."""
    if cluster is None:
        with ithaca.open(directory / "log") as log:
            yield Target(log, directory / "log")
        return
    with measured_cluster(directory / "cluster", cluster, progress) as run, ithaca.connect(run.bootstrap) as log:
        yield Target(log, run.bootstrap)


@contextmanager
def measured_logs(
    directory: Path, cluster: str | Shape | None, engines: Sequence[EngineName], progress: Progress
) -> Iterator[dict[EngineName, Target]]:
    """The log, under no name; or for each of the engines that are named one on a cluster of this shape.

    All clusters are up at the same time, and idle but in their turns.
    """
    with ExitStack() as stack:
        if not engines:
            yield {"": stack.enter_context(measured_log(directory, cluster, progress))}
            return
        assert isinstance(cluster, Shape), "engines are compared on fresh clusters"
        yield {
            engine: stack.enter_context(measured_log(directory / engine, replace(cluster, engine=engine), progress))
            for engine in engines
        }


@contextmanager
def log_at(address: Address) -> Iterator[Log]:
    """A handle of this process on a log that others write; of a directory it reads alone."""
    if isinstance(address, str):
        with ithaca.connect(address) as log:
            yield log
    else:
        with ithaca.open(address, mode="r") as log:
            yield log
