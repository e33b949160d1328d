"""Whoever changes a simulated cluster: shards and orderers come and go. A real handle, asked until all is done."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import DeadlineExceeded, IthacaError, LastShard
from ithaca.model.interface_aio import ClusterLog
from ithaca.sim.members import OrdererTask
from ithaca.sim.workload import connected

if TYPE_CHECKING:
    from ithaca.sim.world import World

_LOOK_S = 0.2


@dataclass(slots=True)
class Task:
    """One change; without a grace it is made at once."""

    shard: int
    is_new: bool
    grace_cuts: int = 0
    grace_s: float = 0.0
    waits: bool = True


class Administrator:
    """Carries out what faults ask for, one after the other. What it was asked outlives its processes."""

    def __init__(self, world: "World") -> None:
        self.name = "administrator"
        self._world = world
        self._tasks: list[Task | OrdererTask] = []
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

    async def main(self, who: object, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        while True:
            if self._tasks:
                await self._carry_out(log, self._tasks[0])
            else:
                await asyncio.sleep(_LOOK_S)

    async def _carry_out(self, log: ClusterLog, task: Task | OrdererTask) -> None:
        try:
            if isinstance(task, OrdererTask):
                if not await self._world.members.carry_out(log, task):
                    await asyncio.sleep(_LOOK_S)
                    return
            elif task.is_new:
                await self._add(log, task.shard)
            else:
                await log.admin.finalize_shard(
                    task.shard, grace_cuts=task.grace_cuts, grace=task.grace_s, wait=task.waits
                )
        except LastShard as error:
            self._world.met(error)
            assert isinstance(task, Task)
            self.leaving.discard(task.shard)
        except IthacaError as error:
            self._world.met(error)
            assert isinstance(task, Task)
            if isinstance(error, DeadlineExceeded):
                task.grace_cuts, task.grace_s = 0, 0.0  # a leader's clock may be an hour behind: enough is enough
            await asyncio.sleep(_LOOK_S)
            return
        self._world.tell(f"administrator: {task} is done")
        self._tasks.remove(task)

    async def _add(self, log: ClusterLog, shard: int) -> None:
        place = next(each for each in self._world.whole_file.shards if each.shard == shard)
        addresses = [str(replica.address) for replica in place.replicas]
        added = await log.admin.add_shard(addresses, masking=place.masking, shard=shard)
        assert added == shard
