"""The cluster that is measured: one that is running already, or one started for the measurement and removed."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ithaca.bench.measure import Progress
from ithaca.cluster.status import ClusterStatus, cluster_status, places_of
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.model.addresses import parse_address
from ithaca.model.security.tls import TLS, tls_from_environment


@dataclass(frozen=True, slots=True)
class Measured:
    """A cluster as the measurements see it."""

    bootstrap: str
    shards: tuple[int, ...]
    """Where the engine has none, all records are in shard 0."""
    tls: TLS | None = None
    token: str | None = None
    """The operator's, where the cluster has users and no TLS."""

    def pids(self) -> dict[str, int]:
        """The process of every server that answers, by name."""
        status = status_of(self.bootstrap, self.tls)
        return {server.place.name: int(server.status["pid"]) for server in status.servers if server.status is not None}


def status_of(bootstrap: str, tls: TLS | None) -> ClusterStatus:
    """What every server of the cluster says of itself."""

    async def ask() -> ClusterStatus:
        addresses = [parse_address(each.strip()) for each in bootstrap.split(",")]
        return await cluster_status(await places_of(addresses, tls), tls)

    return asyncio.run(ask())


@contextmanager
def measured_cluster(directory: Path, cluster: str | Shape, progress: Progress) -> Iterator[Measured]:
    """The running cluster at a bootstrap address, left as it is; or a fresh one of this shape, in `directory`."""
    if isinstance(cluster, str):
        tls = tls_from_environment()
        shards = {server.place.shard for server in status_of(cluster, tls).servers}
        yield Measured(cluster, tuple(sorted(shard for shard in shards if shard is not None)) or (0,), tls)
        return
    with temporary_cluster(directory, cluster, progress) as started:
        shards_of = tuple(shard.shard for shard in started.file.shards) or (0,)
        yield Measured(started.bootstrap, shards_of, started.tls, started.token)
