"""Runs a cluster of one tree, and loads it. A program of its own, `agent.py DIRECTORY SETTINGS`: both trees run it.

It imports what old commits have as well: how a cluster is started, and the public interface. A line of JSON on standard
input is a turn; a line on standard output answers it. It ends, with its cluster, when its input does.
"""

import json
import os
import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import ithaca
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster

POOL_BYTES = 16 << 20
"""Values are slices of so much, so that consecutive ones differ."""
WARM_BYTES = 1 << 20
POINT_BATCHES = 100
"""Which single reads choose from."""
TRIM_S = 0.05


class Trimmer(threading.Thread):
    """Gives up what is old while others append, so that segments are written over and disks do not fill."""

    def __init__(self, bootstrap: str, kept_bytes: int) -> None:
        super().__init__(daemon=True)
        self._address, self._kept_bytes = bootstrap, kept_bytes
        self._ended = threading.Event()
        self.record_bytes = 0
        """Of those that are appended now; nothing is trimmed while it is 0."""

    def run(self) -> None:
        trimmed = 1
        with ithaca.connect(self._address) as log:
            while not self._ended.wait(TRIM_S):
                if not self.record_bytes:
                    continue
                kept = max(1, self._kept_bytes // self.record_bytes)
                before = log.tail() - kept
                if before - trimmed > kept // 4:
                    log.trim(before)
                    trimmed = before

    def end(self) -> None:
        self._ended.set()
        self.join()


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used so far.

    By the clock that Linux keeps of each process, in nanoseconds: /proc counts hundredths of a second.
    """
    return time.clock_gettime(~pid << 3 | 2)


def processes(cluster: TemporaryCluster) -> dict[str, int]:
    """The client, which is this process, and every server."""
    servers = {child.name: child.pid for child in cluster.state().children if child.pid is not None}
    return {"client": os.getpid(), **servers}


class Agent:
    """Appends and reads as it is told, and counts."""

    def __init__(self, cluster: TemporaryCluster, log: Any, trimmer: Trimmer, range_bytes: int) -> None:
        self._log = log
        self._range_bytes = range_bytes
        self._trimmer = trimmer
        self._pids = processes(cluster)
        self._pool = os.urandom(POOL_BYTES)

    def fill(self, byte_count: int) -> None:
        """Whole segments, until those that were trimmed are written over."""
        values = self._values(4096, 256)
        self._trimmer.record_bytes = 4096
        self._append(values, 4, lambda done, now: done * WARM_BYTES >= byte_count, self._log.submit_many)
        self._trimmer.record_bytes = 0

    def turn(self, record_bytes: int, batch: int, window: int, seconds: float, kind: str) -> dict[str, Any]:
        if kind == "append":
            work = self._appending(record_bytes, batch, window)
        else:
            work = self._reading(batch) if kind == "range" else self._looking_up(record_bytes, batch)
        work(min(0.2, seconds))  # warm, not counted
        before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}
        durations, elapsed = work(seconds)
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in self._pids.items()}
        self._trimmer.record_bytes = 0
        durations.sort()
        return {
            "operations": len(durations),
            "seconds": elapsed,
            "p50_ms": durations[len(durations) // 2] * 1e3,
            "p99_ms": durations[len(durations) * 99 // 100] * 1e3,
            "cpu_s": cpu,
        }

    def _appending(self, record_bytes: int, batch: int, window: int) -> Callable[[float], tuple[list[float], float]]:
        values = self._values(record_bytes, batch)
        self._trimmer.record_bytes = record_bytes
        if batch == 1:
            values = [each[0] for each in values]
            call = self._log.append if window == 1 else self._log.submit
        else:
            call = self._log.append_many if window == 1 else self._log.submit_many

        def work(seconds: float) -> tuple[list[float], float]:
            until = time.perf_counter() + seconds
            return self._append(values, window, lambda done, now: now >= until, call)

        return work

    def _append(
        self, values: list[Any], window: int, is_over: Callable[[int, float], bool], call: Callable[[Any], Any]
    ) -> tuple[list[float], float]:
        """Everything that was begun is waited for, and counts."""
        durations: list[float] = []
        waiting: deque[tuple[float, Any]] = deque()
        clock, count, begun = time.perf_counter, len(values), 0
        started = now = clock()
        while True:
            if len(waiting) < window and not is_over(begun, now):
                now = clock()
                waiting.append((now, call(values[begun % count])))
                begun += 1
                if window > 1:
                    continue
            if not waiting:
                return durations, now - started
            began, pending = waiting.popleft()
            if window > 1:
                pending.result()
            now = clock()
            durations.append(now - began)

    def _reading(self, batch: int) -> Callable[[float], tuple[list[float], float]]:
        """A range as records, again and again."""
        log, total = self._log, self._range_bytes
        start = log.tail()
        self._append(self._values(4096, 256), 4, lambda done, now: done * WARM_BYTES >= total, log.submit_many)
        stop = log.tail()

        def work(seconds: float) -> tuple[list[float], float]:
            durations: list[float] = []
            clock = time.perf_counter
            started = now = clock()
            while now < started + seconds:
                with log.read_range(start, stop) as records:
                    while last := deque(islice(records, batch), maxlen=1):
                        then, now = now, clock()
                        durations.append(now - then)
                        if last[0].position == stop - 1:
                            break
            return durations, now - started

        return work

    def _looking_up(self, record_bytes: int, batch: int) -> Callable[[float], tuple[list[float], float]]:
        """Single records at random positions, one after the other; they were appended in batches of so many."""
        log, values = self._log, self._values(record_bytes, batch)
        starts = [log.append_many(values[each % len(values)]).position for each in range(POINT_BATCHES)]
        chosen = random.Random(POINT_BATCHES)

        def work(seconds: float) -> tuple[list[float], float]:
            durations: list[float] = []
            clock = time.perf_counter
            started = now = clock()
            while now < started + seconds:
                position = chosen.choice(starts) + chosen.randrange(batch)
                now = clock()
                log.read(position)
                durations.append(clock() - now)
            return durations, clock() - started

        return work

    def _values(self, record_bytes: int, batch: int) -> list[Any]:
        size = record_bytes * batch
        return [
            [self._pool[offset : offset + record_bytes] for offset in range(begin, begin + size, record_bytes)]
            for begin in range(0, POOL_BYTES - size + 1, size)
        ]


def main(directory: Path, settings: dict[str, Any]) -> None:
    shape = Shape(**settings["shape"])
    with (
        temporary_cluster(directory, shape, lambda text: None) as cluster,
        ithaca.connect(cluster.bootstrap) as log,
    ):
        trimmer = Trimmer(cluster.bootstrap, settings["kept_bytes"])
        trimmer.start()
        try:
            agent = Agent(cluster, log, trimmer, settings["range_bytes"])
            agent.fill(settings["fill_bytes"])
            answer({"tree": str(Path(ithaca.__file__).parents[2])})
            for line in sys.stdin:
                answer(agent.turn(**json.loads(line)))
        finally:
            trimmer.end()


def answer(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
