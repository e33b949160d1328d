"""`ithaca bench corfu reconfigure`: how long nothing is appended when a unit, or the sequencer, is killed.

One client appends, one record after the other. What it waits for is told apart: until it decides that somebody is gone,
which is when it seals the epoch, and from then on until an append is acknowledged. Beside it scalog loses the orderer
that leads, which is as needed there as the sequencer is here.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import ithaca.aio
from ithaca.bench.corfu.asking import observed_log, sequencer_of
from ithaca.bench.experiments.servers import Servers, experiment_servers
from ithaca.bench.measure import Progress
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.interface.awaited import ClusterLog

UNIT, SEQUENCER, LEADER = "corfu: unit killed", "corfu: sequencer killed", "scalog: leader killed"
BEFORE = 20
"""Appends before anything happens."""
TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class OutageSettings:
    rounds: int = 5
    record_bytes: int = 4096


def run_outages(parent: Path, settings: OutageSettings, progress: Progress) -> dict[str, Any]:
    """Milliseconds without acknowledgements in each round, and how many of them came after the decision."""
    found: dict[str, list[dict[str, float]]] = {UNIT: [], SEQUENCER: [], LEADER: []}
    value = payload(settings.record_bytes)
    with workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        with _both(directory, progress) as (corfu, scalog):
            for turn in range(settings.rounds):
                for kind in found:
                    progress(f"round {turn + 1} of {settings.rounds}: {kind}")
                    servers = scalog if kind == LEADER else corfu
                    killed = _victim(kind, servers)
                    measure = _scalog_outage if kind == LEADER else _corfu_outage
                    found[kind].append(asyncio.run(measure(servers, killed, value)))
                    servers.start(killed)
                    servers.wait_healthy([*_units(servers)], progress)
    return {
        "bench": "corfu reconfigure",
        "outages": {kind: _summary(rounds) for kind, rounds in found.items()},
        "settings": setting,
    }


@contextmanager
def _both(directory: Path, progress: Progress) -> Iterator[tuple[Servers, Servers]]:
    """Three units in the chain, so that two are left."""
    shapes = Shape(1, 3, 3, engine="corfu"), Shape(1, 2, 3)
    with (
        experiment_servers(directory / "corfu", shapes[0], progress) as corfu,
        experiment_servers(directory / "scalog", shapes[1], progress) as scalog,
    ):
        yield corfu, scalog


def _units(servers: Servers) -> list[str]:
    return [place.name for place in servers.replicas_of(0)]


def _victim(kind: str, servers: Servers) -> str:
    if kind == UNIT:
        return _units(servers)[0]
    if kind == LEADER:
        return servers.leader()
    return asyncio.run(sequencer_of(servers.bootstrap))


async def _corfu_outage(servers: Servers, killed: str, value: bytes) -> dict[str, float]:
    async with observed_log(servers.bootstrap, TIMEOUT_S) as (log, driver):
        began, ended = await _outage(log, servers, killed, value)
        sealed_s = began if driver.sealed_s is None else driver.sealed_s
        return {
            "gap_ms": (ended - began) * 1000,
            "decided_ms": (sealed_s - began) * 1000,
            "back_ms": (ended - sealed_s) * 1000,
        }


async def _scalog_outage(servers: Servers, killed: str, value: bytes) -> dict[str, float]:
    async with ithaca.aio.connect(servers.bootstrap, timeout=TIMEOUT_S) as log:
        began, ended = await _outage(log, servers, killed, value)
        return {"gap_ms": (ended - began) * 1000}


async def _outage(log: ClusterLog, servers: Servers, killed: str, value: bytes) -> tuple[float, float]:
    """When the server was killed, and when the first append was acknowledged that came to its end after that."""
    for _ in range(BEFORE):
        await log.append(value)
    began = time.monotonic()
    servers.kill(killed)
    await log.append(value)
    return began, time.monotonic()


def _summary(rounds: list[dict[str, float]]) -> dict[str, Any]:
    medians = {which: round(median(each[which] for each in rounds), 1) for which in rounds[0]}
    return {**medians, "rounds": [{which: round(ms, 1) for which, ms in each.items()} for each in rounds]}
