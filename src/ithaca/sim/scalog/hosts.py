"""What runs on a host of a simulated cluster, by its role."""

from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.server.replica.spare import SpareServer
from ithaca.model.view import Shard
from ithaca.runtime.listener import Listener
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.sim.engine import Group
from ithaca.sim.host import Host
from ithaca.sim.world import World


def replica_of(host: Host) -> ReplicaServer | None:
    """The storage server that runs here; None before a spare has become one, and of anything else."""
    server = host.server.replica if isinstance(host.server, SpareServer) else host.server
    return server if isinstance(server, ReplicaServer) and hasattr(server, "core") else None


def raft_of(host: Host) -> RaftDriver | None:
    """The Raft of an orderer that runs."""
    return host.server._driver if host.is_up and isinstance(host.server, OrdererServer) else None


def listener_of(host: Host) -> Listener | None:
    """Where the server takes connections; a spare that has become a replica does so as that."""
    listener = getattr(replica_of(host) or host.server, "_listener", None)
    return listener if isinstance(listener, Listener) else None


def newest_state(world: World) -> OrderingState | None:
    """The newest that an orderer has applied, of those that run."""
    servers = [host.server for host in world.hosts.values() if host.is_up and isinstance(host.server, OrdererServer)]
    return max((server._machine.state for server in servers), key=lambda state: state.index, default=None)


def group_of(world: World, shard: Shard) -> Group:
    """The replicas of a shard; one that is short of some waits for one that has everything."""
    hosts = world.hosts_of(shard.shard)
    is_complete = shard.is_ordering or shard.phase == "finalized"
    return Group(shard.shard, hosts, shard.f + 1 - max(0, shard.size - len(hosts)) if is_complete else None)


def is_complete(world: World, host: Host) -> bool:
    """Whether a replica has everything of its shard that is ordered: also what was published together with the commit
    of a consumer, of which nobody was told the position."""
    server, state = replica_of(host), newest_state(world)
    if not host.is_up or server is None:
        return False
    last = max(server.core.tail, world.recorder.last_position + 1, 0 if state is None else state.tail)
    if server.core.state == "reclaimed":
        return True
    return server.core.state in ("serving", "finalized") and server.core.readable >= last
