"""`ithaca bench corfu holes`: how long it takes to fill a hole, and how long a reader is held up by one.

A hole is a row that somebody has taken and then left: unwritten, or written to the head of its chain alone. Filling is
timed from the decision to do it; a reader decides by itself, once it has waited for the writer (`PATIENCE_MS`).
"""

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.bench.corfu.asking import HALF_WRITTEN, PATIENCE_MS, Asking, asking
from ithaca.bench.measure import Latency, Progress
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.model.errors import Unavailable
from ithaca.model.interface.awaited import ClusterLog


@dataclass(frozen=True, slots=True)
class HoleSettings:
    """`holes` of each kind are filled, and `waits` of each kind are met by a reader."""

    record_bytes: int = 4096
    holes: int = 200
    waits: int = 5


def run_holes(parent: Path, settings: HoleSettings, progress: Progress) -> dict[str, Any]:
    """Milliseconds to fill holes of each kind, and of readers who meet them."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        with temporary_cluster(directory / "corfu", Shape(1, 2, 3, engine="corfu"), progress) as cluster:
            found = asyncio.run(_measured(cluster.bootstrap, settings, progress))
    return {"bench": "corfu holes", **found, "settings": setting}


async def _measured(bootstrap: str, settings: HoleSettings, progress: Progress) -> dict[str, Any]:
    async with asking(bootstrap) as asked, ithaca.aio.connect(bootstrap) as log:
        value = payload(settings.record_bytes)
        await log.append(b"ready")
        found: dict[str, Any] = {}
        for kind, patience_ms in PATIENCE_MS.items():
            progress(f"filling {settings.holes} holes: {kind}")
            filled = Latency.of([await _fill(log, asked, kind, value) for _ in range(settings.holes)]).to_json()
            progress(f"reading past {settings.waits} holes: {kind}")
            passed = Latency.of([await _read_past(log, asked, kind, value) for _ in range(settings.waits)]).to_json()
            found[kind] = {"fill_ms": filled, "reader_ms": passed, "reader_patience_ms": patience_ms}
    return found


async def _fill(log: ClusterLog, asked: Asking, kind: str, value: bytes) -> float:
    position = await asked.hole(kind, value)
    began = time.monotonic()
    holds_record = await log.fill(position)
    took = time.monotonic() - began
    if holds_record != (kind == HALF_WRITTEN):
        raise Unavailable(f"a hole that was {kind} holds {'a' if holds_record else 'no'} record after it was filled")
    return took


async def _read_past(log: ClusterLog, asked: Asking, kind: str, value: bytes) -> float:
    """From when the record behind the hole is there until a reader has it."""
    position = await asked.hole(kind, value)
    behind = await log.append(b"behind")
    began = time.monotonic()
    async with log.read_range(position, behind.position + 1) as records:
        async for record in records:
            if record.position == behind.position:
                return time.monotonic() - began
    raise Unavailable(f"position {behind.position} was not read")
