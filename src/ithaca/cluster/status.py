"""How a cluster is: every server is asked, and its engine says in words what is wrong.

Servers are asked directly, each within `limits.STATUS_TIMEOUT_S`, so that one that hangs hides no other.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ithaca.engines.registry import engine
from ithaca.engines.scalog.messages.order import GetView, ViewIs
from ithaca.model.addresses import parse_address
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.health import Health, ServerStatus
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.protocol.greeting import ANY_ENGINE, FEATURES, VERSION_MAX, VERSION_MIN, GetStatus, Hello, StatusIs
from ithaca.runtime.connection import Connection, OnlyAnswers, dial


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All servers, orderers first, aggregators last."""

    servers: list[ServerStatus]
    engine: EngineName = DEFAULT_ENGINE

    @property
    def health(self) -> Health:
        """What the servers' words add up to: their engine knows."""
        return engine(self.engine).health(self.servers)

    def fenced(self, names: Collection[str]) -> "ClusterStatus":
        """The same, where a supervisor knows that these servers have fenced themselves."""
        servers = [each.fenced() if each.place.name in names else each for each in self.servers]
        return ClusterStatus(servers, self.engine)

    @property
    def leader(self) -> ServerStatus | None:
        """The server that leads the others."""
        return self.health.leader

    def problems(self) -> list[str]:
        """What is wrong, a sentence each; nothing when the cluster is healthy."""
        return self.health.problems


async def cluster_status(places: Sequence[ServerPlace]) -> ClusterStatus:
    """Ask every server, all at once."""
    return ClusterStatus(list(await asyncio.gather(*map(_server_status, places))))


async def places_of(bootstrap: Sequence[Address]) -> list[ServerPlace]:
    """Every server of the cluster that the first orderer which answers belongs to."""
    failures = []
    for address in bootstrap:
        try:
            view = await _ask_view(address)
        except IthacaError as error:
            failures.append(f"{address}: {error}")
            continue
        replicas = [
            ServerPlace("replica", replica.replica, replica.address, shard.shard)
            for shard in view.view.shards
            for replica in shard.replicas
        ]
        return [await _orderer_place(each) for each in view.orderers] + replicas + await _aggregators(view.leader)
    raise Unavailable(f"no orderer answers: {'; '.join(failures)}")


async def _orderer_place(address: Address) -> ServerPlace:
    """A view tells where orderers are, and they themselves what their numbers are; 0 for one that is silent."""
    try:
        status = await ask_status(address)
    except IthacaError:
        return ServerPlace("orderer", 0, address)
    return ServerPlace("orderer", status.get("server", 0), address)


async def _aggregators(leader: Address | None) -> list[ServerPlace]:
    """Those that have attached, which only the leader knows."""
    try:
        status = {} if leader is None else await ask_status(leader)
        return [
            ServerPlace("aggregator", each["aggregator"], parse_address(each["address"]))
            for each in status.get("aggregators", ())
        ]
    except IthacaError:
        return []


async def _server_status(place: ServerPlace) -> ServerStatus:
    try:
        return ServerStatus(place, await ask_status(place.address))
    except IthacaError as error:
        return ServerStatus(place, None, str(error))


async def ask_status(address: Address) -> dict[str, Any]:
    """What the server at the address says of itself."""
    connection = await _dial(address)
    try:
        answer = await connection.request(GetStatus(), timeout=STATUS_TIMEOUT_S)
    finally:
        connection.close()
    if not isinstance(answer.message, StatusIs):
        raise ProtocolError(f"{address} answered a question about its status with {type(answer.message).__name__}")
    try:
        return msgspec.json.decode(answer.message.json, type=dict[str, Any])
    except UNDECODABLE as error:
        raise ProtocolError(f"{address} says of itself what cannot be read: {error}") from error


async def _ask_view(address: Address) -> ViewIs:
    connection = await _dial(address)
    try:
        answer = await connection.request(GetView(), timeout=STATUS_TIMEOUT_S)
    finally:
        connection.close()
    if not isinstance(answer.message, ViewIs):
        raise ProtocolError(f"{address} answered a question about the view with {type(answer.message).__name__}")
    return answer.message


async def _dial(address: Address) -> Connection:
    hello = Hello(VERSION_MIN, VERSION_MAX, "client", "status", FEATURES, engine=ANY_ENGINE)
    return await dial(address, hello, OnlyAnswers(), timeout=STATUS_TIMEOUT_S)
