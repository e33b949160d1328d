"""What must hold of aggregators once everything is mended: they are used again."""

from ithaca.server.aggregator import AggregatorServer
from ithaca.server.replica import ReplicaServer
from ithaca.sim.host import Host
from ithaca.sim.world import World


def is_aggregated(world: World) -> bool:
    """Whether every replica that follows the order does so through an aggregator, if there are any."""
    servers = [host.server for host in world.hosts.values() if isinstance(host.server, AggregatorServer)]
    followers = [host for host in world.replicas() if _follows(host)]
    return not world.configuration.aggregators or all(
        any(server.carries(host.place.shard, host.place.number) for server in servers)
        for host in followers
        if host.place is not None and host.place.shard is not None
    )


def _follows(host: Host) -> bool:
    """Of a shard that was reclaimed nothing is left to follow."""
    return isinstance(host.server, ReplicaServer) and host.server.core.state != "reclaimed"
