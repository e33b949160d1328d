"""A reader that asks at the edges: just below the first position, up to the very tail, with handles that know little.

A handle that has asked for anything knows the first position and the shards of then. So a new one reads what was
trimmed, and one that was idle while shards came begins at a time. Drawn apart from the rest, so that the seeds without
such a reader stay what they were.
"""

import asyncio
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError
from ithaca.sim.clients.readers import Reader
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_CHANCE = 0.15
_BELOW_MAX = 20
"""How far below the first position it reads."""
_ABOVE = 10
"""How much of the log a range to the tail has."""
_LOOK_S = 0.1


def with_edge_readers(configuration: "Configuration") -> "Configuration":
    """The same, or with one, where the log is trimmed or shards come."""
    has_edges = configuration.trims or configuration.spares
    if not has_edges or Random(f"edge reader of {configuration.seed}").random() >= _CHANCE:
        return configuration
    return replace(configuration, edge_readers=1)


class EdgeReader(Reader):
    """Reads single records, ranges and starts by time."""

    def __init__(self, world: "World", number: int) -> None:
        super().__init__(world, number)
        self.name = f"edge-reader-{number}"

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        await asyncio.gather(self._read_below(random), self._read_to_tail(random), self._begin_late(random))

    async def _read_below(self, random: Random) -> None:
        """What was just trimmed may still be there, and must not be seen."""
        while True:
            await asyncio.sleep(random.uniform(0, 0.3))
            position = self._world.recorder.trimmed - random.randint(1, _BELOW_MAX)
            if position < 1:
                continue
            handle = await self._connected()
            try:
                await self._read(handle, position, 0)
                await handle.close()
            except IthacaError as error:
                self._world.met(error, "read")

    async def _read_to_tail(self, random: Random) -> None:
        recorder, log = self._world.recorder, await self._connected()
        while True:
            await asyncio.sleep(random.uniform(0, 1))
            try:
                first, tail = await recorder.first(log.first()), await recorder.tail(log.tail())
                await self._read_between(random, log, max(first, tail - _ABOVE), tail)
            except IthacaError as error:
                self._world.met(error, "read a range")

    async def _begin_late(self, random: Random) -> None:
        """Begin where a cut begins with a record of a shard that the handle does not know."""
        world = self._world
        while True:
            handle, known = await self._connected(), {shard.shard for shard in world.view.shards}
            at_us: int | None = None
            while at_us is None:
                await asyncio.sleep(_LOOK_S)
                at_us = self._time_in_others(known)
            try:
                await self._begin_at(random, handle, at_us)
                await handle.close()
            except IthacaError as error:
                world.met(error, "subscribe")

    def _time_in_others(self, known: set[int]) -> int | None:
        """The time of a cut whose first record is in none of these shards."""
        recorder, ordered = self._world.recorder, self._world.ordered
        for shard, position in reversed(recorder.placed.values()):
            if shard not in known and ordered.first <= position < ordered.tail:
                at_us = ordered.time_of(position)
                if ordered.first_at(at_us) == position:
                    return at_us
        return None
