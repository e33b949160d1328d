"""Raft with log sharing, as the simulator needs it: what it draws, what befalls it, what must hold of it."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from ithaca.client.scan import AwaitedScan
from ithaca.engines.raft.client.log import RaftLog
from ithaca.engines.raft.name import NAME
from ithaca.model.engine import EngineName
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.positions import FIRST
from ithaca.model.quorum import majority
from ithaca.proof.dump import dump_replica, held_ids
from ithaca.proof.history import Final, Id
from ithaca.runtime.listener import Listener
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.configuration import FAULTS, MEMBER_FAULTS, Configuration
from ithaca.sim.disk import SimDisk
from ithaca.sim.engine import Condition, Group, SimulatedEngine, Simulation
from ithaca.sim.host import Host
from ithaca.sim.raft.configuration import draw
from ithaca.sim.raft.invariants import Invariants, server_of
from ithaca.sim.raft.paths import PATHS
from ithaca.sim.scanning import recorded_scan
from ithaca.sim.world import World

_OF_SHARDS = ("wipe", "flip", "add-shard", "finalize")
"""What befalls shards and their replicas."""


class SimulatedRaft:
    """See `SimulatedEngine`."""

    name: EngineName = NAME
    faults: tuple[str, ...] = (*(kind for kind in FAULTS if kind not in _OF_SHARDS), *MEMBER_FAULTS)
    paths: Mapping[str, str] = PATHS
    repeatable: tuple[type, ...] = ()
    administered: tuple[str, ...] = ()

    def draw(self, shared: Configuration) -> Configuration:
        return draw(shared)

    def simulate(self, world: World) -> Simulation:
        return RaftSimulation(world)


class RaftSimulation(Simulation):
    """See `Simulation`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._invariants = Invariants(world)

    # What happens

    async def scan(self, random: Random, log: ClusterLog) -> None:
        assert isinstance(log, RaftLog)

        async def begun(start: int, stop: int, chunk_bytes: int) -> AwaitedScan:
            scan = await log.scan(start, stop, chunk_bytes=chunk_bytes, local=random.random() < 0.8)
            self._world.count("scan of files" if scan.is_local else "scan of streams")
            return scan

        await recorded_scan(self._world.recorder, random, log, begun)

    # What it is like

    def raft_of(self, host: Host) -> RaftDriver | None:
        server = server_of(host)
        return None if server is None else server.host.driver

    def listener_of(self, host: Host) -> Listener | None:
        server = server_of(host)
        return None if server is None else server._listener

    def groups(self) -> Sequence[Group]:
        """One: those that vote, as it was agreed last.

        Of 2n voters n hold what is acknowledged while one of them is being removed, since the leader counts a majority
        of the others from then on. Nobody is elected by 2n voters without the vote of one who has it.
        """
        voters = self._invariants.members.voters or tuple(place.server for place in self._world.file.orderers)
        hosts = [host for host in self._world.hosts.values() if host.place and host.place.number in voters]
        return [Group(0, hosts, len(voters) - majority(len(voters)) + 1)]

    def is_complete(self, host: Host) -> bool:
        server = server_of(host)
        return server is not None and server.machine.state.tail > self._world.recorder.last_position

    def knows_trim(self, host: Host, before: int) -> bool:
        server = server_of(host)
        return server is not None and server._read_view is not None and server.read_view.first >= before

    def former(self) -> Sequence[Host]:
        voters = self._world.replicas()
        servers = {host: server_of(host) for host in self._world.hosts.values() if host.is_up and host not in voters}
        return [
            host
            for host, server in servers.items()
            if server is not None and server._read_view is not None
            if server.read_view.limit > FIRST and not server.host.group.is_removed
        ]

    # What must hold

    def check(self, host: Host) -> None:
        self._invariants.check(host)

    def converge(self) -> Iterator[Condition]:
        yield "servers hold everything", lambda: all(map(self.is_complete, self._world.replicas()))

    # What is left

    def dump(self, host: Host) -> Final:
        return dump_replica(host.disk, host.directory, host.name, NAME)

    def held_ids(self, disk: SimDisk, directory: str) -> set[Id]:
        return held_ids(disk, directory, NAME)

    def let_go(self, handle: ClusterLog) -> None:
        assert isinstance(handle, RaftLog)
        for reader in list(handle.readers):
            reader.handle_closed()


SIMULATED: SimulatedEngine = SimulatedRaft()
