"""Scalog, as an engine among others. What a process does not use of it is not loaded."""

from collections.abc import Iterator, Sequence
from typing import get_args

from ithaca.client.engine_log import EngineLog
from ithaca.client.settings import ClientSettings
from ithaca.engines.emulation import Emulation
from ithaca.engines.engine import Engine, HeldBatch, StoredRun, UsualShard
from ithaca.engines.scalog.name import NAME
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.model.health import Health, ServerStatus
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import Role, ServerPlace
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server
from ithaca.storage.disk import Disk


class Scalog:
    """Records are durable first, and ordered after."""

    name: EngineName = NAME
    features: frozenset[Feature] = FEATURES[NAME]
    roles: frozenset[Role] = frozenset(get_args(Role))
    usual_shard = UsualShard()

    def shard_note(self, replicas: int, *, masking: bool) -> str:
        return ""

    def check(self, file: ClusterFile) -> None:
        return

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> Server:
        match place.role:
            case "orderer":
                from ithaca.engines.scalog.server.orderer.server import OrdererServer

                return OrdererServer(file, place.number, directory, options)
            case "replica":
                from ithaca.engines.scalog.server.replica.server import ReplicaServer

                assert place.shard is not None
                return ReplicaServer(file, place.shard, place.number, directory, options)
            case "spare":
                from ithaca.engines.scalog.server.replica.spare import SpareServer

                return SpareServer(file, place.address, directory, options)
            case "aggregator":
                from ithaca.engines.scalog.server.aggregator.server import AggregatorServer

                return AggregatorServer(file, place.number, options)

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> EngineLog:
        from ithaca.engines.scalog.client.log import open_log

        return await open_log(bootstrap, settings)

    async def places(self, bootstrap: Sequence[Address], tls: TLS | None = None) -> list[ServerPlace]:
        from ithaca.engines.scalog.client.admin.places import places_of

        return await places_of(bootstrap, tls)

    def stored_runs(self, disk: Disk, directory: str) -> Iterator[StoredRun]:
        from ithaca.engines.scalog.storage.stored import stored_runs

        return stored_runs(disk, directory)

    def held_batches(self, disk: Disk, directory: str) -> Iterator[HeldBatch]:
        from ithaca.engines.scalog.storage.stored import held_batches

        return held_batches(disk, directory)

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        from ithaca.engines.scalog.health import health

        return health(servers)

    def emulation(self) -> Emulation:
        from ithaca.engines.scalog.emulation import ScalogEmulation

        return ScalogEmulation()


ENGINE: Engine = Scalog()
