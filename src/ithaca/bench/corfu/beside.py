"""`ithaca bench corfu append|latency|read`: corfu beside scalog with as many shards and replicas, in turns."""

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.cluster.contest import Load, contest, running_clusters
from ithaca.bench.cluster.loopback import start_loopback
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.reader import Reading, Way, start_reader
from ithaca.bench.corfu.tokens import Takers
from ithaca.bench.measure import Progress, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape, TemporaryCluster
from ithaca.model.limits import MIB

UNITS = 2
FILL_WINDOW = 8
FILES: Way = "scan, files"
SOCKETS: Way = "scan, sockets"
WAYS: tuple[Way, ...] = ("loopback, records", "read", "read_range", "subscribe, batches", SOCKETS, FILES)


def shapes(sets: int) -> dict[str, Shape]:
    """Sets of units, and as many shards of as many replicas."""
    return {"corfu": Shape(sets, UNITS, 3, engine="corfu"), "scalog": Shape(sets, UNITS, 3)}


@dataclass(frozen=True, slots=True)
class SetsSettings:
    """Each number of sets is measured with as many producers as it has sets, and `producers` at least."""

    sets: tuple[int, ...] = (1, 2)
    record_bytes: int = 4096
    batch: int = 64
    window: int = 4
    producers: int = 1
    seconds: float = 2.0
    rounds: int = 5


def run_sets(parent: Path, settings: SetsSettings, progress: Progress) -> dict[str, Any]:
    """Rates and latencies by sets, and the processors' time for a record (Figure 6)."""
    plan = Plan(settings.record_bytes, settings.batch, settings.window)
    points = []
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        for sets in settings.sets:
            load = Load(plan, settings.seconds, settings.rounds, max(settings.producers, sets))
            with running_clusters(directory / str(sets), shapes(sets), progress) as clusters:
                points.append({"sets": sets, "producers": load.producers, **contest(clusters, load, progress)})
    return {"bench": "corfu append", "points": points, "settings": setting}


@dataclass(frozen=True, slots=True)
class LoneSettings:
    record_bytes: int = 4096
    seconds: float = 2.0
    rounds: int = 5


def run_lone(parent: Path, settings: LoneSettings, progress: Progress) -> dict[str, Any]:
    """Lone appends of both, and the sequencer's part of them: a row that is taken and not written."""
    load = Load(Plan(settings.record_bytes, 1, 1), settings.seconds, settings.rounds)
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        clusters = stack.enter_context(running_clusters(directory, shapes(1), progress))
        takers = Takers(stack, clusters["corfu"].bootstrap, 1)
        takers.measure(1, 1, min(0.3, settings.seconds))
        found = contest(clusters, load, progress, {"token": lambda: takers.measure(1, 1, settings.seconds)})
    share = found["token"]["latency_ms"]["p50"] / found["corfu"]["latency_ms"]["p50"]
    return {"bench": "corfu latency", **found, "sequencer_share": round(share, 3), "settings": setting}


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """`bytes` is what each log is filled with."""

    bytes: int = 128 * MIB
    record_bytes: int = 4096
    batch: int = 64
    seconds: float = 2.0
    rounds: int = 5


def run_scans(parent: Path, settings: ScanSettings, progress: Progress) -> dict[str, Any]:
    """Single records, whole ranges, subscriptions and scans, of both: everything is complete and in the page cache
    (Figure 7)."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        clusters = stack.enter_context(running_clusters(directory, shapes(1), progress))
        contenders = {}
        for name, cluster in clusters.items():
            reading = _filled(stack, cluster, settings, progress)
            reader = start_reader(stack, cluster.bootstrap)
            for way in WAYS:
                contenders[f"{name}: {way}"] = reader.contender(way, reading)
        for name, contender in contenders.items():
            progress(f"once, not counted: {name}")
            contender()
        samples = interleave(contenders, settings.rounds, progress)
    found = {name: summarize(of_one) for name, of_one in samples.items()}
    for way in WAYS[1:]:
        peer = f"scalog: {way}"
        share = ratios(samples[f"corfu: {way}"], samples[peer], with_latency=way == "read")
        found[f"corfu: {way}"]["ratios"] = {"to": peer, **share}
    files = ratios(samples[f"corfu: {FILES}"], samples[f"corfu: {SOCKETS}"], with_latency=False)
    found[f"corfu: {FILES}"]["to_sockets"] = files
    return {"bench": "corfu read", "contenders": found, "settings": setting}


def _filled(stack: ExitStack, cluster: TemporaryCluster, settings: ScanSettings, progress: Progress) -> Reading:
    progress(f"appending {settings.bytes / 1e6:.0f} MB to read")
    plan = Plan(settings.record_bytes, settings.batch, FILL_WINDOW)
    with ithaca.connect(cluster.bootstrap) as log:
        start = log.tail()
        with producers(cluster.bootstrap, [None], plan) as team:
            team.fill(settings.bytes)
        stop = log.tail()
        with log.read_range(start, stop) as records:
            positions = [record.position for record in records]
    loopback = start_loopback(stack, len(positions) * settings.record_bytes, settings.record_bytes)
    size = settings.record_bytes, settings.batch, settings.seconds
    return Reading(start, stop, len(positions), *size, loopback, tuple(positions[:: settings.batch // 2 + 1]))
