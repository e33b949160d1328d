"""Experiments in which one thing is varied: shards, what is computed (SpecLog, Figures 7 to 9, 14 and 16)."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ithaca.bench.experiments.load import Events
from ithaca.bench.experiments.schedule import in_phases
from ithaca.bench.measure import Progress
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
from ithaca.model.engine import DEFAULT_ENGINE

LONE_PER_S = 20.0
"""Lone appends: each is acknowledged long before the next."""
IDLE_S = 2.0


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
