"""Aggregators in one event loop with orderers, on real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.server.orderer_changes import with_spares
from tests.server.orderers import Orderers, cluster_file, orderers, until

from ithaca.model.view import Address
from ithaca.raft.events import Settings
from ithaca.server.aggregator import AggregatorServer

PATIENT = Settings(election_timeout_ms=2000, heartbeat_ms=50)
"""On a busy machine another leader than the one that was waited for would spoil a test."""


@asynccontextmanager
async def aggregating(
    directory: Path, *levels: int, shards: int = 1, orderer_count: int = 1, spares: int = 0
) -> AsyncIterator[tuple[Orderers, Address, dict[int, AggregatorServer]]]:
    """Orderers, their leader and aggregators of these levels, all attached; `spares` of the orderers wait to be added,
    and are not known to the aggregators."""
    file = cluster_file(orderer_count, shards, aggregators=levels)
    async with orderers(with_spares(file, spares), directory, PATIENT) as group:
        servers = {place.aggregator: AggregatorServer(file, place.aggregator) for place in file.aggregators}
        try:
            for server in servers.values():
                await server.start()
            leader = await group.leader()
            await until(lambda: len(group.up[leader].status()["aggregators"]) == len(levels))
            yield group, group.address(leader), servers
        finally:
            for server in servers.values():
                await server.stop()


def carried(server: AggregatorServer) -> int:
    return int(server.status()["replicas"])
