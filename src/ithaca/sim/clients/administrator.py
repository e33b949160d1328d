"""Whoever changes a simulated cluster: shards, replicas, orderers. A real handle, asked until all is done."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import AddressInUse, IthacaError, LastShard, NoSuchShard
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.view import Replica
from ithaca.sim.clients.connecting import connected
from ithaca.sim.faults.members import OrdererTask
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.host import Host
    from ithaca.sim.world import World

_LOOK_S = 0.2
_REPLACE_S = 20.0
_MEDDLE_EVERY_S = 0.1


@dataclass(slots=True)
class Task:
    """One change; without a grace it is made at once."""

    shard: int
    is_new: bool
    grace_cuts: int = 0
    grace_s: float = 0.0
    waits: bool = True
    meddles: bool = False
    """Whether to ask during the grace for what must be refused then."""


@dataclass(slots=True)
class Replacement:
    """A replica whose place a spare shall take."""

    shard: int
    replica: int
    spare: "Host"
    patience_s: float | None = None
    """How long it is asked for, if it is not asked for again."""


class Administrator:
    """Carries out what faults ask for, one after the other. What it was asked outlives its processes."""

    def __init__(self, world: "World") -> None:
        self.name = "administrator"
        self._world = world
        self._tasks: list[Task | Replacement | OrdererTask] = []
        self._used: set[str] = set()
        self._meddling = Random(f"{world.configuration.seed} meddling administrator")
        self.registered = {place.shard for place in world.file.shards}
        """Shards that may be there: those of the beginning, and those it was asked to add."""
        self.leaving: set[int] = set()
        """Those that it was asked to finalize."""

    @property
    def is_done(self) -> bool:
        return not self._tasks

    def ask(self, task: Task) -> None:
        self._tasks.append(task)
        (self.registered if task.is_new else self.leaving).add(task.shard)

    def ask_for(self, task: OrdererTask) -> None:
        self._tasks.append(task)

    def replace(self, replacement: Replacement) -> None:
        """Have a spare take the place of a replica."""
        self._tasks.append(replacement)
        self._used.add(replacement.spare.name)

    def has_used(self, spare: str) -> bool:
        """Whether the spare was to become a replica."""
        return spare in self._used

    def is_replacing(self, shard: int) -> bool:
        """Whether a replica of the shard is being replaced, or will be."""
        return any(isinstance(task, Replacement) and task.shard == shard for task in self._tasks)

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        while True:
            if self._tasks:
                await self._carry_out(log, self._tasks[0])
            else:
                await asyncio.sleep(_LOOK_S)

    async def _carry_out(self, log: ClusterLog, task: Task | Replacement | OrdererTask) -> None:
        if isinstance(task, Replacement):
            await self._replace(log, task)
            return
        call = "add a shard" if isinstance(task, Task) and task.is_new else "finalize a shard"
        try:
            if isinstance(task, OrdererTask):
                if not await self._world.members.carry_out(log, task):
                    await asyncio.sleep(_LOOK_S)
                    return
            elif task.is_new:
                await self._add(log, task.shard)
            else:
                finalizing = log.admin.finalize_shard(
                    task.shard, grace_cuts=task.grace_cuts, grace=task.grace_s, wait=task.waits
                )
                await asyncio.gather(finalizing, self._meddle(log, task))
        except LastShard as error:
            self._world.met(error, call)
            assert isinstance(task, Task)
            self.leaving.discard(task.shard)
        except IthacaError as error:
            self._world.met(error, call)
            assert isinstance(task, Task)
            await asyncio.sleep(_LOOK_S)
            return
        self._world.tell(f"administrator: {task} is done")
        self._tasks.remove(task)

    async def _meddle(self, log: ClusterLog, task: Task) -> None:
        looks = int(task.grace_s / _MEDDLE_EVERY_S) if task.meddles else 0
        for _ in range(looks):
            await asyncio.sleep(_MEDDLE_EVERY_S)
            with suppress(IthacaError):
                await self._world.simulation.meddle(self._meddling, log, self.name)

    async def _replace(self, log: ClusterLog, task: Replacement) -> None:
        """One that has left the view otherwise, with its shard or as an answer to its silence, needs nobody."""
        assert task.spare.place is not None
        timeout = _REPLACE_S if task.patience_s is None else task.patience_s
        try:
            await log.admin.replace_replica(task.shard, task.replica, str(task.spare.place.address), timeout=timeout)
        except (NoSuchShard, AddressInUse) as error:
            self._world.met(error, "replace a replica")
        except IthacaError as error:
            self._world.met(error, "replace a replica")
            if task.patience_s is not None and self._is_there(task):
                self._world.tell(f"administrator: {task.spare.name} was asked for in vain: {error}")
                self._tasks.remove(task)
                return
            await asyncio.sleep(_LOOK_S)
            if self._world.is_healing and len(self._replicas(task.shard)) >= self._world.configuration.replicas:
                self._world.tell(f"administrator: {task.shard}/{task.replica} stays: {error}")
                self._tasks.remove(task)
                return
            if self._is_there(task):
                # Another is asked next: this one may have to wait for what only that one mends.
                self._tasks.append(self._tasks.pop(0))
                return
            if len(self._replicas(task.shard)) < self._world.configuration.replicas:
                return
        self._world.tell(f"administrator: {task.shard}/{task.replica} was replaced by {task.spare.name}")
        self._tasks.remove(task)

    def _is_there(self, task: Replacement) -> bool:
        """Whether the replica that was to be replaced was not removed, so that its shard needs nobody."""
        return any(task.replica == each.replica for each in self._replicas(task.shard))

    def _replicas(self, number: int) -> tuple[Replica, ...]:
        return next((each.replicas for each in self._world.view.shards if each.shard == number), ())

    async def _add(self, log: ClusterLog, shard: int) -> None:
        place = next(each for each in self._world.whole_file.shards if each.shard == shard)
        addresses = [str(replica.address) for replica in place.replicas]
        added = await log.admin.add_shard(addresses, masking=place.masking, shard=shard)
        assert added == shard
