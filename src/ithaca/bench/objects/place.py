"""The log that objects are measured on: of a directory, or of a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.measure import Progress, Sample, ratios, summarize
from ithaca.cluster.temporary import Shape
from ithaca.model.interface import Log

Contenders = dict[str, Callable[[], Sample]]


@contextmanager
def measured_log(directory: Path, cluster: str | Shape | None, progress: Progress) -> Iterator[Log]:
    """A handle on a fresh log in `directory`, or on the cluster that is named; None means an embedded log."""
    if cluster is None:
        with ithaca.open(directory / "log") as log:
            yield log
        return
    with measured_cluster(directory / "cluster", cluster, progress) as run, ithaca.connect(run.bootstrap) as log:
        yield log


def report_of(
    bench: str, samples: dict[str, list[Sample]], peers: dict[str, str], setting: dict[str, Any]
) -> dict[str, Any]:
    """Medians of all contenders, and of those that have a peer the ratio to it, formed within each round."""
    contenders = {name: summarize(of_one) for name, of_one in samples.items()}
    for name, peer in peers.items():
        contenders[name]["ratios"] = {"to": peer, **ratios(samples[name], samples[peer])}
    return {"bench": bench, "contenders": contenders, "settings": setting}
