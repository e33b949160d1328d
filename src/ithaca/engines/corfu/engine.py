"""CORFU, as an engine among others. What a process does not use of it is not loaded."""

from collections.abc import Iterator, Sequence

from ithaca.client.engine_log import EngineLog
from ithaca.client.settings import ClientSettings
from ithaca.engines.corfu.name import NAME
from ithaca.engines.engine import Engine, HeldBatch, StoredRun
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


class Corfu(Engine):
    """Positions are handed out first, and written through chains of units after."""

    name: EngineName = NAME
    features: frozenset[Feature] = FEATURES[NAME]
    roles: frozenset[Role] = frozenset({"orderer", "replica", "spare"})

    def check(self, file: ClusterFile) -> None:
        if file.durability != "fsync":
            raise ConfigError(
                f"durability is {file.durability!r}: in the engine corfu units answer for what is synced, so use fsync"
            )
        if file.retention is not None:
            raise ConfigError("the engine corfu has no retention: leave it out, and trim the log")

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> Server:
        if place.role == "orderer":
            from ithaca.engines.corfu.server.orderer import OrdererServer

            return OrdererServer(file, place.number, directory, options)
        from ithaca.engines.corfu.server.unit import UnitServer

        return UnitServer(file, place, directory, options)

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> EngineLog:
        from ithaca.engines.corfu.client.log import open_log

        return await open_log(bootstrap, settings)

    async def places(self, bootstrap: Sequence[Address], tls: TLS | None = None) -> list[ServerPlace]:
        from ithaca.engines.corfu.client.places import places_of

        return await places_of(bootstrap, tls)

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        from ithaca.engines.corfu.health import health

        return health(servers)

    def stored_runs(self, disk: Disk, directory: str) -> Iterator[StoredRun]:
        from ithaca.engines.corfu.storage.stored import stored_runs

        return stored_runs(disk, directory)

    def held_batches(self, disk: Disk, directory: str) -> Iterator[HeldBatch]:
        from ithaca.engines.corfu.storage.stored import held_batches

        return held_batches(disk, directory)


ENGINE: Engine = Corfu()
