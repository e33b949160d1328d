"""CORFU, as the simulator needs it: what it draws, what befalls it, what must hold of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random

from ithaca.engines.corfu.name import NAME
from ithaca.engines.corfu.sequencing.rows import first_position, row_of
from ithaca.model.engine import EngineName
from ithaca.model.interface.awaited import ClusterLog
from ithaca.proof.dump import dump_replica, held_ids
from ithaca.proof.history import Final, Id
from ithaca.runtime.listener import Listener
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.configuration import FAULTS, Configuration
from ithaca.sim.corfu.configuration import draw
from ithaca.sim.corfu.faults import KINDS, RECONFIGURE, CorfuFaults, Reconfigurer
from ithaca.sim.corfu.invariants import Invariants, orderer_of, unit_of
from ithaca.sim.corfu.paths import PATHS
from ithaca.sim.corfu.placer import Placer
from ithaca.sim.corfu.row_times import RowTimes
from ithaca.sim.corfu.rows import AllRows
from ithaca.sim.corfu.scanning import Scanner, scan
from ithaca.sim.corfu.witness import Witness
from ithaca.sim.disk import SimDisk
from ithaca.sim.engine import Client, Condition, Group, Inject, SimulatedEngine, Simulation
from ithaca.sim.host import Host
from ithaca.sim.world import World

_OF_OTHERS = ("flip", "add-shard", "finalize")
"""What befalls shards, and lanes that their peers repair."""


class SimulatedCorfu:
    """See `SimulatedEngine`."""

    name: EngineName = NAME
    faults: tuple[str, ...] = (*(kind for kind in FAULTS if kind not in _OF_OTHERS), *KINDS)
    paths: Mapping[str, str] = PATHS
    repeatable: tuple[type, ...] = ()
    administered: tuple[str, ...] = ()

    def draw(self, shared: Configuration) -> Configuration:
        return draw(shared)

    def simulate(self, world: World) -> Simulation:
        return CorfuSimulation(world)


class CorfuSimulation(Simulation):
    """See `Simulation`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows = AllRows()
        self._times = RowTimes()
        world.ordered = self._times
        self._invariants = Invariants(world, self._rows, self._times)
        self._witness = Witness(world, self._rows, self._times, self._invariants)
        self._reconfigurers = [Reconfigurer(world, number) for number in range(2)]
        self._settled = 0
        """Below this row everything is settled for good."""

    # What happens

    def clients(self) -> Sequence[Client]:
        configuration = self._world.configuration
        reconfigurers = self._reconfigurers if RECONFIGURE in configuration.faults else []
        placers = [Placer(self._world, number) for number in range(2)] if configuration.seed % 3 == 0 else []
        judge = self._invariants.scanned
        scanners = [Scanner(self._world, number, judge) for number in range(4)] if configuration.seed % 2 else []
        return [*reconfigurers, *placers, *scanners]

    def faults(self) -> Mapping[str, Inject]:
        return CorfuFaults(self._world, self._reconfigurers).kinds()

    async def scan(self, random: Random, log: ClusterLog) -> None:
        await scan(self._world, random, log, self._invariants.scanned)

    # What it is like

    def raft_of(self, host: Host) -> RaftDriver | None:
        server = orderer_of(host)
        return None if server is None or server._host is None else server._host.driver

    def listener_of(self, host: Host) -> Listener | None:
        server = orderer_of(host) or unit_of(host)
        return None if server is None else server._listener

    def groups(self) -> Sequence[Group]:
        """The units of each set, as it was decided last: all of them have everything that is complete."""
        projection = self._invariants.projection
        hosts = {host.address: host for host in self._world.hosts.values() if host.is_storage}
        if projection is None:
            return [Group(shard.shard, self._world.hosts_of(shard.shard), None) for shard in self._world.file.shards]
        groups = []
        for number in range(len(projection.ranges[-1].sets)):
            chains = [each.sets[number] for each in projection.ranges if each.sets]
            units = dict.fromkeys(unit for chain in chains for unit in chain)
            members = [member for unit in units if (member := projection.member(unit)) is not None]
            there = [hosts[member.address.host] for member in members]
            groups.append(Group(number, there, min(map(len, chains))))
        return groups

    def is_complete(self, host: Host) -> bool:
        return self._invariants.is_member(host)

    def knows_trim(self, host: Host, before: int) -> bool:
        server = unit_of(host)
        return server is not None and server._unit is not None and server._unit.state.trims.first >= before

    def trim_point(self, before: int) -> int:
        """Nearly all positions of a row lie behind its records: of two points one is where one begins, or by that."""
        row = row_of(before)
        return before if row % 2 else first_position(row) + (row // 2) % 2

    # What must hold

    def check(self, host: Host) -> None:
        self._invariants.check(host)

    def watched(self) -> AbstractContextManager[None]:
        return self._witness.watched()

    def converge(self) -> Iterator[Condition]:
        yield "all rows are settled", self._is_settled

    def _is_settled(self) -> bool:
        """Whoever follows the log fills its holes."""
        projection = self._invariants.projection
        assert projection is not None
        stop = self._times.stop
        while self._settled < stop and self._rows.is_settled(projection, self._settled):
            self._settled += 1
        return self._settled >= stop

    # What is left

    def copies_end(self) -> int:
        """A unit that took the place of another has what came since, and what it was given to copy."""
        return min(group.copies or 0 for group in self.groups())

    def dump(self, host: Host) -> Final:
        return dump_replica(host.disk, host.directory, host.name, NAME)

    def held_ids(self, disk: SimDisk, directory: str) -> set[Id]:
        return held_ids(disk, directory, NAME)


SIMULATED: SimulatedEngine = SimulatedCorfu()
