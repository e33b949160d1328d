"""The load of an experiment: one process with several clients, each at home in a shard, open loop or as fast as it can.

Open loop: batches are due at fixed times, whatever became of those before; when the log stands still they queue up
here, and are sent as soon as it goes on. `Seats` decides which client is at home where, so that live shards have
equally many as far as that goes.
"""

import asyncio
import math
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection

import numpy as np
import uvloop

import ithaca.aio
from ithaca.bench.bare import values_of
from ithaca.bench.children import ANSWER_TIMEOUT_S, Child, start_child
from ithaca.bench.experiments.schedule import Schedule, evenly
from ithaca.bench.experiments.timeline import Timeline
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.limits import GIB

LEAD_S = 0.1
"""From telling the load to its start."""
OPENING = b"opening"
"""The first record of each client, before any turn."""
LEFT_OVER_S = 30.0
"""How long after a turn the last answers are waited for."""

STAMP = struct.Struct("<d")
Events = Callable[[int], Iterator[tuple[bytes, bytes]]]
"""Keys and values of a source, as many as are asked for."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Who sends what."""

    clients: int
    record_bytes: int
    batch: int
    stamped: bool = False
    """Whether records begin with the time at which they were due (`STAMP`), by the monotonic clock."""
    events: Events | None = None
    """Records of an application, instead of random bytes; a client is one of its sources."""


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """Batches as they are due, from when on by the monotonic clock."""

    start_s: float
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """As fast as it goes, with so many batches of each client in flight."""

    start_s: float
    seconds: float
    window: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The arrays of a `Timeline`, as bytes, and the shard of each client at the end."""

    due_s: bytes
    done_s: bytes
    client: bytes
    shard: bytes
    homes: tuple[int, ...]


class Seats:
    """Gives clients their shards: each keeps its own while that is live, and goes where the fewest are."""

    def __init__(self, clients: int) -> None:
        self._homes: list[int | None] = [None] * clients

    def policy(self, client: int) -> Callable[[bytes | None, Sequence[int]], int]:
        """The shard policy of one client."""
        return lambda key, shards: self.home(client, shards)

    def home(self, client: int, shards: Sequence[int]) -> int:
        """Where the client sends; an empty shard is taken over by one that shares its own.

        >>> seats = Seats(3)
        >>> [seats.home(client, [0, 1]) for client in range(3)], [seats.home(client, [1, 2]) for client in range(3)]
        ([0, 1, 0], [2, 1, 2])
        """
        taken = Counter(home for home in self._homes if home is not None)
        own = self._homes[client]
        fewest = min(shards, key=lambda shard: (taken[shard], shard))
        if own is None or own not in shards or taken[own] > 1 + taken[fewest]:
            self._homes[client] = own = fewest
        return own


def load(parent: Connection, bootstrap: str, plan: LoadPlan) -> None:
    """The load's process: connected and warm before the first turn, until the parent is gone."""
    uvloop.run(_load(parent, bootstrap, plan))


async def _load(parent: Connection, bootstrap: str, plan: LoadPlan) -> None:
    loop = asyncio.get_running_loop()
    filling = values_of(plan.record_bytes, plan.batch)
    batches = [_Batches(plan, client, filling) for client in range(plan.clients)]
    seats = Seats(plan.clients)
    async with AsyncExitStack() as stack:
        logs = [
            await stack.enter_async_context(
                ithaca.aio.connect(bootstrap, shard_policy=seats.policy(client), inflight_bytes_max=GIB)
            )
            for client in range(plan.clients)
        ]
        clients = _Clients(logs, batches)
        await asyncio.gather(*(log.append_many([OPENING]) for log in logs))  # their sessions are open from here on
        parent.send("ready")
        asked = loop.run_in_executor(None, parent.recv)
        while True:
            turn = await asked
            asked = loop.run_in_executor(None, parent.recv)
            await asyncio.gather(*(log.admin.shards() for log in logs))  # all know the newest view
            working = asyncio.create_task(clients.open(turn) if isinstance(turn, OpenTurn) else clients.closed(turn))
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
            if asked.done():  # nothing is asked in the middle of a turn: the parent is gone
                working.cancel()
                continue
            parent.send(working.result())


class _Batches:
    """What a client sends, batch after batch."""

    def __init__(self, plan: LoadPlan, client: int, filling: Sequence[list[bytes]]) -> None:
        self._plan = plan
        self._filling = filling
        self._events = None if plan.events is None else plan.events(client)
        self._sent = 0

    def next(self, due_s: float) -> tuple[list[bytes], list[bytes | None] | None]:
        """Values, and keys if there are any."""
        self._sent += 1
        keys: list[bytes | None] | None = None
        if self._events is None:
            values = self._filling[self._sent % len(self._filling)]
        else:
            pairs = list(islice(self._events, self._plan.batch))
            keys, values = [key for key, _ in pairs], [value for _, value in pairs]
        if self._plan.stamped:
            stamp = STAMP.pack(due_s)
            values = [stamp + (value if keys else value[STAMP.size :]) for value in values]
        return values, keys


class _Clients:
    """The handles, and what they have sent in a turn."""

    def __init__(self, logs: Sequence[ClusterLog], batches: Sequence[_Batches]) -> None:
        self._logs = logs
        self._batches = batches
        self._homes = [-1] * len(logs)
        self._start_s = 0.0
        self._due_s: list[float] = []
        self._done_s: list[float] = []
        self._client: list[int] = []
        self._shard: list[int] = []

    async def open(self, turn: OpenTurn) -> Ended:
        """Batches are sent when they are due."""
        self._begin(turn.start_s)
        schedule = turn.schedule
        sent: set[asyncio.Task[None]] = set()
        for client, due_s in zip(schedule.client.tolist(), schedule.due_s.tolist(), strict=True):
            early_s = turn.start_s + due_s - time.monotonic()
            if early_s > 0:
                await asyncio.sleep(early_s)
            task = asyncio.create_task(self._append(client, due_s))
            sent.add(task)
            task.add_done_callback(sent.discard)
        await asyncio.sleep(max(0.0, turn.start_s + schedule.seconds - time.monotonic()))
        if sent:
            await asyncio.wait(sent, timeout=LEFT_OVER_S)
        return self._ended()

    async def closed(self, turn: ClosedTurn) -> Ended:
        """Batches are due when they are sent."""
        self._begin(turn.start_s)
        await asyncio.sleep(max(0.0, turn.start_s - time.monotonic()))

        async def go_on(client: int) -> None:
            while (now_s := time.monotonic() - turn.start_s) < turn.seconds:
                await self._append(client, now_s)

        await asyncio.gather(*(go_on(client) for client in range(len(self._logs)) for _ in range(turn.window)))
        return self._ended()

    def _begin(self, start_s: float) -> None:
        self._start_s = start_s
        self._due_s, self._done_s, self._client, self._shard = [], [], [], []

    async def _append(self, client: int, due_s: float) -> None:
        number, done_s, shards = len(self._due_s), self._done_s, self._shard
        self._due_s.append(due_s)
        done_s.append(math.nan)
        self._client.append(client)
        shards.append(-1)
        values, keys = self._batches[client].next(self._start_s + due_s)
        try:
            log = self._logs[client]
            if len(values) == 1:  # those that wait together go together
                receipt = await log.append(values[0], key=None if keys is None else keys[0])
            else:
                receipt = await log.append_many(values, keys=keys)
        except IthacaError:
            return  # it stays without an end, and is counted as failed
        done_s[number] = time.monotonic() - self._start_s
        shards[number] = self._homes[client] = receipt.shard

    def _ended(self) -> Ended:
        return Ended(
            np.asarray(self._due_s, np.float64).tobytes(),
            np.asarray(self._done_s, np.float64).tobytes(),
            np.asarray(self._client, np.int32).tobytes(),
            np.asarray(self._shard, np.int32).tobytes(),
            tuple(self._homes),
        )


class Load:
    """The running load."""

    def __init__(self, child: Child, plan: LoadPlan) -> None:
        self._child = child
        self._plan = plan
        self.homes: tuple[int, ...] = ()
        """The shard of each client, when its last batch was acknowledged."""

    def run(
        self, seconds: float, batches_per_s: float, meanwhile: Callable[[float], None] = lambda start_s: None
    ) -> Timeline:
        """One turn of open loop, all clients alike; `meanwhile` as below."""
        return self.follow(evenly(seconds, batches_per_s, self._plan.clients), meanwhile)

    def follow(self, schedule: Schedule, meanwhile: Callable[[float], None] = lambda start_s: None) -> Timeline:
        """One turn of open loop; `meanwhile` is told when it starts by the monotonic clock, and may take its time."""
        start_s = time.monotonic() + LEAD_S
        self._child.ask(OpenTurn(start_s, schedule))
        meanwhile(start_s)
        return self._answer(schedule.seconds)

    def capacity(self, seconds: float, window: int) -> float:
        """Batches a second with so many in flight for each client."""
        self._child.ask(ClosedTurn(time.monotonic() + LEAD_S, seconds, window))
        timeline = self._answer(seconds)
        if not timeline.completed():
            raise Unavailable(f"nothing was acknowledged within {seconds:g} s: measure longer with --seconds")
        return timeline.completed() / timeline.batch_records / seconds

    def _answer(self, seconds: float) -> Timeline:
        ended: Ended = self._child.answer(seconds + LEFT_OVER_S + ANSWER_TIMEOUT_S)
        self.homes = ended.homes
        return Timeline(
            seconds,
            self._plan.batch,
            np.frombuffer(ended.due_s, np.float64),
            np.frombuffer(ended.done_s, np.float64),
            np.frombuffer(ended.client, np.int32),
            np.frombuffer(ended.shard, np.int32),
        )


@contextmanager
def loaded(bootstrap: str, plan: LoadPlan) -> Iterator[Load]:
    """A load that is ready."""
    with ExitStack() as stack:
        child = start_child(stack, "the load", load, bootstrap, plan)
        assert child.answer() == "ready"
        yield Load(child, plan)
