"""Scalog, as the simulator needs it: what it draws, what befalls it, what must hold of it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random

from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.engines.scalog.messages.aggregation import ReportsAre
from ithaca.engines.scalog.messages.reporting import ReportIs
from ithaca.model.engine import EngineName
from ithaca.model.interface.awaited import ClusterLog
from ithaca.proof.dump import dump_replica, held_ids
from ithaca.proof.history import Final, Id
from ithaca.runtime.listener import Listener
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.clients.edge_reader import EdgeReader
from ithaca.sim.clients.name_claimant import Claimant
from ithaca.sim.clients.publishers import Publisher
from ithaca.sim.clients.session_churn import SessionChurner
from ithaca.sim.clients.spark_drivers import Driver
from ithaca.sim.configuration import SHARED_FAULTS, Configuration
from ithaca.sim.disk import SimDisk
from ithaca.sim.engine import Client, Condition, Counting, Group, Inject, SimulatedEngine, Simulation
from ithaca.sim.host import Host
from ithaca.sim.rules.witness import seen
from ithaca.sim.scalog import configuration, hosts, meddling, scanning
from ithaca.sim.scalog.aggregation import is_aggregated
from ithaca.sim.scalog.bad_moments import MOMENT_FAULTS, BadMoments
from ithaca.sim.scalog.connection_flood import ConnectionFlood
from ithaca.sim.scalog.invariants import Invariants
from ithaca.sim.scalog.lane_churn import LANE_FAULTS, LaneFaults
from ithaca.sim.scalog.lost_runs import RUNS_FAULTS, RunsFaults
from ithaca.sim.scalog.one_silent import SILENT_FAULTS, OneSilent, with_one_silent
from ithaca.sim.scalog.order_clock import TimeRules
from ithaca.sim.scalog.part_room import with_part_room
from ithaca.sim.scalog.paths import PATHS
from ithaca.sim.scalog.storage_trouble import (
    ASK_IN_VAIN,
    STORAGE_FAULTS,
    StorageTrouble,
    are_waiting,
    with_slow_positions,
    with_vain_questions,
)
from ithaca.sim.scalog.used_up_descriptors import DESCRIPTOR_FAULTS, DescriptorFaults, with_used_up_descriptors
from ithaca.sim.scalog.witness import ScalogWitness
from ithaca.sim.world import World


class SimulatedScalog:
    """See `SimulatedEngine`."""

    name: EngineName = "scalog"
    faults: tuple[str, ...] = (
        *SHARED_FAULTS,
        *STORAGE_FAULTS,
        *LANE_FAULTS,
        *RUNS_FAULTS,
        *MOMENT_FAULTS,
        *SILENT_FAULTS,
        *DESCRIPTOR_FAULTS,
    )
    paths: Mapping[str, str] = PATHS
    repeatable: tuple[type, ...] = (ReportIs, ReportsAre)
    administered: tuple[str, ...] = (ASK_IN_VAIN,)

    def draw(self, shared: Configuration) -> Configuration:
        drawn = with_slow_positions(with_vain_questions(configuration.with_many_snapshots(configuration.draw(shared))))
        return with_one_silent(with_used_up_descriptors(with_part_room(drawn)))

    def simulate(self, world: World) -> Simulation:
        return ScalogSimulation(world)


class ScalogSimulation(Simulation):
    """See `Simulation`."""

    def __init__(self, world: World) -> None:
        drawn = world.configuration
        self._world = world
        self._publishers = [Publisher(world, number) for number in range(drawn.publishers)]
        self._churners = [SessionChurner(world, number) for number in range(drawn.session_churners)]
        self._drivers = [Driver(world, number) for number in range(drawn.drivers)]
        self._claimants = [Claimant(world, number) for number in range(drawn.claimants)]
        self._edge_readers = [EdgeReader(world, number) for number in range(drawn.edge_readers)]
        self._floods = [ConnectionFlood(world)] if drawn.flood else []
        self._storage = StorageTrouble(world)
        self._lanes = LaneFaults(world)
        self._runs = RunsFaults(world)
        self._moments = BadMoments(world)
        self._silent = OneSilent(world)
        self._descriptors = DescriptorFaults(world)
        self._times = TimeRules(world)
        self._invariants = Invariants(world)
        self._witness = self._make_witness(world)

    def _make_witness(self, world: World) -> ScalogWitness:
        return ScalogWitness(world, self._invariants, self._times)

    # What happens

    def clients(self) -> Sequence[Client]:
        others: list[Client] = [*self._claimants, *self._floods, *self._edge_readers]
        return [*self._publishers, *self._churners, *self._drivers, *others]

    def faults(self) -> Mapping[str, Inject]:
        kinds = self._storage.kinds | self._lanes.kinds | self._runs.kinds | self._moments.kinds | self._silent.kinds
        return kinds | self._descriptors.kinds

    def heal(self) -> None:
        self._storage.heal()
        self._descriptors.heal()

    async def scan(self, random: Random, log: ClusterLog) -> None:
        await scanning.scan(self._world, random, log)

    async def meddle(self, random: Random, log: ClusterLog, name: str) -> None:
        await meddling.meddle(self._world, random, log, name)

    # What it is like

    def raft_of(self, host: Host) -> RaftDriver | None:
        return hosts.raft_of(host)

    def listener_of(self, host: Host) -> Listener | None:
        return hosts.listener_of(host)

    def groups(self) -> Sequence[Group]:
        return [hosts.group_of(self._world, shard) for shard in self._world.view.shards]

    def is_complete(self, host: Host) -> bool:
        return hosts.is_complete(self._world, host)

    def knows_trim(self, host: Host, before: int) -> bool:
        replica = hosts.replica_of(host)
        return replica is not None and replica.core.first >= before

    # What must hold

    def check(self, host: Host) -> None:
        self._invariants.check(host)

    def watched(self) -> AbstractContextManager[None]:
        return seen(self._witness.sights())

    def counting(self) -> Sequence[Counting]:
        return [*self._publishers, *self._churners, *self._drivers]

    def clients_end(self) -> Iterator[Condition]:
        publishing: list[Publisher | Driver] = [*self._publishers, *self._drivers]
        yield "no publication is left over", lambda: all(each.is_settled for each in publishing)
        yield "names that nobody uses expire", self._only_used_names_are_left
        self._world.awaits_idle_names = False
        yield "no name is claimed", lambda: all(each.is_settled for each in self._claimants)
        yield "short-lived handles are gone", lambda: all(each.is_settled for each in self._churners)

    def converge(self) -> Iterator[Condition]:
        world = self._world
        yield "parts expire", lambda: self._times.short_parts == 0
        # Of the view as it is by then: a replica may still be replaced while the others catch up.
        yield "replicas hold everything", lambda: all(map(self.is_complete, world.replicas()))
        yield "replicas that were silent have lanes again", self._silent.have_lanes
        yield "aggregators are used", lambda: is_aggregated(world)
        yield "spares that nobody needs wait again", lambda: are_waiting(world)

    def check_end(self) -> None:
        self._invariants.check_final_ends()
        self._silent.check_end()

    def _only_used_names_are_left(self) -> bool:
        """Whether the sessions that nobody uses any more have expired, where they are to."""
        if not self._world.configuration.session_idle_s:
            return True
        state = hosts.newest_state(self._world)
        assert state is not None
        names = {each.name for each in state.sessions.by_id.values() if not each.is_anonymous}
        return names <= {churner.kept_name for churner in self._churners}

    # What is left

    def dump(self, host: Host) -> Final:
        return dump_replica(host.disk, host.directory, host.name)

    def held_ids(self, disk: SimDisk, directory: str) -> set[Id]:
        return held_ids(disk, directory)

    def let_go(self, handle: ClusterLog) -> None:
        assert isinstance(handle, AsyncClusterLog)
        for reader in list(handle._context.readers):
            reader.handle_closed()


SIMULATED: SimulatedEngine = SimulatedScalog()
