"""What every engine offers to whoever runs its servers."""

from collections.abc import Sequence
from typing import Protocol

from ithaca.model.config.cluster import ClusterFile
from ithaca.model.engine import EngineName
from ithaca.model.health import Health, ServerStatus
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.raft.events import Settings
from ithaca.server.process import Server
from ithaca.storage.disk import Disk


class Engine(Protocol):
    """One engine; `engines.registry` finds it by its name."""

    @property
    def name(self) -> EngineName: ...

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
        """The server at this place of the cluster, not started.

        `disk` and `settings` of Raft are for those that have other ones; `listen_at` is for a server that others reach
        at the file's address by way of a proxy or a mapped port.
        """

    def health(self, servers: Sequence[ServerStatus]) -> Health:
        """The verdict on a cluster, by what all its servers say of themselves."""
