"""What must hold of aggregators once everything is mended: they are used again."""

from collections.abc import Iterator

from ithaca.engines.scalog.server.aggregator.server import AggregatorServer
from ithaca.sim.scalog.hosts import replica_of
from ithaca.sim.world import World


def is_aggregated(world: World) -> bool:
    """Whether every replica that follows the order does so through an aggregator, if there are any."""
    servers = [host.server for host in world.hosts.values() if isinstance(host.server, AggregatorServer)]
    return not world.configuration.aggregators or all(
        any(server.carries(*follower) for server in servers) for follower in _followers(world)
    )


def _followers(world: World) -> Iterator[tuple[int, int]]:
    """Shard and number of each; of a shard that was reclaimed nothing is left to follow."""
    hosts = {host.address: host for host in world.replicas()}
    for shard in world.view.shards:
        for each in shard.replicas:
            host = hosts.get(each.address.host)
            server = None if host is None else replica_of(host)
            if server is not None and server.core.state != "reclaimed":
                yield shard.shard, each.replica
