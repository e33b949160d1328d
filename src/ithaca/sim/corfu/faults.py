"""What befalls this engine alone: its sequencer, its chains, and those who change its projection."""

import asyncio
from collections.abc import Mapping
from random import Random

from ithaca.engines.corfu.client.log import CorfuLog
from ithaca.engines.corfu.sequencing.flows.knowledge import fetched
from ithaca.engines.corfu.sequencing.flows.reconfiguring import reconfigured
from ithaca.model.errors import IthacaError
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.engine import Inject
from ithaca.sim.faults.targets import Targets, both_ways
from ithaca.sim.host import Host
from ithaca.sim.process import Process
from ithaca.sim.world import World

LOSE_SEQUENCER = "lose-sequencer"
LOSE_UNIT = "lose-unit"
CUT_CHAIN = "cut-chain"
RECONFIGURE = "reconfigure"
KINDS = (LOSE_SEQUENCER, LOSE_UNIT, CUT_CHAIN, RECONFIGURE)


class CorfuFaults:
    """Draws whom they befall."""

    def __init__(self, world: World, reconfigurers: "list[Reconfigurer]") -> None:
        self._world = world
        self._targets = Targets(world)
        self._random = Random(f"{world.configuration.seed} rows")
        self._reconfigurers = reconfigurers

    def kinds(self) -> Mapping[str, Inject]:
        return {
            LOSE_SEQUENCER: self._lose_sequencer,
            LOSE_UNIT: self._lose_unit,
            CUT_CHAIN: self._cut_chain,
            RECONFIGURE: self._reconfigure,
        }

    def _lose_sequencer(self) -> str | None:
        """The sequencer is killed, or clients do not reach it for longer than they wait, while others do."""
        from ithaca.sim.corfu.invariants import orderer_of

        sequencers = [
            host
            for host in self._world.hosts.values()
            if (server := orderer_of(host)) is not None and server._sequencer.core.epoch
        ]
        if not sequencers:
            return None
        host = self._random.choice(sequencers)
        if self._random.random() < 0.4:
            self._world.kill(host, "it hands out rows")
        else:
            self._apart(host, self._world.clients)
        return host.name

    def _lose_unit(self) -> str | None:
        """A unit is out of reach for longer than it is waited for, for some or for all."""
        units = [host for host in self._world.hosts.values() if host.is_storage and host.is_up]
        if not units:
            return None
        host = self._random.choice(units)
        everybody = [other for other in [*self._world.hosts.values(), *self._world.clients] if other is not host]
        self._apart(host, everybody if self._random.random() < 0.5 else self._world.clients)
        return host.name

    def _cut_chain(self) -> str | None:
        """A producer reaches some units and not others, and perhaps dies: rows stay half-written."""
        units = [host for host in self._world.hosts.values() if host.is_storage]
        clients = [host for host in self._world.clients if host.name.startswith("producer") and host.is_up]
        if not clients:
            return None
        client, unit = self._random.choice(clients), self._random.choice(units)
        heal = self._targets.cut(both_ways(client, [unit]))
        self._targets.later(0.2, 3, heal)
        if self._random.random() < 0.5:
            self._targets.after(self._random.uniform(0.01, 0.3), lambda: self._world.kill(client, "between two units"))
        return f"between {client.name} and {unit.name}"

    def _reconfigure(self) -> str:
        """Two clients end the epoch at the same time, for nothing, to be rid of a unit or of the sequencer, to have
        none, or to have a spare take the place of a unit."""
        for each in self._reconfigurers:
            each.wanted += 1
        return "by two at once"

    def _apart(self, host: Host, others: list[Host]) -> None:
        patience_s = self._world.configuration.limits["PATIENCE_MS"] / 1000
        heal = self._targets.cut(both_ways(host, others))
        self._targets.after(self._random.uniform(0.5, 3) * patience_s + 3, heal)


class Reconfigurer:
    """A client that ends epochs when it is asked to."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"reconfigurer-{number}"
        self._world = world
        self.wanted = 0

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        log = await connected(self._world)
        assert isinstance(log, CorfuLog)
        while True:
            if not self.wanted or self._world.is_healing:
                await asyncio.sleep(0.05)
                continue
            self.wanted -= 1
            try:
                await self._end_epoch(random, log)
            except IthacaError as error:
                self._world.met(error, "connect")
                await asyncio.sleep(AGAIN_S)

    async def _end_epoch(self, random: Random, log: CorfuLog) -> None:
        driver = log._driver
        knowledge = driver.knowledge
        if random.random() < 0.7:
            await driver.run(fetched(knowledge))
        projection = knowledge.projection
        sequencer = random.choice((None, random.choice(knowledge.sequencers), 0))
        doomed = random.choice(projection.ranges[-1].sets)
        without = frozenset({random.choice(doomed)}) if len(doomed) > 1 and random.random() < 0.2 else frozenset()
        used = {unit for chain in projection.chains() for unit in chain}
        spares = [unit.number for unit in projection.units if unit.number not in used]
        moved = ((random.choice(doomed), random.choice(spares)),) if spares and random.random() < 0.5 else ()
        await driver.run(reconfigured(knowledge, projection, without=without, sequencer=sequencer, moved=moved))
        self._world.count("epoch ended by a client")
