"""`ithaca bench corfu sequencer`: how many rows one sequencer hands out, by how many are asked for at once (Figure 9).

Rows are taken for sessions of their own, and nobody writes them.
"""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ithaca.bench.children import Child, start_child
from ithaca.bench.cluster.producers import LEAD_S
from ithaca.bench.corfu.asking import Asking, asking, sequencer_of
from ithaca.bench.measure import Latency, Progress, Sample, interleave, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.server_processes import cpu_s
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.errors import Unavailable

WARM_UP_S = 0.3


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """`clients` are processes, each with `window` requests under way."""

    groups: tuple[int, ...] = (1, 16, 64, 256)
    clients: int = 1
    window: int = 4
    seconds: float = 2.0
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class TakeTurn:
    """Groups of so many rows, from when until when by the monotonic clock."""

    group: int
    window: int
    start_s: float
    stop_s: float


def take(parent: Connection, bootstrap: str, client: int) -> None:
    """A process that takes rows: connected before the first turn, it does what it is asked until the parent is gone."""
    asyncio.run(_take_turns(parent, bootstrap, client))


async def _take_turns(parent: Connection, bootstrap: str, client: int) -> None:
    async with asking(bootstrap) as asked:
        parent.send("ready")
        turns = 0
        while True:
            turn: TakeTurn = await asyncio.to_thread(parent.recv)
            turns += 1
            durations = await _take(asked, turn, (client << 32) + (turns << 20))
            parent.send(np.asarray(durations).tobytes())


async def _take(asked: Asking, turn: TakeTurn, first: int) -> list[float]:
    """How long each request took that was answered within the turn."""
    durations: list[float] = []
    await asyncio.sleep(max(0.0, turn.start_s - time.monotonic()))
    each = [first + number * turn.group for number in range(turn.window)]
    await asyncio.gather(*(_take_in_turn(asked, turn, session, durations) for session in each))
    return durations


async def _take_in_turn(asked: Asking, turn: TakeTurn, first: int, durations: list[float]) -> None:
    sessions = range(first, first + turn.group)
    rows = [-1] * turn.group
    while (began := time.monotonic()) < turn.stop_s:
        rows = await asked.rows(sessions, rows)
        if (now := time.monotonic()) <= turn.stop_s:
            durations.append(now - began)


class Takers:
    """Processes that take rows of one cluster."""

    def __init__(self, stack: ExitStack, bootstrap: str, clients: int) -> None:
        self._children: list[Child] = [
            start_child(stack, f"client {number}", take, bootstrap, number) for number in range(clients)
        ]
        for child in self._children:
            assert child.answer() == "ready"

    def measure(self, group: int, window: int, seconds: float) -> Sample:
        start_s = time.monotonic() + LEAD_S
        for child in self._children:
            child.ask(TakeTurn(group, window, start_s, start_s + seconds))
        durations = np.concatenate([np.frombuffer(child.answer()) for child in self._children])
        if not len(durations):
            raise Unavailable(f"no row was handed out within {seconds:g} s: measure longer with --seconds")
        return Sample(len(durations) * group, 0, seconds, Latency.of(durations))


def run_sequencer(parent: Path, settings: TokenSettings, progress: Progress) -> dict[str, Any]:
    """Tokens a second of one sequencer by the size of groups, and what its processor did for each."""
    shape = Shape(1, 2, 3, engine="corfu")
    cpu: dict[str, list[float]] = {str(group): [] for group in settings.groups}
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(temporary_cluster(directory / "corfu", shape, progress))
        takers = Takers(stack, cluster.bootstrap, settings.clients)
        pid = sequencer_pid(cluster)

        def turn(group: int) -> Sample:
            before_s = cpu_s(pid)
            sample = takers.measure(group, settings.window, settings.seconds)
            cpu[str(group)].append((cpu_s(pid) - before_s) * 1e6 / sample.records)
            return sample

        takers.measure(settings.groups[0], settings.window, min(WARM_UP_S, settings.seconds))
        contenders = {str(group): (lambda group=group: turn(group)) for group in settings.groups}
        samples = interleave(contenders, settings.rounds, progress)
    points = [
        {
            "group": group,
            "tokens_per_s": round(median(each.records_per_s for each in samples[str(group)]), 1),
            "tokens_per_s_rounds": [round(each.records_per_s, 1) for each in samples[str(group)]],
            "latency_ms": summarize(samples[str(group)])["latency_ms"],
            "sequencer_cpu_us": round(median(cpu[str(group)]), 2),
        }
        for group in settings.groups
    ]
    return {"bench": "corfu sequencer", "points": points, "settings": setting}


def sequencer_pid(cluster: TemporaryCluster) -> int:
    """The process of the orderer that hands out rows."""
    name = asyncio.run(sequencer_of(cluster.bootstrap))
    return next(child.pid for child in cluster.state().children if child.name == name and child.pid is not None)
