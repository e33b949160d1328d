"""Aggregators in one event loop with orderers, on real sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.server.orderer_changes import with_spares
from tests.server.orderers import Orderers, cluster_file, orderers, until

from ithaca.engines.scalog.server.aggregator.server import AggregatorServer
from ithaca.model.view import Address
from ithaca.raft.events import Settings

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
            await until(lambda: _are_in_place(group.up[leader].status()["aggregators"], levels))
            yield group, group.address(leader), servers
        finally:
            for server in servers.values():
                await server.stop()


def _are_in_place(attached: list[dict[str, Any]], levels: tuple[int, ...]) -> bool:
    """Whether all are there, each below the level above it: one that came first moves, and closes its connections."""
    return len(attached) == len(levels) and all(each["direct"] == (each["level"] == max(levels)) for each in attached)


def carried(server: AggregatorServer) -> int:
    return int(server.status()["replicas"])
