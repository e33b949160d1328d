"""What every engine offers: servers to whoever runs them, a log to whoever connects, and records to offline tools."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ithaca.client.engine_log import EngineLog
from ithaca.client.settings import ClientSettings
from ithaca.engines.emulation import Emulation
from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import EngineName, Feature
from ithaca.model.errors import Unsupported
from ithaca.model.health import Health, ServerStatus, plain_health
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import Role, ServerPlace
from ithaca.model.view import Address
from ithaca.server.options import ServerOptions
from ithaca.server.process import Server
from ithaca.storage.disk import Disk
from ithaca.wire.batch import Batch


class HeldBatch(NamedTuple):
    """A batch on a server's disk, in the file or directory at this path."""

    path: str
    batch: Batch


class StoredRun(NamedTuple):
    """The rows `[low, high)` of such a batch, the first of which is at this position."""

    path: str
    batch: Batch
    low: int
    high: int
    position: int


class UsualShard(NamedTuple):
    """A shard of a cluster whose maker has not said how large it is to be."""

    replicas: int = 2
    masking: bool = False


class Engine(Protocol):
    """One engine; `engines.registry` finds it by its name."""

    @property
    def name(self) -> EngineName: ...

    @property
    def features(self) -> frozenset[Feature]:
        """What its logs can do, of what not every engine's can."""

    @property
    def roles(self) -> frozenset[Role]:
        """The servers that its clusters have; others that a file names are not run."""

    @property
    def usual_shard(self) -> UsualShard:
        """The shards of its clusters, unless somebody says otherwise."""
        return UsualShard()

    def shard_note(self, replicas: int, *, masking: bool) -> str:
        """What to know of shards of this size; empty if there is nothing."""
        return ""

    def check(self, file: ClusterFile) -> None:
        """Raise `ConfigError` for a file that its servers would not start with, as far as the file alone tells."""
        return

    def make_server(self, file: ClusterFile, place: ServerPlace, directory: str, options: ServerOptions) -> Server:
        """The server at this place of the cluster, not started; the file was checked."""

    async def connect(self, bootstrap: tuple[Address, ...], settings: ClientSettings) -> EngineLog:
        """A handle on the cluster that has these servers; `Unavailable` when none of them answers in time."""

    async def places(self, bootstrap: Sequence[Address], tls: TLS | None = None) -> list[ServerPlace]:
        """Every server of the cluster that the first of these which answers belongs to; `Unavailable` if none does.

        Unless the engine says otherwise, these are all that there are.
        """
        return [ServerPlace("orderer", number, address) for number, address in enumerate(bootstrap, 1)]

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        """The verdict on a cluster, by what all its servers say of themselves.

        Unless the engine says otherwise, all is well when every server serves.
        """
        return plain_health(servers)

    def stored_runs(self, disk: Disk, directory: str) -> Iterator[StoredRun]:
        """The records with their positions in the directory of a stopped storage server; nothing there is changed.

        Left out is what was trimmed, and what has no position there. `Corrupt` for damage, `NoSuchLog` where there was
        no such server.
        """
        raise Unsupported(f"the engine {self.name} keeps no records in directories that can be read offline")

    def held_batches(self, disk: Disk, directory: str) -> Iterator[HeldBatch]:
        """All batches there, with positions or (as yet) without."""
        raise Unsupported(f"the engine {self.name} keeps no records in directories that can be read offline")

    def emulation(self) -> Emulation:
        """How its storage servers speak, for benchmarks of the ordering layer."""
        raise Unsupported(f"the engine {self.name} has no ordering layer apart from its storage servers")
