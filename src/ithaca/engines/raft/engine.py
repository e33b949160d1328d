"""Raft with log sharing, as an engine among others. What a process does not use of it is not loaded."""

from collections.abc import Iterator, Sequence

from ithaca.client.asking import ask_status
from ithaca.client.engine_log import EngineLog
from ithaca.client.settings import ClientSettings
from ithaca.engines.engine import Engine, HeldBatch, StoredRun
from ithaca.engines.raft.name import NAME
from ithaca.model.addresses import parse_address
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.model.errors import ConfigError, IthacaError, Unavailable
from ithaca.model.health import Health, ServerStatus
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import Role, ServerPlace
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server
from ithaca.storage.disk import Disk


class RaftEngine(Engine):
    """One Raft group agrees on every range of the log; its members are the orderers of the file."""

    name: EngineName = NAME
    features: frozenset[Feature] = FEATURES[NAME]
    roles: frozenset[Role] = frozenset({"orderer"})

    def check(self, file: ClusterFile) -> None:
        if file.durability != "fsync":
            raise ConfigError(
                f"durability is {file.durability!r}: the engine raft agrees on what is synced, so use fsync"
            )

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> Server:
        from ithaca.engines.raft.server.server import RaftServer

        return RaftServer(file, place.number, directory, options)

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> EngineLog:
        from ithaca.engines.raft.client.log import open_log

        return await open_log(bootstrap, settings)

    async def places(self, bootstrap: Sequence[Address], tls: TLS | None = None) -> list[ServerPlace]:
        failures = []
        for address in bootstrap:
            try:
                members = (await ask_status(address, tls)).get("members", ())
            except IthacaError as error:
                failures.append(f"{address}: {error}")
                continue
            return [ServerPlace("orderer", each["server"], parse_address(each["address"])) for each in members]
        raise Unavailable(f"no server answers: {'; '.join(failures)}")

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        from ithaca.engines.raft.health import health

        return health(servers)

    def stored_runs(self, disk: Disk, directory: str) -> Iterator[StoredRun]:
        from ithaca.engines.raft.storage.stored import stored_runs

        return stored_runs(disk, directory)

    def held_batches(self, disk: Disk, directory: str) -> Iterator[HeldBatch]:
        from ithaca.engines.raft.storage.stored import held_batches

        return held_batches(disk, directory)


ENGINE: Engine = RaftEngine()
