"""A commit beside a lone append, in turns; and many consumers that commit every second, with what servers spend."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack
from multiprocessing.connection import Connection
from typing import NamedTuple

import ithaca
import ithaca.aio
from ithaca.bench.children import Child, start_child
from ithaca.bench.measure import Budget, Sample, repeat
from ithaca.bench.server_processes import cpu_s
from ithaca.model.interface import awaited
from ithaca.model.records import Start

PERIOD_S = 1.0
AHEAD = 64
"""Records that are there for each commit to move by one, before there are more."""


def commit_contenders(log: ithaca.ClusterLog, value: bytes, seconds: float) -> dict[str, Callable[[], Sample]]:
    """Lone appends, and commits of one record each, which was handed out before."""
    consumer = log.consumer("measured", start="latest")
    positions: list[int] = []

    def append(_: int) -> None:
        log.append(value)

    def commit(_: int) -> None:
        consumer.commit(positions.pop())

    def appends() -> Sample:
        return repeat(append, 1, len(value), Budget(seconds))

    def commits() -> Sample:
        """Its records are appended, and handed out, before the clock starts; as many as could be needed."""
        while consumer.poll(timeout=0.05):
            pass
        count = max(AHEAD, int(seconds * 5000))
        log.append_many([b"x"] * count)
        positions[:] = []
        while len(positions) < count:
            positions.extend(record.position + 1 for record in consumer.poll(timeout=5))
        positions.reverse()
        return repeat(commit, 1, len(value), Budget(seconds))

    return {"append": appends, "commit": commits}


class Load(NamedTuple):
    """What came of some seconds."""

    commits: int
    late: int
    """Commits that took longer than their period."""
    cpu: dict[str, float]
    """The part of a core that each server used."""


class Committing:
    """Consumers in processes of their own, each of which commits once in a second, or waits."""

    def __init__(self, children: Sequence[Child]) -> None:
        self._children = children

    def measured(self, pids: dict[str, int], seconds: float, *, commit: bool) -> Load:
        """So many seconds, in which they commit or only wait."""
        for child in self._children:
            child.ask(seconds if commit else -seconds)
        time.sleep(PERIOD_S)  # all of them are at work
        before, begun_s = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
        time.sleep(max(PERIOD_S, seconds - 2 * PERIOD_S))
        took_s = time.monotonic() - begun_s
        cpu = {name: (cpu_s(pid) - before[name]) / took_s for name, pid in pids.items()}
        counts = [child.answer(seconds + 60) for child in self._children]
        return Load(sum(done for done, _ in counts), sum(late for _, late in counts), cpu)


def committing(stack: ExitStack, bootstrap: str, consumers: int, handles: int, processes: int) -> Committing:
    """So many consumers of so many handles in so many processes, until the stack is left."""
    shares = [(consumers * at // processes, consumers * (at + 1) // processes) for at in range(processes)]
    children = [
        start_child(stack, f"consumers {first} to {end}", _serve, bootstrap, first, end, max(1, handles // processes))
        for first, end in shares
    ]
    for child in children:
        child.answer(300)
    return Committing(children)


def _serve(parent: Connection, bootstrap: str, first: int, end: int, handles: int) -> None:
    asyncio.run(_consume(parent, bootstrap, first, end, handles))


async def _consume(parent: Connection, bootstrap: str, first: int, end: int, handles: int) -> None:
    loop = asyncio.get_running_loop()
    start: Start = 1
    async with AsyncExitStack() as stack:
        logs = [await stack.enter_async_context(ithaca.aio.connect(bootstrap, timeout=60)) for _ in range(handles)]
        consumers = [await logs[each % handles].consumer(f"many-{each}", start=start) for each in range(first, end)]
        parent.send(len(consumers))
        while True:
            seconds = await loop.run_in_executor(None, parent.recv)
            if seconds < 0:
                await asyncio.sleep(-seconds)
                parent.send((0, 0))
                continue
            until_s = loop.time() + seconds
            turns = [_commit_often(each, PERIOD_S * at / len(consumers), until_s) for at, each in enumerate(consumers)]
            done = await asyncio.gather(*turns)
            parent.send((sum(count for count, _ in done), sum(late for _, late in done)))


async def _commit_often(consumer: awaited.Consumer, after_s: float, until_s: float) -> tuple[int, int]:
    """Once in each period, at a moment of its own."""
    loop = asyncio.get_running_loop()
    due_s, count, late = loop.time() + after_s, 0, 0
    while due_s < until_s:
        await asyncio.sleep(max(0.0, due_s - loop.time()))
        begun_s = loop.time()
        await consumer.commit()
        late += loop.time() - begun_s > PERIOD_S
        count += 1
        due_s = max(due_s + PERIOD_S, loop.time())
    return count, late
