"""What the leader sees to: units of the cluster's file that no projection means are enlisted, and chains made whole.

A unit that was removed, or has lost its disk, begins again under another identity: it comes back as a spare, takes the
place of whoever is missing, and copies what it lacks.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from ithaca.engines.corfu.client.driving import Driver, first_knowledge
from ithaca.engines.corfu.client.enlisting import enlisted
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.sequencing.flows.beginning import begun_without
from ithaca.engines.corfu.sequencing.flows.rebuilding import Copying, rebuilt
from ithaca.engines.corfu.sequencing.limits import CARE_MS
from ithaca.model.errors import IthacaError
from ithaca.model.view import Address

_log = logging.getLogger("ithaca.orderer")


class Caretaker:
    """Works while this server leads."""

    def __init__(self, links: Links, units: Sequence[Address], is_founded: Callable[[], bool]) -> None:
        self._links = links
        self._units = units
        self._is_founded = is_founded
        self._task: asyncio.Task[None] | None = None
        self.copying = Copying()

    def lead(self, is_leader: bool) -> None:
        """This server leads from now on, or does not any more."""
        if self._task is not None:
            self._task.cancel()
            self.copying.unit = 0
        self._task = asyncio.create_task(self._work()) if is_leader else None

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(CARE_MS / 1000)
            if not self._is_founded():
                continue
            try:
                knowledge = await first_knowledge(self._links)
                driver = Driver(self._links, knowledge)
                known = [unit.address for unit in knowledge.projection.units]
                await asyncio.gather(*(self._enlist(driver, each) for each in dict.fromkeys([*self._units, *known])))
                if not knowledge.projection.sequencer:
                    await driver.run(begun_without(knowledge, knowledge.projection))
                while await driver.run(rebuilt(knowledge, self.copying)):
                    _log.info("a chain was made whole, or nearly so, with epoch %d", knowledge.epoch)
            except IthacaError as error:
                _log.info("not everything can be seen to now: %s", error)

    async def _enlist(self, driver: Driver, address: Address) -> None:
        """Have the unit there belong to the cluster, unless it does, or is not reached."""
        before = driver.knowledge.projection
        try:
            unit = await enlisted(self._links, driver, address, may_renew=True)
        except IthacaError as error:
            _log.debug("the unit at %s is not enlisted: %s", address, error)
            return
        if before.member(unit.number) is None:
            _log.info("the unit at %s is enlisted as a spare", address)
