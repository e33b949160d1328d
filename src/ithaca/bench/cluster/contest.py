"""Clusters of several shapes under the same load, in turns: rates, latencies, and the processors' time for a record."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ithaca.bench.cluster.producers import Plan, Producers, producers
from ithaca.bench.measure import Progress, Sample, interleave, ratios, summarize
from ithaca.bench.server_processes import cpu_s
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.engine import FEATURES, Feature

WARM_UP_S = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What each cluster gets, for how long, and how often."""

    plan: Plan
    seconds: float
    rounds: int
    producers: int = 1


@contextmanager
def running_clusters(
    directory: Path, shapes: Mapping[str, Shape], progress: Progress
) -> Iterator[dict[str, TemporaryCluster]]:
    """A cluster of each shape; all are up at the same time, and idle but in their turns."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(temporary_cluster(directory / name, shape, progress))
            for name, shape in shapes.items()
        }


def contest(
    clusters: Mapping[str, TemporaryCluster],
    load: Load,
    progress: Progress,
    others: Mapping[str, Callable[[], Sample]] | None = None,
) -> dict[str, Any]:
    """Figures of each cluster, and how the first does beside the second, within each round.

    `others` take their turns in the same rounds.
    """
    cpu: dict[str, list[float]] = {name: [] for name in clusters}
    with ExitStack() as stack:
        contenders: dict[str, Callable[[], Sample]] = {}
        for name, cluster in clusters.items():
            team = stack.enter_context(producers(cluster.bootstrap, _homes(cluster, load.producers), load.plan))
            team.measure(min(WARM_UP_S, load.seconds))
            contenders[name] = _counted(cluster, team, load.seconds, cpu[name])
        samples = interleave(contenders | dict(others or {}), load.rounds, progress)
    found: dict[str, Any] = {name: summarize(of_one) for name, of_one in samples.items()}
    for name, each in cpu.items():
        found[name]["cpu_us_per_record"] = round(median(each), 1)
    first, second = list(clusters)[:2]
    found["ratios"] = ratios(samples[first], samples[second])
    return found


def _homes(cluster: TemporaryCluster, count: int) -> list[int | None]:
    """A shard for each producer, in turn, where records have one by choice."""
    shards = [shard.shard for shard in cluster.file.shards]
    if Feature.SHARDS not in FEATURES[cluster.file.engine] or len(shards) < 2:
        return [None] * count
    return [shards[number % len(shards)] for number in range(count)]


def _counted(cluster: TemporaryCluster, team: Producers, seconds: float, cpu: list[float]) -> Callable[[], Sample]:
    """A turn of the producers; notes what servers and producers used of the processors, for a record."""

    def turn() -> Sample:
        before_s = _used_s(cluster, team)
        sample = team.measure(seconds)
        cpu.append((_used_s(cluster, team) - before_s) * 1e6 / sample.records)
        return sample

    return turn


def _used_s(cluster: TemporaryCluster, team: Producers) -> float:
    servers = [child.pid for child in cluster.state().children if child.pid is not None]
    return sum(map(cpu_s, [*servers, *(child.pid for child in team.children)]))
