"""`ithaca bench corfu holes`: how long it takes to fill a hole, and how long a reader is held up by one.

A hole is a row that somebody has taken and then left: unwritten, or written to the head of its chain alone. Filling is
timed from the decision to do it; a reader decides by itself, after `HOLE_MS` and `JUNK_MS`.
"""

import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.bench.corfu.asking import FIRST_PRODUCER, Asking, asking
from ithaca.bench.measure import Latency, Progress
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.client.appending.outgoing import numbered
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.engines.corfu.sequencing.limits import HOLE_MS, JUNK_MS
from ithaca.engines.corfu.sequencing.rows import first_position
from ithaca.model.errors import Unavailable
from ithaca.model.interface.awaited import ClusterLog
from ithaca.runtime.machine import wall_us
from ithaca.wire.build import build

UNWRITTEN, HALF_WRITTEN = "unwritten", "half written"


@dataclass(frozen=True, slots=True)
class HoleSettings:
    """`holes` of each kind are filled, and `waits` of each kind are met by a reader."""

    record_bytes: int = 4096
    holes: int = 200
    waits: int = 5


class _Holes:
    """Makes holes, one after the other."""

    def __init__(self, asked: Asking, record_bytes: int) -> None:
        self._asked = asked
        self._value = payload(record_bytes)
        self._count = 0

    async def make(self, kind: str) -> int:
        """A hole of this kind; where it begins."""
        self._count += 1
        token = await self._asked.token(self._count)
        if kind == HALF_WRITTEN:
            batch = build([self._value], None, timestamp_us=wall_us(), compress="none")
            await self._asked.write_head(token, numbered(batch, (FIRST_PRODUCER + self._count, 1, 1)))
        return first_position(token.row)


def run_holes(parent: Path, settings: HoleSettings, progress: Progress) -> dict[str, Any]:
    """Milliseconds to fill holes of each kind, and of readers who meet them."""
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        with temporary_cluster(directory / "corfu", Shape(1, 2, 3, engine="corfu"), progress) as cluster:
            found = asyncio.run(_measured(cluster.bootstrap, settings, progress))
    return {"bench": "corfu holes", **found, "settings": setting}


async def _measured(bootstrap: str, settings: HoleSettings, progress: Progress) -> dict[str, Any]:
    async with asking(bootstrap) as asked, ithaca.aio.connect(bootstrap) as log:
        holes = _Holes(asked, settings.record_bytes)
        await log.append(b"ready")
        found: dict[str, Any] = {}
        for kind, patience_ms in ((UNWRITTEN, JUNK_MS), (HALF_WRITTEN, HOLE_MS)):
            progress(f"filling {settings.holes} holes: {kind}")
            filled = Latency.of([await _fill(log, holes, kind) for _ in range(settings.holes)]).to_json()
            progress(f"reading past {settings.waits} holes: {kind}")
            passed = Latency.of([await _read_past(log, holes, kind) for _ in range(settings.waits)]).to_json()
            found[kind] = {"fill_ms": filled, "reader_ms": passed, "reader_patience_ms": patience_ms}
    return found


async def _fill(log: ClusterLog, holes: _Holes, kind: str) -> float:
    position = await holes.make(kind)
    began = time.monotonic()
    holds_record = await log.fill(position)
    took = time.monotonic() - began
    if holds_record != (kind == HALF_WRITTEN):
        raise Unavailable(f"a hole that was {kind} holds {'a' if holds_record else 'no'} record after it was filled")
    return took


async def _read_past(log: ClusterLog, holes: _Holes, kind: str) -> float:
    """From when the record behind the hole is there until a reader has it."""
    position = await holes.make(kind)
    behind = await log.append(b"behind")
    began = time.monotonic()
    async with log.read_range(position, behind.position + 1) as records:
        async for record in records:
            if record.position == behind.position:
                return time.monotonic() - began
    raise Unavailable(f"position {behind.position} was not read")
