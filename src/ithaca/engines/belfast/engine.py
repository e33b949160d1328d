"""Belfast, as an engine among others. What a process does not use of it is not loaded."""

from collections.abc import Iterator, Sequence

from ithaca.client.engine_log import EngineLog
from ithaca.client.settings import ClientSettings
from ithaca.engines.belfast.name import NAME
from ithaca.engines.emulation import Emulation
from ithaca.engines.engine import Engine, HeldBatch, StoredRun, UsualShard
from ithaca.engines.scalog.engine import Scalog
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.model.errors import ConfigError
from ithaca.model.health import Health, ServerStatus
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import Role, ServerPlace
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server
from ithaca.storage.disk import Disk

_SCALOG = Scalog()


class Belfast:
    """Records have their places before they are ordered."""

    name: EngineName = NAME
    features: frozenset[Feature] = FEATURES[NAME]
    roles: frozenset[Role] = frozenset({"orderer", "replica", "spare"})
    usual_shard = UsualShard(replicas=3, masking=True)

    def shard_note(self, replicas: int, *, masking: bool) -> str:
        if masking:
            return f"Shards of {replicas} replicas that mask: whichever is lost, what was delivered keeps its place"
        return (
            f"Shards of {replicas} replicas that mask nothing: while one is gone every cut waits, and after "
            "detection_ms speculation fails; with --replicas 3 --masking the others go on"
        )

    def check(self, file: ClusterFile) -> None:
        _SCALOG.check(file)

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> Server:
        if place.role == "orderer":
            from ithaca.engines.belfast.server.orderer.server import SlotOrdererServer

            return SlotOrdererServer(file, place.number, directory, options)
        if place.role == "replica":
            from ithaca.engines.belfast.server.replica.server import SlotReplicaServer

            assert place.shard is not None
            return SlotReplicaServer(file, place.shard, place.number, directory, options)
        if place.role == "spare":
            from ithaca.engines.belfast.server.replica.spare import SlotSpareServer

            return SlotSpareServer(file, place.address, directory, options)
        raise ConfigError(f"the engine {NAME} has no {place.role}s: remove them from the cluster's file")

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> EngineLog:
        from ithaca.engines.belfast.client.log import open_log

        return await open_log(bootstrap, settings)

    async def places(self, bootstrap: Sequence[Address], tls: TLS | None = None) -> list[ServerPlace]:
        return await _SCALOG.places(bootstrap, tls)

    def stored_runs(self, disk: Disk, directory: str) -> Iterator[StoredRun]:
        return _SCALOG.stored_runs(disk, directory)

    def held_batches(self, disk: Disk, directory: str) -> Iterator[HeldBatch]:
        return _SCALOG.held_batches(disk, directory)

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        return _SCALOG.health(servers)

    def emulation(self) -> Emulation:
        return _SCALOG.emulation()


ENGINE: Engine = Belfast()
