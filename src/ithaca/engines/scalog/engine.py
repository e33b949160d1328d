"""Scalog, as an engine among others."""

from collections.abc import Sequence

from ithaca.engines.scalog.health import health
from ithaca.engines.scalog.name import NAME
from ithaca.engines.scalog.server.aggregator.server import AggregatorServer
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.server.replica.spare import SpareServer
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import EngineName
from ithaca.model.health import Health, ServerStatus
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.raft.events import Settings
from ithaca.server.engine import Engine
from ithaca.server.process import Server
from ithaca.storage.disk import Disk


class Scalog:
    """Records are durable first, and ordered after."""

    name: EngineName = NAME

    def make_server(
        self,
        file: ClusterFile,
        place: ServerPlace,
        directory: str,
        *,
        disk: Disk | None = None,
        settings: Settings | None = None,
        listen_at: Address | None = None,
    ) -> Server:
        match place.role:
            case "orderer":
                return OrdererServer(file, place.number, directory, disk=disk, settings=settings, listen_at=listen_at)
            case "replica":
                assert place.shard is not None
                return ReplicaServer(file, place.shard, place.number, directory, disk=disk, listen_at=listen_at)
            case "spare":
                return SpareServer(file, place.address, directory, disk=disk, listen_at=listen_at)
            case "aggregator":
                return AggregatorServer(file, place.number, listen_at=listen_at)

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        return health(servers)


ENGINE: Engine = Scalog()
