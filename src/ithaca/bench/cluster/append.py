"""`ithaca bench append` and `ithaca bench latency`: a cluster against two bare replicas, interleaved in one run.

The ceiling sends the same batches to two bare servers that sync them (`replicated`), with as many batches in
flight as all producers together. It has no ordering, no checksums, no sessions and no records.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.bare import CeilingSettings
from ithaca.bench.cluster.producers import Plan, Producers, producers
from ithaca.bench.cluster.target import Measured, measured_cluster
from ithaca.bench.cluster.trimmer import Trimmer
from ithaca.bench.measure import Progress, Sample, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.profiles import draw_profiles
from ithaca.bench.replicated import replicated_contenders
from ithaca.cluster.temporary import Shape

CLUSTER = "cluster"
CEILINGS = {"prewritten": "ceiling, prewritten", "append": "ceiling, append"}
KEPT_SEGMENTS = 2
"""What a recycling cluster keeps of each shard, about."""
WARM_UP_SEGMENTS = 3 * KEPT_SEGMENTS
WARM_UP_S = 0.5
PROFILE_S = 5.0


@dataclass(frozen=True, slots=True)
class AppendSettings:
    """`cluster` is the bootstrap address of one that runs already, or the shape of one to be started."""

    cluster: str | Shape
    record_bytes: int = 4096
    batch: int = 64
    producers: int = 1
    window: int = 4
    seconds: float = 2.0
    rounds: int = 5
    recycle: bool = False

    @property
    def plan(self) -> Plan:
        return Plan(self.record_bytes, self.batch, self.window)

    @property
    def ceiling(self) -> CeilingSettings | None:
        """The same bytes, files and syncs for two bare servers; None where that is no comparison."""
        if isinstance(self.cluster, str) or self.cluster.replicas != 2:
            return None
        return CeilingSettings(
            record_bytes=self.record_bytes,
            batch=self.batch,
            seconds=self.seconds,
            rounds=self.rounds,
            replicas=2,
            window=self.window * self.producers,
            file_bytes=self.cluster.segment_bytes,
            durability=self.cluster.durability,
        )


def run_append(
    parent: Path, settings: AppendSettings, progress: Progress, profile: Path | None = None, *, bench: str = "append"
) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(measured_cluster(directory / "cluster", settings.cluster, progress))
        seats = spread(cluster, settings.producers)
        team = stack.enter_context(producers(cluster.bootstrap, seats, settings.plan, cluster.tls))
        contenders: dict[str, Callable[[], Sample]] = {}
        if settings.ceiling is not None:
            bare = stack.enter_context(replicated_contenders(directory, settings.ceiling))
            contenders |= {CEILINGS[kind]: contender for kind, contender in bare.items()}
        contenders[CLUSTER] = cluster_contender(stack, cluster, team, settings, progress)
        samples = interleave(contenders, settings.rounds, progress)
        profiles = {}
        if profile is not None:
            pids = cluster.pids() | {child.name: child.pid for child in team.children}
            profiles = draw_profiles(profile, pids, PROFILE_S, lambda: team.measure(PROFILE_S + 1), progress)
    return _report(bench, samples, settings, setting) | ({"profiles": profiles} if profile is not None else {})


def run_latency(
    parent: Path, settings: AppendSettings, progress: Progress, profile: Path | None = None
) -> dict[str, Any]:
    """Lone appends: one producer, one record at a time, each waiting for its receipt."""
    lone = replace(settings, producers=1, batch=1, window=1)
    return run_append(parent, lone, progress, profile, bench="latency")


def spread(cluster: Measured, count: int) -> list[int | None]:
    """A shard for each producer, in turn; a single shard is left to the policy."""
    if len(cluster.shards) == 1:
        return [None] * count
    return [cluster.shards[number % len(cluster.shards)] for number in range(count)]


def cluster_contender(
    stack: ExitStack, cluster: Measured, team: Producers, settings: AppendSettings, progress: Progress
) -> Callable[[], Sample]:
    """Measures one turn of the producers each time it is called; warm already."""
    if not settings.recycle:
        team.measure(min(WARM_UP_S, settings.seconds))
        return lambda: team.measure(settings.seconds)
    assert isinstance(settings.cluster, Shape), "a running cluster is not trimmed by a measurement"
    progress("filling the cluster until it writes over trimmed segments")
    log = stack.enter_context(ithaca.connect(cluster.bootstrap, tls=cluster.tls, token=cluster.token))
    segment_records = len(cluster.shards) * settings.cluster.segment_bytes // settings.record_bytes
    trimmer = Trimmer(log, KEPT_SEGMENTS * segment_records)
    team.fill(WARM_UP_SEGMENTS * segment_records * settings.record_bytes, trimmer, wide=True)
    return lambda: team.measure(settings.seconds, trimmer)


def _report(
    bench: str, samples: dict[str, list[Sample]], settings: AppendSettings, setting: dict[str, Any]
) -> dict[str, Any]:
    contenders = {name: summarize(of_one) for name, of_one in samples.items()}
    main = {key: value for key, value in contenders[CLUSTER].items() if key != "rounds"}
    shares = {name: ratios(samples[CLUSTER], samples[name]) for name in CEILINGS.values() if name in samples}
    if shares:
        alike = CEILINGS["prewritten" if settings.recycle else "append"]
        contenders[CLUSTER]["ratios"] = {"to": alike, **shares[alike]}
    return {"bench": bench, **main, "contenders": contenders, "compared": {CLUSTER: shares}, "settings": setting}
