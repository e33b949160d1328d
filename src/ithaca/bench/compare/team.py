"""The clients of one system in one workload: processes that start their turns together, and what they cost."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ithaca.bench.children import ANSWER_TIMEOUT_S, Child, start_child
from ithaca.bench.cluster.producers import LEAD_S, Counted, Turn
from ithaca.bench.compare.histogram import histogram_of
from ithaca.bench.compare.open_loop import DRAIN_S, Pace
from ithaca.bench.compare.system import Running
from ithaca.bench.compare.work import (
    CLEARED,
    FOLLOWING,
    Appended,
    Clear,
    Fill,
    Filled,
    Follow,
    Read,
    ReadAll,
    ReadSome,
    Role,
    work,
)
from ithaca.bench.compare.workloads import Workload
from ithaca.bench.costs import cpu_s, written_bytes
from ithaca.bench.measure import Latency
from ithaca.bench.place import SEED
from ithaca.model.errors import ProtocolError, Unavailable

READ_TIMEOUT_S = 600.0
Durations = NDArray[np.float64]


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
    histogram: list[tuple[int, int]] = field(default_factory=list)
    """Of the same latencies: see `ithaca.bench.compare.histogram`."""


class Team:
    """Clients that are connected."""

    def __init__(self, running: Running, workload: Workload, children: Sequence[Child], pids: Sequence[int]) -> None:
        self._running, self._workload, self._children = running, workload, children
        self._pids = pids
        self._filler: Child | None = None
        self._filled: Filled | None = None

    def fill(self, child: Child) -> None:
        """Append what is to be read; batches as large as the workload's."""
        workload, self._filler = self._workload, child
        child.ask(Fill(workload.record_bytes, workload.batch, workload.fill_records))
        filled: Filled = child.answer(READ_TIMEOUT_S)
        self._filled = filled

    def warm_up(self, seconds: float, batches_per_s: float) -> None:
        """A turn that does not count, however little comes of it."""
        self._measured(seconds, batches_per_s)

    def turn(self, seconds: float, batches_per_s: float) -> Round:
        """One turn of all clients at once."""
        before = self._costs()
        records, elapsed_s, durations = self._measured(seconds, batches_per_s)
        server_s, client_s, written = (after - at_first for after, at_first in zip(self._costs(), before, strict=True))
        if not records:
            raise Unavailable(f"nothing was done within {seconds:g} s: measure longer with --seconds")
        return Round(
            records / elapsed_s,
            records * self._workload.record_bytes / elapsed_s,
            Latency.of(durations) if len(durations) else None,
            server_s * 1e6 / records,
            client_s * 1e6 / records,
            written / records,
            histogram_of(durations),
        )

    def clear(self) -> None:
        """Have the system give up what was written."""
        appender = self._filler or self._children[0]
        appender.ask(Clear())
        if appender.answer() != CLEARED:
            raise ProtocolError(f"{appender.name} still answered something else")

    def _costs(self) -> tuple[float, float, int]:
        servers = self._running.pids()
        try:
            return cpu_s(servers), cpu_s(self._pids), written_bytes([*servers, *self._pids])
        except (FileNotFoundError, ProcessLookupError):
            raise Unavailable("one of its servers or clients has ended by itself") from None

    def _measured(self, seconds: float, batches_per_s: float) -> tuple[int, float, Durations]:
        start_s = time.monotonic() + LEAD_S
        turn = Turn(self._workload.plan, start_s, start_s + seconds)
        match self._workload.kind:
            case "append":
                return self._appended(turn, seconds)
            case "pace":
                return self._paced(Pace(turn, batches_per_s / len(self._children)), seconds)
            case "follow":
                return self._followed(seconds, batches_per_s)
            case "read":
                assert self._filled is not None
                filled = self._filled
                return self._read(lambda number: ReadAll(filled, start_s))
            case "random":
                assert self._filled is not None
                filled = self._filled
                return self._read(lambda number: ReadSome(filled, start_s, turn.stop_s, SEED + number))

    def _appended(self, turn: Turn, seconds: float) -> tuple[int, float, Durations]:
        answers: list[Appended] = self._ask(lambda number: turn, seconds + ANSWER_TIMEOUT_S)
        durations = np.concatenate([np.frombuffer(each.durations) for each in answers])
        return sum(each.records for each in answers), seconds, durations

    def _paced(self, pace: Pace, seconds: float) -> tuple[int, float, Durations]:
        answers: list[Counted] = self._ask(lambda number: pace, seconds + ANSWER_TIMEOUT_S)
        durations = np.concatenate([np.frombuffer(each.durations) for each in answers])
        return len(durations) * self._workload.batch, seconds, durations

    def _followed(self, seconds: float, batches_per_s: float) -> tuple[int, float, Durations]:
        """The first client appends at its pace, the second one receives it."""
        appender, follower = self._children
        follower.ask(Follow(Pace(Turn(self._workload.plan, 0.0, seconds), batches_per_s).count))
        if follower.answer() != FOLLOWING:
            raise ProtocolError(f"{follower.name} did not follow")
        start_s = time.monotonic() + LEAD_S
        appender.ask(Pace(Turn(self._workload.plan, start_s, start_s + seconds), batches_per_s, stamped=True))
        appender.answer(seconds + ANSWER_TIMEOUT_S)
        received: Read = follower.answer(2 * DRAIN_S)
        return received.records, seconds, np.frombuffer(received.durations)

    def _read(self, request: Callable[[int], object]) -> tuple[int, float, Durations]:
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
    with ExitStack() as stack:

        def start(name: str, role: Role) -> Child:
            return start_child(stack, name, work, running.connect, role, workload.record_bytes, workload.batch)

        filler = start("filler", "append") if workload.is_filled else None
        if filler is not None:
            filler.answer()
        children = [start(f"client {number}", role) for number, role in enumerate(workload.roles, 1)]
        pids = [pid for child in children for pid in child.answer()]
        ready = Team(running, workload, children, pids)
        if filler is not None:
            ready.fill(filler)
        yield ready
