"""`ithaca bench memory`: what a handle holds on to while many gigabytes pass through it.

A bounded log appends, keeps what its retention says, and is read along in the same process. Memory must not
grow with what has passed: private memory (`RssAnon`) is compared between an early point and the end.
"""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca
from ithaca.bench.bare import values_of
from ithaca.bench.measure import Progress
from ithaca.bench.place import surroundings, workspace
from ithaca.model.interface import Log, Subscription
from ithaca.model.limits import GIB, MIB
from ithaca.model.records import Durability, Retention

SAMPLES = 100
"""How often memory is looked at during a run."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """`baseline_bytes` is how much has passed when memory is first noted."""

    bytes: int = 10 * GIB
    baseline_bytes: int = GIB
    record_bytes: int = 4096
    batch: int = 64
    retention_bytes: int = 256 * MIB
    segment_bytes: int = 64 * MIB
    durability: Durability = "fsync"


def private_memory_bytes(pid: int | None = None) -> int:
    """`RssAnon` of a process, or of this one: what it holds itself, without mapped files and the page cache."""
    with open(f"/proc/{'self' if pid is None else pid}/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not report RssAnon in /proc/PID/status")


def run_memory(parent: Path, settings: MemorySettings, progress: Progress) -> dict[str, Any]:
    """Append and read along; note memory early, at the end, and its peak."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        with (
            ithaca.open(
                directory / "log",
                durability=settings.durability,
                retention=Retention(bytes=settings.retention_bytes),
                segment_bytes=settings.segment_bytes,
            ) as log,
            log.subscribe("latest") as subscription,
        ):
            figures = _append_and_read(log, subscription, settings, progress)
    return {"bench": "memory", **figures, "settings": setting}


def _append_and_read(
    log: Log, subscription: Subscription, settings: MemorySettings, progress: Progress
) -> dict[str, Any]:
    batch_bytes = settings.batch * settings.record_bytes
    batches = values_of(settings.record_bytes, settings.batch)
    turns = max(SAMPLES, settings.bytes // batch_bytes)
    baseline_turn = settings.baseline_bytes // batch_bytes
    if baseline_turn > turns // 2:  # a short run: early enough to see growth
        baseline_turn = turns // 10
    baseline = peak = read = 0
    started = time.perf_counter()
    for turn in range(turns):
        log.append_many(batches[turn % len(batches)])
        read += len(subscription.poll(timeout=None, max_records=settings.batch))
        if turn == baseline_turn:
            baseline = private_memory_bytes()
        if turn % (turns // SAMPLES) == 0:
            peak = max(peak, private_memory_bytes())
            progress(f"{turn * batch_bytes / 1e9:.1f} GB have passed, {peak / 1e6:.0f} MB held at most")
    end = private_memory_bytes()
    return {
        "baseline_at_bytes": baseline_turn * batch_bytes,
        "baseline_rss_anon_bytes": baseline,
        "end_at_bytes": turns * batch_bytes,
        "end_rss_anon_bytes": end,
        "peak_rss_anon_bytes": max(peak, end),
        "growth_bytes": end - baseline,
        "records_read": read,
        "bytes_per_s": round(turns * batch_bytes / (time.perf_counter() - started), 1),
    }
