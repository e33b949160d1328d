"""How a cluster is: every server is asked, and its engine says in words what is wrong.

Servers are asked directly, each within `limits.STATUS_TIMEOUT_S`, so that one that hangs hides no other.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ithaca.client.asking import ask_status
from ithaca.engines.connecting import engine_at
from ithaca.engines.registry import engine
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import IthacaError
from ithaca.model.health import Health, ServerStatus
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

OPEN: Final = (
    "the cluster is insecure: whoever reaches a server can read, append, trim and administer; give it [tls], and take "
    "insecure out of its file"
)


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All servers, orderers first, aggregators last."""

    servers: list[ServerStatus]

    @property
    def engine(self) -> EngineName:
        """Of the cluster, as its servers say."""
        said = (server.status["engine"] for server in self.servers if server.status and "engine" in server.status)
        return next(said, DEFAULT_ENGINE)

    @property
    def health(self) -> Health:
        """What the servers' words add up to: their engine knows."""
        health = engine(self.engine).health(self.servers)
        if not any(server.status and server.status.get("insecure") for server in self.servers):
            return health
        return replace(health, warnings=[*health.warnings, OPEN])

    def fenced(self, names: Collection[str]) -> "ClusterStatus":
        """The same, where a supervisor knows that these servers have fenced themselves."""
        servers = [each.fenced() if each.place.name in names else each for each in self.servers]
        return ClusterStatus(servers)

    @property
    def leader(self) -> ServerStatus | None:
        """The server that leads the others."""
        return self.health.leader

    def problems(self) -> list[str]:
        """What is wrong, a sentence each; nothing when the cluster is healthy."""
        return self.health.problems


async def cluster_status(places: Sequence[ServerPlace], tls: TLS | None) -> ClusterStatus:
    """Ask every server, all at once."""
    return ClusterStatus(list(await asyncio.gather(*(_server_status(place, tls) for place in places))))


async def places_of(bootstrap: Sequence[Address], tls: TLS | None) -> list[ServerPlace]:
    """Every server of the cluster that the first of these which answers belongs to."""
    engine = await engine_at(bootstrap, STATUS_TIMEOUT_S, tls, patient=False)
    return await engine.places(bootstrap, tls)


async def _server_status(place: ServerPlace, tls: TLS | None) -> ServerStatus:
    try:
        return ServerStatus(place, await ask_status(place.address, tls))
    except IthacaError as error:
        return ServerStatus(place, None, str(error))
