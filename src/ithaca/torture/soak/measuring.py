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
STARTS = 10
"""Of replicas, of each cluster, in each round."""
FRESH_RECORDS = 200


@dataclass(frozen=True, slots=True)
class Latencies:
    """Medians."""

    append_ms: float
    read_ms: float
    start_ms: float


async def measured(
    log: ClusterLog, subject: Subject, starts: int, directory: Path, durability: Durability
) -> tuple[Latencies, Latencies]:
    """The aged cluster, of which so many replicas are restarted, and a fresh one; their starts and calls take turns."""
    starts_s: list[list[float]] = [[], []]
    with Subject(directory, durability) as fresh:
        async with await ithaca.aio.connect(fresh.bootstrap, timeout=TIMEOUT_S) as young:
            for number in range(STARTS):
                if number < starts:
                    starts_s[0].append(await _restarted(subject, log))
                starts_s[1].append(await _restarted(fresh, young))
            for _ in range(FRESH_RECORDS):
                await young.append(RECORD)
            append_ms = await _in_turns(lambda: patient(lambda: log.append(RECORD)), lambda: young.append(RECORD))
            read_ms = await _in_turns(lambda: _read_any(log), lambda: _read_any(young))
    aged_s, fresh_s = starts_s
    aged = Latencies(append_ms[0], read_ms[0], _median_ms(aged_s or fresh_s))
    return aged, Latencies(append_ms[1], read_ms[1], _median_ms(fresh_s))


async def _restarted(subject: Subject, log: ClusterLog) -> float:
    """How long a replica took to start; behind it something is appended, so that its lane does not vanish."""
    taken_s = await asyncio.to_thread(subject.restart_replica)
    await patient(lambda: log.append(RECORD))
    return taken_s


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
