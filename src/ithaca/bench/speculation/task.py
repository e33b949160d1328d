"""The process downstream: follows the log, computes on what comes, and notes when results may be shown.

One thread listens, and notes when what came; another one computes, on all that has come meanwhile at once. Without an
application computing is waiting: a task would have a machine of its own, and must not take this one's cores.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import msgspec
import numpy as np
import uvloop

import ithaca.aio
from ithaca.bench.children import ANSWER_TIMEOUT_S, Child, start_child
from ithaca.bench.experiments.load import STAMP
from ithaca.bench.speculation.followed import Followed, RolledBack
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Record
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent

LISTEN_S = 0.05
"""How long to listen before looking whether the turn is over."""
LEFT_OVER_S = 30.0
"""How long after a turn its last records are waited for."""


class Application(Protocol):
    """What is computed: a task of `ithaca.speculation`."""

    def apply(self, record: Record) -> Any: ...

    def undo(self, record: Record, state: Any) -> object: ...

    def publish(self, record: Record, state: Any) -> object: ...

    def close(self) -> None: ...


OpenApplication = Callable[[Path], Application]


@dataclass(frozen=True, slots=True)
class Begin:
    """Follow the log from its end on, and compute so long on whatever has come together; or as the application does."""

    speculates: bool
    compute_s: float
    application: OpenApplication | None
    database: Path
    """Where the application may have its database: nothing is there yet."""


@dataclass(frozen=True, slots=True)
class End:
    """The turn is over once so many records are final."""

    records: int


def follow(parent: Connection, bootstrap: str) -> None:
    """The task's process, until the parent is gone."""
    uvloop.run(_follow(parent, bootstrap))


async def _follow(parent: Connection, bootstrap: str) -> None:
    loop = asyncio.get_running_loop()
    async with ithaca.aio.connect(bootstrap) as log:
        while True:
            begin: Begin = await loop.run_in_executor(None, parent.recv)
            computing = _Computing(begin)
            computing.start()
            try:
                await _listen(log, parent, begin, computing)
                parent.send(computing.followed())
            finally:
                computing.end()


async def _listen(log: ClusterLog, parent: Connection, begin: Begin, computing: "_Computing") -> None:
    """Until the turn is over, and its records are final."""
    loop = asyncio.get_running_loop()
    feed: _Speculating | _Subscribed = _Speculating(log) if begin.speculates else _Subscribed(log)
    await feed.open()
    try:
        parent.send("ready")
        asked = loop.run_in_executor(None, parent.recv)
        deadline_s = float("inf")
        while not (asked.done() and computing.final >= asked.result().records) and time.monotonic() < deadline_s:
            events = await feed.take()
            computing.told.put((time.monotonic(), events))
            if asked.done() and deadline_s == float("inf"):
                deadline_s = time.monotonic() + LEFT_OVER_S
    finally:
        await feed.close()


class _Speculating:
    """Records before their places are final."""

    def __init__(self, log: ClusterLog) -> None:
        self._speculation = log.speculate("latest")

    async def open(self) -> None:
        await self._speculation.__aenter__()

    async def take(self) -> list[SpeculativeEvent]:
        return await self._speculation.take(LISTEN_S)

    async def close(self) -> None:
        await self._speculation.close()


class _Subscribed:
    """Records whose places are final: each is confirmed as it is delivered."""

    def __init__(self, log: ClusterLog) -> None:
        self._records = log.subscribe("latest")

    async def open(self) -> None:
        await self._records.__aenter__()

    async def take(self) -> list[SpeculativeEvent]:
        batches = await self._records.take_batches(LISTEN_S)
        events: list[SpeculativeEvent] = [Delivered(record, 0) for batch in batches for record in batch.records()]
        if events:
            events.append(Confirmed(self._records.position - 1))
        return events

    async def close(self) -> None:
        await self._records.close()


@dataclass(slots=True)
class _Row:
    """A record on its way."""

    record: Record
    state: Any
    due_s: float
    delivered_s: float
    picked_s: float
    computed_s: float
    final_s: float = 0.0


class _Computing(threading.Thread):
    """Computes on what the listener has been told."""

    def __init__(self, begin: Begin) -> None:
        super().__init__(name="computing", daemon=True)
        self.told: SimpleQueue[tuple[float, list[SpeculativeEvent]] | None] = SimpleQueue()
        self.final = 0
        """Records that are computed and confirmed."""
        self._compute_s = begin.compute_s
        self._begin = begin
        self._application: Application | None = None
        self._rows: list[_Row] = []
        self._rolled_back: list[RolledBack] = []

    def followed(self) -> Followed:
        """What is final."""
        rows = self._rows[: self.final]
        times = [(row.due_s, row.delivered_s, row.picked_s, row.computed_s, row.final_s) for row in rows]
        due_s, delivered_s, picked_s, computed_s, final_s = np.array(times, np.float64).reshape(-1, 5).T
        return Followed(due_s, delivered_s, picked_s, computed_s, final_s, tuple(self._rolled_back))

    def end(self) -> None:
        self.told.put(None)
        self.join()

    def run(self) -> None:
        with ExitStack() as stack:
            if self._begin.application is not None:
                self._application = self._begin.application(self._begin.database)
                stack.callback(self._application.close)
            while together := self._wait():
                self._take(together)

    def _wait(self) -> list[tuple[float, list[SpeculativeEvent]]]:
        """All that has come meanwhile; nothing when it is over."""
        together: list[tuple[float, list[SpeculativeEvent]]] = []
        while not together or not self.told.empty():
            told = self.told.get()
            if told is None:
                return []
            together.append(told)
        return together

    def _take(self, together: list[tuple[float, list[SpeculativeEvent]]]) -> None:
        fresh: list[tuple[float, Record]] = []
        confirmed: list[tuple[float, int]] = []
        for at_s, events in together:
            for event in events:
                match event:
                    case Delivered(record, _):
                        fresh.append((at_s, record))
                    case Confirmed(up_to):
                        confirmed.append((at_s, up_to))
                    case Failed(after):
                        fresh = [each for each in fresh if each[1].position <= after]
                        self._undo(after, at_s)
        if fresh:
            self._compute(fresh)
        for at_s, up_to in confirmed:
            self._confirm(at_s, up_to)

    def _compute(self, fresh: list[tuple[float, Record]]) -> None:
        picked_s = time.monotonic()
        states: list[Any] = [None] * len(fresh)
        if self._application is None:
            time.sleep(self._compute_s)
        else:
            states = [self._application.apply(_unstamped(record)) for _, record in fresh]
        computed_s = time.monotonic()
        for (at_s, record), state in zip(fresh, states, strict=True):
            (due_s,) = STAMP.unpack_from(record.value)
            self._rows.append(_Row(record, state, due_s, at_s, picked_s, computed_s))

    def _confirm(self, at_s: float, up_to: int) -> None:
        while self.final < len(self._rows) and self._rows[self.final].record.position <= up_to:
            row = self._rows[self.final]
            row.final_s = max(row.computed_s, at_s)
            if self._application is not None:
                self._application.publish(_unstamped(row.record), row.state)
            row.state = None
            self.final += 1

    def _undo(self, after: int, at_s: float) -> None:
        began_s, count = time.monotonic(), 0
        while len(self._rows) > self.final and self._rows[-1].record.position > after:
            row = self._rows.pop()
            if self._application is not None:
                self._application.undo(_unstamped(row.record), row.state)
            count += 1
        self._rolled_back.append(RolledBack(at_s, after, count, time.monotonic() - began_s))


def _unstamped(record: Record) -> Record:
    return msgspec.structs.replace(record, value=record.value[STAMP.size :])


class Task:
    """The running task, from the outside."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def begin(self, begin: Begin) -> None:
        """Follow from here on."""
        self._child.ask(begin)
        assert self._child.answer() == "ready"

    def end(self, records: int) -> Followed:
        """What it has seen, once so many records are final."""
        self._child.ask(End(records))
        followed: Followed = self._child.answer(LEFT_OVER_S + ANSWER_TIMEOUT_S)
        return followed


def start_task(stack: ExitStack, bootstrap: str) -> Task:
    """A task that does nothing yet, until the stack is left."""
    return Task(start_child(stack, "the task", follow, bootstrap))
