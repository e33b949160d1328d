"""The clients of one system in one workload: processes that start their turns together, and what they cost."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ithaca.bench.children import ANSWER_TIMEOUT_S, Child, start_child
from ithaca.bench.cluster.producers import LEAD_S, Counted, Turn
from ithaca.bench.compare.system import Running
from ithaca.bench.compare.work import Fill, Filled, Pace, Read, ReadAll, ReadSome, Role, work
from ithaca.bench.compare.workloads import Workload
from ithaca.bench.costs import cpu_s, written_bytes
from ithaca.bench.measure import Latency
from ithaca.bench.place import SEED
from ithaca.model.errors import Unavailable

READ_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Round:
    """What one system did in one round: rates, latency of single requests, and what a record cost."""

    records_per_s: float
    bytes_per_s: float
    latency: Latency | None
    server_cpu_us: float
    client_cpu_us: float
    written_bytes: float
    """CPU in microseconds and bytes on disks, each for one record."""


class Team:
    """Clients that are connected."""

    def __init__(self, running: Running, workload: Workload, children: Sequence[Child], pids: Sequence[int]) -> None:
        self._running, self._workload, self._children = running, workload, children
        self._pids = pids
        self._filled: Filled | None = None

    def fill(self, child: Child) -> None:
        """Append what is to be read; batches as large as the workload's."""
        workload = self._workload
        child.ask(Fill(workload.record_bytes, workload.batch, workload.fill_records))
        filled: Filled = child.answer(READ_TIMEOUT_S)
        self._filled = filled

    def warm_up(self, seconds: float, batches_per_s: float) -> None:
        """A turn that does not count, however little comes of it."""
        self._measured(seconds, batches_per_s)

    def turn(self, seconds: float, batches_per_s: float) -> Round:
        """One turn of all clients at once."""
        servers = self._running.pids()
        before = cpu_s(servers), cpu_s(self._pids), written_bytes([*servers, *self._pids])
        records, elapsed_s, durations = self._measured(seconds, batches_per_s)
        after = cpu_s(servers), cpu_s(self._pids), written_bytes([*servers, *self._pids])
        if not records:
            raise Unavailable(f"nothing was done within {seconds:g} s: measure longer with --seconds")
        return Round(
            records / elapsed_s,
            records * self._workload.record_bytes / elapsed_s,
            Latency.of(durations) if len(durations) else None,
            (after[0] - before[0]) * 1e6 / records,
            (after[1] - before[1]) * 1e6 / records,
            (after[2] - before[2]) / records,
        )

    def _measured(
        self, seconds: float, batches_per_s: float
    ) -> "tuple[int, float, np.ndarray[tuple[int], np.dtype[np.float64]]]":
        start_s = time.monotonic() + LEAD_S
        turn = Turn(self._workload.plan, start_s, start_s + seconds)
        match self._workload.kind:
            case "append":
                return self._appended(lambda number: turn, seconds)
            case "pace":
                share = batches_per_s / len(self._children)
                return self._appended(lambda number: Pace(turn, share), seconds)
            case "read":
                assert self._filled is not None
                filled = self._filled
                return self._read(lambda number: ReadAll(filled, start_s))
            case "random":
                assert self._filled is not None
                filled = self._filled
                return self._read(lambda number: ReadSome(filled, start_s, turn.stop_s, SEED + number))

    def _appended(
        self, request: Callable[[int], object], seconds: float
    ) -> "tuple[int, float, np.ndarray[tuple[int], np.dtype[np.float64]]]":
        answers: list[Counted] = self._ask(request, seconds + ANSWER_TIMEOUT_S)
        durations = np.concatenate([np.frombuffer(each.durations) for each in answers])
        return len(durations) * self._workload.batch, seconds, durations

    def _read(
        self, request: Callable[[int], object]
    ) -> "tuple[int, float, np.ndarray[tuple[int], np.dtype[np.float64]]]":
        answers: list[Read] = self._ask(request, READ_TIMEOUT_S)
        durations = np.concatenate([np.frombuffer(each.durations) for each in answers])
        elapsed_s = max(each.end_s for each in answers) - min(each.start_s for each in answers)
        return sum(each.records for each in answers), elapsed_s, durations

    def _ask(self, request: Callable[[int], object], timeout_s: float) -> list[Any]:
        for number, child in enumerate(self._children):
            child.ask(request(number))
        return [child.answer(timeout_s) for child in self._children]


@contextmanager
def team(running: Running, workload: Workload) -> Iterator[Team]:
    """The clients of a workload; where it reads, somebody has filled the log before."""
    role: Role = "append" if workload.kind in ("append", "pace") else "read"
    with ExitStack() as stack:

        def start(name: str, role: Role) -> Child:
            return start_child(stack, name, work, running.connect, role, workload.record_bytes, workload.batch)

        filler = start("filler", "append") if role == "read" else None
        if filler is not None:
            filler.answer()
        children = [start(f"client {number}", role) for number in range(1, workload.clients + 1)]
        pids = [pid for child in children for pid in child.answer()]
        ready = Team(running, workload, children, pids)
        if filler is not None:
            ready.fill(filler)
        yield ready
