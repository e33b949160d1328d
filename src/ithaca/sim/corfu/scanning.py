"""Ranges read as tasks of Spark read them: in chunks, from units' files where they can be reached."""

import asyncio
from collections.abc import Callable
from random import Random

from ithaca.engines.corfu.client.log import CorfuLog
from ithaca.model.errors import IthacaError
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Record
from ithaca.sim.clients.connecting import connected
from ithaca.sim.clients.readers import drawn_filter, text_of
from ithaca.sim.process import Process
from ithaca.sim.scanning import CHUNK_BYTES, limit_looks, records_of
from ithaca.sim.world import World

Judge = Callable[[int], None]
"""Told of the first position of every row that a scan was given; raises if it is not complete."""
_PLANNED_BEFORE_S = (0, 0, 0.02, 0.2)
"""How long after a scan was planned it begins."""


async def scan(world: World, random: Random, log: ClusterLog, judge: Judge, start: int | None = None) -> int:
    """From the first position, as it is now or was before, up to somewhere, or to the tail, where rows are still being
    written. Returns where it began.
    """
    assert isinstance(log, CorfuLog)
    recorder = world.recorder
    start, tail = start or await recorder.first(log.first()), await recorder.tail(log.tail())
    stop = tail if random.random() < 0.5 else random.randint(start, tail)
    where = drawn_filter(random) if random.random() < 0.2 else None
    await asyncio.sleep(random.choice(_PLANNED_BEFORE_S))
    inv = recorder.now_ns()
    limit_looks(world.configuration, start, stop)
    found: list[Record] = []
    is_local, chunk_bytes = random.random() < 0.8, random.choice(CHUNK_BYTES)
    scanned = await log.scan(start, stop, where=where, chunk_bytes=chunk_bytes, local=is_local)
    try:
        world.count("scan of files" if scanned.is_local else "scan of streams")
        while chunk := scanned.read_local() or await scanned.next():
            for stretch in chunk:
                judge(int(stretch.positions[0]))
                found += records_of(stretch)
            await asyncio.sleep(random.choice((0, 0.01)))
        if is_local and not scanned.is_local:
            world.count("scan that went on over the network")
    finally:
        await scanned.close()
    recorder.ranged(inv, start, stop, text_of(where), found)
    return start


class Scanner:
    """A client that does nothing else."""

    def __init__(self, world: World, number: int, judge: Judge) -> None:
        self.name = f"scanner-{number}"
        self._world = world
        self._judge = judge

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        start: int | None = None
        while self._world.is_loaded:
            await asyncio.sleep(random.uniform(0, 2 * self._world.configuration.pause_between_appends_s))
            try:
                start = await scan(self._world, random, log, self._judge, start if random.random() < 0.7 else None)
            except IthacaError as error:
                start = None
                self._world.met(error, "read a range")
