"""Stores in the simulator: their clients, and runs of a seed in which nobody appends but they.

The servers and handles are the real ones, under the faults that the seed draws. What the simulator's own producers and
readers would record is left out: what a store did is judged by `linearizable`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import pytest
from tests.objects.linearizable import Operation, coded

from ithaca.model.engine import EngineName
from ithaca.model.errors import IthacaError
from ithaca.objects.aio import Store
from ithaca.sim import run as running
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.configuration import configuration_of
from ithaca.sim.engine import Client, Simulation, simulated
from ithaca.sim.process import Process
from ithaca.sim.world import World

KEYS = 3
OPERATIONS = 12
"""Of each client, whatever becomes of them: the judge has to try orders."""
PAUSES_S = (0, 0.01, 0.1, 1.0)


class StoreClient:
    """Does one thing after the other on a replica of its own, and another life of it goes on."""

    def __init__(self, world: World, number: int, history: list[Operation], is_stale: bool) -> None:
        self.name = f"store-{number}"
        self._world = world
        self._number = number
        self._history = history
        self._first_read: dict[int, str | None] | None = {} if is_stale else None
        self._done = 0
        self.is_done = False

    async def main(self, who: Process, random: Random) -> None:
        while self._done < OPERATIONS:
            log = await connected(self._world)
            try:
                async with Store(log, "judged") as store:
                    await self._use(store, random)
            except IthacaError as error:
                self._world.count(f"store met {type(error).__name__}")
                await asyncio.sleep(AGAIN_S)
        self.is_done = True

    async def _use(self, store: Store, random: Random) -> None:
        while self._done < OPERATIONS:
            self._done += 1
            await self._operate(store, random)
            await asyncio.sleep(random.choice(PAUSES_S))

    async def _operate(self, store: Store, random: Random) -> None:
        keys = random.sample(range(KEYS), random.randint(1, KEYS))
        value, choice = f"{self._number}-{self._done}", random.random()
        if choice < 0.35:

            async def got() -> dict[int, str | None]:
                found = await store.get_many([b"%d" % key for key in keys])
                read = {int(key): None if value is None else value.decode() for key, value in found.items()}
                if self._first_read is None:
                    return read
                return {key: self._first_read.setdefault(key, value) for key, value in read.items()}

            await self._record("get", dict.fromkeys(keys), {}, got)
        elif choice < 0.65:
            writes = {key: random.choice([value, None]) for key in keys}
            await self._record("put", {}, writes, lambda: store.put_many(coded(writes)))
        else:
            expected = {keys[0]: random.choice([None, f"{random.randrange(3)}-{random.randrange(OPERATIONS)}"])}
            writes = dict.fromkeys(keys, value)
            await self._record("test", expected, writes, lambda: store.test_and_put(coded(expected), coded(writes)))

    async def _record(
        self,
        name: str,
        keys: dict[int, str | None],
        writes: dict[int, str | None],
        call: Callable[[], Awaitable[Any]],
    ) -> None:
        """It is there before it is called: of a process that is killed nobody hears whether it returned."""
        at, called = len(self._history), self._world.scheduler.now_ns
        self._history.append(Operation(name, called, inf, keys, writes))
        result = await call()
        returned = self._world.scheduler.now_ns
        self._history[at] = Operation(name, called, returned, keys, writes, True if name == "put" else result)


def stores_of(
    seed: int, engine: EngineName, monkeypatch: pytest.MonkeyPatch, *, clients: int = 3, is_stale: bool = False
) -> tuple[list[Operation], dict[str, int]]:
    """Take a seed through its trouble and its healing with clients of a store; what they saw, and what came up.

    `is_stale`: whether, by mistake, a client reads of each key what it read first.
    """
    drawn = configuration_of(seed, engine)
    configuration = replace(
        drawn,
        producers=0,
        readers=0,
        trims=False,
        publishers=0,
        edge_readers=0,
        session_churners=0,
        claimants=0,
        consumers=0,
        group_members=0,
        users=False,
    )
    history: list[Operation] = []
    stores: list[StoreClient] = []

    def made(simulation: Simulation) -> list[Client]:
        world: World = simulation._world  # type: ignore[attr-defined]
        stores.extend(StoreClient(world, number, history, is_stale) for number in range(clients))
        return list(stores)

    def are_done() -> bool:
        return all(each.is_done for each in stores)

    with monkeypatch.context() as patched:
        kind = type(simulated(engine).simulate(World(configuration)))
        patched.setattr(kind, "clients", made)
        patched.setattr(kind, "counting", lambda simulation: [])  # of clients that are not there
        patched.setattr(kind, "clients_end", lambda simulation: iter([("stores are done", are_done)]))
        patched.setattr(running, "check_images", lambda world, random: None)  # looks for records of producers
        with running._limits(configuration.limits), running._no_collector(), World(configuration) as world:
            run = running._Run(world)
            with run.watched():
                run.trouble_and_heal()
            return history, dict(world.counts)
