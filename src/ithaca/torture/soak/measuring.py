"""How a cluster is, beside one that was just made."""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import ithaca.aio
from ithaca.model.errors import Trimmed
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Durability
from ithaca.torture.clients.client import TIMEOUT_S, patient
from ithaca.torture.soak.subject import Subject
from ithaca.torture.soak.work import RECORD

CALLS = 100
"""Of each kind, of each cluster, in each round."""
FRESH_STARTS = 10
FRESH_RECORDS = 200


@dataclass(frozen=True, slots=True)
class Latencies:
    """Medians."""

    append_ms: float
    read_ms: float
    start_ms: float


async def measured(
    log: ClusterLog, starts_s: list[float], directory: Path, durability: Durability
) -> tuple[Latencies, Latencies]:
    """The aged cluster, whose starts were timed already, and a fresh one; their calls take turns."""
    with Subject(directory, durability) as fresh:
        fresh_starts_s = []
        async with await ithaca.aio.connect(fresh.bootstrap, timeout=TIMEOUT_S) as young:
            for _ in range(FRESH_STARTS):
                fresh_starts_s.append(await asyncio.to_thread(fresh.restart_replica))
                await patient(lambda: young.append(RECORD))
            for _ in range(FRESH_RECORDS):
                await young.append(RECORD)
            append_ms = await _in_turns(lambda: patient(lambda: log.append(RECORD)), lambda: young.append(RECORD))
            read_ms = await _in_turns(lambda: _read_any(log), lambda: _read_any(young))
    aged = Latencies(append_ms[0], read_ms[0], _median_ms(starts_s or fresh_starts_s))
    return aged, Latencies(append_ms[1], read_ms[1], _median_ms(fresh_starts_s))


async def _read_any(log: ClusterLog) -> None:
    while True:
        position = random.randrange(await patient(log.first), await patient(log.tail))
        try:
            await log.read(position)
            return
        except Trimmed:  # retention was quicker
            continue


async def _in_turns(*calls: Callable[[], Awaitable[object]]) -> list[float]:
    taken_s: list[list[float]] = [[] for _ in calls]
    for _ in range(CALLS):
        for call, taken in zip(calls, taken_s, strict=True):
            started_s = time.perf_counter()
            await call()
            taken.append(time.perf_counter() - started_s)
    return [_median_ms(taken) for taken in taken_s]


def _median_ms(taken_s: list[float]) -> float:
    return statistics.median(taken_s) * 1e3
