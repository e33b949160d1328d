"""Clients that write at positions of their own choice: at the tail, or somewhat beyond it."""

import asyncio
from random import Random

from ithaca.engines.corfu.client.log import CorfuLog
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS
from ithaca.model.errors import IthacaError
from ithaca.model.records import Receipt
from ithaca.proof import payload
from ithaca.sim.clients.connecting import connected
from ithaca.sim.process import Process
from ithaca.sim.world import World


class Placer:
    """Two of them often choose the same. What it writes counts as appended: it chooses when it has begun."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"placer-{number}"
        self._world = world

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        assert isinstance(log, CorfuLog)
        while self._world.is_loaded:
            await self._write(who, random, log)
            await asyncio.sleep(random.uniform(0, 2 * self._world.configuration.pause_between_appends_s))

    async def _write(self, who: Process, random: Random, log: CorfuLog) -> None:
        recorder = self._world.recorder
        session, count = recorder.new_session(), random.randint(1, self._world.configuration.records_max)
        values = [payload.encode(session, 1 + at, payload.HEAD_BYTES) for at in range(count)]
        beyond = random.choice((0, 0, 0, 1, 3))

        async def write() -> Receipt:
            return await log.write(await log.tail() + beyond * ROW_POSITIONS, values)

        try:
            await recorder.append(who, session, 1, count, None, write)
            self._world.count("position written by choice")
        except IthacaError as error:
            self._world.met(error, "write at a position")
            self._world.count(f"position refused: {type(error).__name__}")
