"""A client that takes one name after the other until the ordering state is full, and then gives some back.

Whoever comes first to a state that is nearly full must be refused before it is too large, and not after. Drawn apart
from the rest, so that the seeds without a claimant stay what they were.
"""

import asyncio
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import IthacaError, NoSuchSession, Overloaded
from ithaca.model.interface.awaited import ClusterLog
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.process import Process

if TYPE_CHECKING:
    from ithaca.sim.configuration import Configuration
    from ithaca.sim.world import World

_CHANCE = 0.5
_TOGETHER = 8
"""Names that it asks for at the same time."""


def with_claimant(configuration: "Configuration") -> "Configuration":
    """The same, or with a claimant where the state has little room."""
    has_little_room = "ORDERING_STATE_BYTES_MAX" in configuration.limits
    if (
        not has_little_room
        or configuration.session_churners
        or Random(f"claimant of {configuration.seed}").random() >= _CHANCE
    ):
        return configuration
    return replace(configuration, claimants=1)


class Claimant:
    """Opens sessions under new names, which it never uses. It has given back all of them when a run is over."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"claimant-{number}"
        self._world = world
        self._number = 0
        self._taken: list[str] = []
        """Names that it has, or may have."""

    @property
    def is_settled(self) -> bool:
        return not self._taken

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        while self._world.is_loaded or self._taken:
            if self._world.is_healing:
                await self._give_back(log, len(self._taken))
            elif any(await asyncio.gather(*(self._is_full(log) for _ in range(_TOGETHER)))):
                self._world.count("state is full of names")
                await asyncio.sleep(random.uniform(0, 1))
                await self._give_back(log, random.randint(1, len(self._taken)))
            await asyncio.sleep(random.uniform(0, AGAIN_S))

    async def _is_full(self, log: ClusterLog) -> bool:
        """Take one more; whether there is no room for it."""
        self._number += 1
        name = f"{self.name}-{self._number}"
        self._taken.append(name)
        try:
            await log.session(name)
        except Overloaded:
            return True
        except IthacaError as error:
            self._world.met(error, "use a name")
        return False

    async def _give_back(self, log: ClusterLog, count: int) -> None:
        for name in self._taken[:count]:
            try:
                await log.admin.expire_session(name)
            except NoSuchSession:
                pass
            except IthacaError as error:
                self._world.met(error, "expire a session")
                return
            self._taken.remove(name)
