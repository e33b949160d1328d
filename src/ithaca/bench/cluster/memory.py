"""`ithaca bench memory --cluster`: what every server holds on to while many gigabytes pass through a cluster.

A producer appends, a follower reads along, and the log is trimmed behind both. The private memory (`RssAnon`) of
every server is looked at all the while; what is printed is its peak, early and over the whole run.
"""

import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.children import Child, start_child
from ithaca.bench.cluster.append import spread
from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.cluster.target import Measured, measured_cluster
from ithaca.bench.cluster.trimmer import Trimmer
from ithaca.bench.measure import Progress
from ithaca.bench.memory import private_memory_bytes
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import Unavailable
from ithaca.model.interface import ClusterLog
from ithaca.model.limits import GIB, MIB

WINDOW = 8
PART_BYTES = 64 * MIB
"""The run is cut into parts, and nobody is further ahead of the follower than one of them and what is kept."""
FOLLOWED_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class ClusterMemorySettings:
    """`baseline_bytes` is how much has passed when the early peak is noted."""

    cluster: Shape
    bytes: int = 10 * GIB
    baseline_bytes: int = GIB
    record_bytes: int = 4096
    batch: int = 64
    kept_bytes: int = 512 * MIB


def follow(parent: Connection, bootstrap: str, start: int) -> None:
    """The follower's process: reads along, and tells how far it is whenever it is asked."""
    with ithaca.connect(bootstrap) as log, log.subscribe(start) as subscription:
        parent.send("ready")
        while True:
            subscription.poll(0.05)
            if parent.poll():
                parent.recv()
                parent.send(subscription.position)


class _Peaks:
    """The most that each process held, so far."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self.bytes = dict.fromkeys(pids, 0)

    def look(self) -> None:
        for name, pid in self._pids.items():
            self.bytes[name] = max(self.bytes[name], private_memory_bytes(pid))


def run_cluster_memory(parent: Path, settings: ClusterMemorySettings, progress: Progress) -> dict[str, Any]:
    """Let the bytes pass through; the peak of every server, early and at the end."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(measured_cluster(directory / "cluster", settings.cluster, progress))
        figures = _pass_through(stack, cluster, settings, progress)
    return {"bench": "memory", **figures, "settings": setting}


def _pass_through(
    stack: ExitStack, cluster: Measured, settings: ClusterMemorySettings, progress: Progress
) -> dict[str, Any]:
    log = stack.enter_context(ithaca.connect(cluster.bootstrap, tls=cluster.tls))
    start = log.tail()
    follower = start_child(stack, "follower", follow, cluster.bootstrap, start)
    assert follower.answer() == "ready"
    plan = Plan(settings.record_bytes, settings.batch, WINDOW)
    team = stack.enter_context(producers(cluster.bootstrap, spread(cluster, len(cluster.shards)), plan, cluster.tls))
    peaks = _Peaks(cluster.pids())
    trimmer = _BehindFollower(log, follower, settings.kept_bytes // settings.record_bytes)

    def meanwhile() -> None:
        peaks.look()
        trimmer()

    early: dict[str, int] = {}
    early_bytes = passed = 0
    part_bytes = min(PART_BYTES, settings.bytes // 2)
    started = time.perf_counter()
    while passed < settings.bytes:
        passed += team.fill(part_bytes, meanwhile).bytes
        trimmer.wait_for(log.tail() - settings.kept_bytes // settings.record_bytes)
        meanwhile()
        if not early and passed >= min(settings.baseline_bytes, settings.bytes // 2):
            early, early_bytes = dict(peaks.bytes), passed
        most = max(peaks.bytes, key=lambda name: peaks.bytes[name])
        progress(f"{passed / 1e9:.1f} GB have passed, {most} held {peaks.bytes[most] / 1e6:.0f} MB at most")
    seconds = time.perf_counter() - started
    trimmer.wait_for(log.tail())
    return {
        "early_at_bytes": early_bytes,
        "end_at_bytes": passed,
        "records_followed": trimmer.followed - start,
        "bytes_per_s": round(passed / seconds, 1),
        "servers": {
            name: {"early_peak_rss_anon_bytes": early[name], "peak_rss_anon_bytes": peak}
            for name, peak in peaks.bytes.items()
        },
    }


class _BehindFollower:
    """Trims, but never what the follower has not read."""

    def __init__(self, log: ClusterLog, follower: Child, kept_records: int) -> None:
        self._follower = follower
        self.followed = 1
        self._trimmer = Trimmer(log, kept_records, self.position)

    def position(self) -> int:
        self._follower.ask("where")
        self.followed = int(self._follower.answer())
        return self.followed

    def __call__(self) -> None:
        self._trimmer()

    def wait_for(self, position: int) -> None:
        deadline = time.monotonic() + FOLLOWED_TIMEOUT_S
        while self.position() < position:
            if time.monotonic() > deadline:
                raise Unavailable(f"the follower is at {self.followed} and does not come to {position}")
