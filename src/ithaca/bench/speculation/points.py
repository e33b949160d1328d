"""Experiments in which one thing is varied: shards, what is computed (SpecLog, Figures 7 to 9, 12, 14, 16)."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ithaca.bench.experiments.load import Events
from ithaca.bench.experiments.schedule import in_phases
from ithaca.bench.measure import Progress, interleave
from ithaca.bench.speculation.followed import ratio
from ithaca.bench.speculation.lab import (
    SPECULATIVE,
    Contender,
    LabSettings,
    compared,
    in_turns,
    report_of,
    side_by_side,
)
from ithaca.bench.speculation.task import OpenApplication
from ithaca.cluster.local import FILE
from ithaca.model.engine import DEFAULT_ENGINE
from ithaca.model.server_place import ServerPlace

LONE_PER_S = 20.0
"""Lone appends: each is acknowledged long before the next."""
IDLE_S = 2.0
MOST_WINDOW = 32
"""Batches in flight of each shard, to see what is taken at most."""


def run_delivery(
    parent: Path, settings: LabSettings, progress: Progress, shards: Sequence[int] = (2, 4)
) -> dict[str, Any]:
    """Delivery and end-to-end latency, by the number of shards (Figure 7; the throughput, too: Figure 14)."""
    points = []
    for count in shards:
        setting = replace(settings, shards=count)
        with side_by_side(parent, setting, progress) as contenders:
            figures = _followed(contenders, setting, progress)
        points.append({"point": f"{count} shards", "shards": count} | figures)
    return report_of("delivery", settings, parent, points=points)


def run_compute(
    parent: Path, settings: LabSettings, progress: Progress, compute_ms: Sequence[float] = (0.5, 1.5, 4.0, 15.0, 50.0)
) -> dict[str, Any]:
    """End-to-end latency and its parts, by the time that is computed (Figure 8)."""
    points: list[dict[str, Any]] = []
    with side_by_side(parent, settings, progress) as contenders:
        for compute in compute_ms:
            progress(f"computing for {compute:g} ms")
            figures = _followed(contenders, replace(settings, compute_ms=compute), progress)
            points.append({"point": f"{compute:g} ms", "compute_ms": compute} | figures)
    best = max(points, key=lambda point: point["ratios"]["end_to_end"]["median"])
    return report_of("compute", settings, parent, points=points, best_compute_ms=best["compute_ms"])


def run_append(
    parent: Path, settings: LabSettings, progress: Progress, shards: Sequence[int] = (2, 4)
) -> dict[str, Any]:
    """Append latency with nobody following, under load and alone; bytes on the disks, and what idle servers do."""
    points = []
    for count in shards:
        setting = replace(settings, shards=count)
        with side_by_side(parent, setting, progress) as contenders:
            for name, figures in _appends(contenders, setting, progress).items():
                points.append({"point": f"{count} shards, {name}", "shards": count} | figures)
    return report_of("append", settings, parent, points=points)


def run_window(
    parent: Path, settings: LabSettings, progress: Progress, rounds: Sequence[int] = (5, 20, 100, 1000)
) -> dict[str, Any]:
    """End-to-end and append latency by how many cuts a window has (Figure 12)."""
    points = []
    for count in rounds:
        progress(f"windows of {count} cuts")
        commands = {SPECULATIVE: partial(_orderer_command, count)}
        with side_by_side(parent, settings, progress, commands=commands) as contenders:
            points.append({"point": f"{count} cuts", "window": count} | _followed(contenders, settings, progress))
    return report_of("window", settings, parent, points=points)


def _orderer_command(rounds: int, directory: Path, place: ServerPlace) -> list[str] | None:
    """Replicas run as ever."""
    if place.role != "orderer":
        return None
    module = "ithaca.bench.speculation.serving"
    config, data = directory / FILE, directory / place.name
    return [sys.executable, "-P", "-m", module, str(config), str(place.number), str(data), str(rounds)]


def run_shards(
    parent: Path, settings: LabSettings, progress: Progress, shards: Sequence[int] = (1, 2, 4)
) -> dict[str, Any]:
    """What is taken at most, and latencies at a steady load, by the number of shards (Figure 14)."""
    points = []
    for count in shards:
        setting = replace(settings, shards=count)
        with side_by_side(parent, setting, progress) as contenders:
            most = _most(contenders, setting, progress)
            points.append(
                {"point": f"{count} shards", "shards": count} | _followed(contenders, setting, progress) | most
            )
    return report_of("shards", settings, parent, points=points)


def _most(contenders: Sequence[Contender], settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """Records a second with batches in flight in every shard, of each round."""

    def rate(contender: Contender) -> dict[str, float]:
        batches_per_s = contender.load.capacity(settings.seconds, MOST_WINDOW)
        return {"records_per_s": round(batches_per_s * settings.batch, 1)}

    rates = interleave({each.engine: partial(rate, each) for each in contenders}, settings.rounds, progress)
    return {
        "most_records_per_s": {engine: [each["records_per_s"] for each in of_one] for engine, of_one in rates.items()},
        "most_ratio": ratio(rates[SPECULATIVE], rates[DEFAULT_ENGINE], "records_per_s"),
    }


def run_apps(
    parent: Path,
    settings: LabSettings,
    progress: Progress,
    applications: Mapping[str, tuple[Events, OpenApplication]],
) -> dict[str, Any]:
    """End-to-end latency of applications with their databases, and its parts (Figure 16)."""
    points = []
    for name, (events, application) in applications.items():
        with side_by_side(parent, settings, progress, events=events, application=application) as contenders:
            points.append({"point": name} | _followed(contenders, settings, progress))
    return report_of("apps", settings, parent, points=points)


def _followed(contenders: Sequence[Contender], settings: LabSettings, progress: Progress) -> dict[str, Any]:
    """A steady load that is followed."""
    return compared(
        in_turns(contenders, settings, progress, lambda each: each.turn(settings.steady(), settings.compute_ms))
    )


def _appends(contenders: Sequence[Contender], settings: LabSettings, progress: Progress) -> dict[str, dict[str, Any]]:
    """A steady load that nobody follows, then lone appends."""
    idle = {each.engine: _idle(each, progress) for each in contenders}
    written = _Written(settings)
    under_load = compared(in_turns(contenders, settings, progress, written.turn)) | written.report()
    alone = in_phases(settings.seconds, [[(0.0, LONE_PER_S / settings.shards)]] * settings.shards)
    lone = compared(in_turns(contenders, settings, progress, lambda each: each.turn(alone, None)))
    return {"under load": under_load, "lone": lone | {"idle_writes_per_s": idle}}


class _Written:
    """What the servers' disks got for each record."""

    def __init__(self, settings: LabSettings) -> None:
        self._settings = settings
        self._per_record: dict[str, list[dict[str, Any]]] = {}

    def turn(self, contender: Contender) -> Any:
        before = contender.servers.written_bytes()
        turn = contender.turn(self._settings.steady(), None)
        written = contender.servers.written_bytes() - before
        self._per_record.setdefault(contender.engine, []).append({"bytes": written / max(1, turn.timeline.completed())})
        return turn

    def report(self) -> dict[str, Any]:
        """Nothing where the file system is in memory: it writes to no disk."""
        if not all(each["bytes"] for rounds in self._per_record.values() for each in rounds):
            return {}
        shares = ratio(self._per_record[SPECULATIVE], self._per_record[DEFAULT_ENGINE], "bytes")
        return {
            "written_bytes_per_record": {
                engine: [round(each["bytes"], 1) for each in rounds] for engine, rounds in self._per_record.items()
            },
            "written_ratio": shares,
        }


def _idle(contender: Contender, progress: Progress) -> float:
    """Writes to anything a second, of all servers, while nobody does anything."""
    progress(f"idle: {contender.engine}")
    time.sleep(IDLE_S)  # what was begun comes to its end
    before = contender.servers.writes()
    time.sleep(IDLE_S)
    return round((contender.servers.writes() - before) / IDLE_S, 1)
