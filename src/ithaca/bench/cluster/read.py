"""`ithaca bench subscribe` and `ithaca bench read`: reading from a cluster against bare sockets, interleaved.

A log is filled first; one process reads it, the bare bytes included. Everything comes from the servers' page
cache or memory, as it does for a follower that keeps up.
"""

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.cluster.append import PROFILE_S, spread
from ithaca.bench.cluster.loopback import start_loopback
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.reader import Reader, Reading, Way, start_reader
from ithaca.bench.cluster.target import Measured, measured_cluster
from ithaca.bench.measure import Progress, Sample, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.profiles import draw_profiles
from ithaca.cluster.temporary import Shape
from ithaca.engines.tasks import count_records
from ithaca.model.limits import MIB

FILL_WINDOW = 8
SUBSCRIBE: dict[Way, Way | None] = {
    "loopback, bytes": None,
    "loopback, records": None,
    "subscribe, batches": "loopback, bytes",
    "subscribe, records": "loopback, records",
}
READ: dict[Way, Way | None] = {
    "round trip": None,
    "read": "round trip",
    "loopback, records": None,
    "read_range": "loopback, records",
}
"""Each way of reading, and what it is compared with."""


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """`bytes` is what the log is filled with."""

    cluster: str | Shape
    bytes: int = 512 * MIB
    record_bytes: int = 4096
    batch: int = 64
    seconds: float = 2.0
    rounds: int = 5


def run_subscribe(
    parent: Path, settings: ReadSettings, progress: Progress, profile: Path | None = None
) -> dict[str, Any]:
    """One follower reads everything, as batches and as records."""
    return _run("subscribe", SUBSCRIBE, parent, settings, progress, profile)


def run_read(parent: Path, settings: ReadSettings, progress: Progress, profile: Path | None = None) -> dict[str, Any]:
    """Single records at random places, and a whole range."""
    return _run("read", READ, parent, settings, progress, profile)


def _run(
    bench: str,
    ways: dict[Way, Way | None],
    parent: Path,
    settings: ReadSettings,
    progress: Progress,
    profile: Path | None,
) -> dict[str, Any]:
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(measured_cluster(directory / "cluster", settings.cluster, progress))
        reading = _fill(stack, cluster, settings, progress)
        reader = start_reader(stack, cluster.bootstrap)
        contenders = {str(way): reader.contender(way, reading) for way in ways}
        for way, contender in contenders.items():
            progress(f"once, not counted: {way}")
            contender()
        samples = interleave(contenders, settings.rounds, progress)
        report = _report(bench, ways, samples) | {"settings": setting}
        if profile is not None:
            report["profiles"] = _profile(profile, cluster, reader, list(ways)[-1], reading, progress)
    return report


def _fill(stack: ExitStack, cluster: Measured, settings: ReadSettings, progress: Progress) -> Reading:
    """Append what is read, in every shard alike; other records of a running cluster are left aside."""
    progress(f"appending {settings.bytes / 1e6:.0f} MB to read")
    log = stack.enter_context(ithaca.connect(cluster.bootstrap, tls=cluster.tls))
    start = log.tail()
    plan = Plan(settings.record_bytes, settings.batch, FILL_WINDOW)
    with producers(cluster.bootstrap, spread(cluster, len(cluster.shards)), plan, cluster.tls) as team:
        team.fill(settings.bytes)
    stop = log.tail()
    records = count_records(log, start, stop)
    loopback = start_loopback(stack, records * settings.record_bytes, settings.record_bytes)
    return Reading(start, stop, records, settings.record_bytes, settings.batch, settings.seconds, loopback)


def _report(bench: str, ways: dict[Way, Way | None], samples: dict[str, list[Sample]]) -> dict[str, Any]:
    contenders = {name: summarize(of_one) for name, of_one in samples.items()}
    for way, ceiling in ways.items():
        if ceiling is not None:
            # Parts of a stream are not of the same size in both; single answers are.
            share = ratios(samples[way], samples[ceiling], with_latency=way == "read")
            contenders[way]["ratios"] = {"to": ceiling, **share}
    last = list(ways)[-1]
    main = {key: value for key, value in contenders[last].items() if key not in ("rounds", "ratios")}
    return {"bench": bench, **main, "contenders": contenders}


def _profile(
    directory: Path, cluster: Measured, reader: Reader, way: Way, reading: Reading, progress: Progress
) -> dict[str, str]:
    measure = reader.contender(way, reading)

    def work() -> None:
        done_s = 0.0
        while done_s <= PROFILE_S:
            done_s += measure().seconds

    pids = cluster.pids() | {reader.child.name: reader.child.pid}
    return draw_profiles(directory, pids, PROFILE_S, work, progress)
