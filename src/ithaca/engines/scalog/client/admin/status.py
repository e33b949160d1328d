"""How a cluster is: every server is asked at once, and what they say is judged as everywhere (`scalog.health`)."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.health import health
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import IthacaError
from ithaca.model.health import ServerStatus, lanes_of
from ithaca.model.interface import ClusterStatus
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address, View
from ithaca.protocol.greeting import GetStatus, StatusIs


async def cluster_status(order: Order, links: Links) -> ClusterStatus:
    """Ask everybody, each for a short time only."""
    unreachable = ""
    try:
        await order.refresh(Deadline(STATUS_TIMEOUT_S))
    except IthacaError as error:
        unreachable = f"the ordering layer cannot be asked: {error}"
    places = _places(order.orderers, order.view)
    return judged(await asyncio.gather(*(ask_server(links, place) for place in places)), unreachable)


def _places(orderers: Iterable[Address], view: View) -> list[ServerPlace]:
    """Where the servers are. What the numbers of orderers are, they say themselves."""
    return [ServerPlace("orderer", 0, address) for address in orderers] + replicas_of(view)


def replicas_of(view: View) -> list[ServerPlace]:
    """Where the replicas are."""
    return [
        ServerPlace("replica", replica.replica, replica.address, shard.shard)
        for shard in view.shards
        for replica in shard.replicas
    ]


async def ask_server(links: Links, place: ServerPlace) -> ServerStatus:
    """What the server says of itself; one that says nothing in time is unreachable."""
    deadline = Deadline(STATUS_TIMEOUT_S)
    try:
        link = await links.link(place.address, deadline.left_s)
        answer = (await link.request(GetStatus(), max(deadline.left_s, 0.001))).message
        if isinstance(answer, StatusIs):
            status = msgspec.json.decode(answer.json, type=dict[str, Any])
            if place.role == "orderer":
                place = ServerPlace(place.role, status.get("server", 0), place.address)
            return ServerStatus(place, {**status, "address": str(place.address)})
        silence = f"it answered GetStatus with {type(answer).__name__}"
    except (IthacaError, *UNDECODABLE) as failure:
        silence = str(failure)
    return ServerStatus(place, None, silence)


def judged(servers: Sequence[ServerStatus], unreachable: str = "") -> ClusterStatus:
    """What the servers' words add up to. `unreachable` is why the ordering layer could not be asked, if so."""
    found = health(servers)
    problems = ((unreachable,) if unreachable else ()) + tuple(found.problems)
    words = [each.status for each in servers if each.status is not None]
    return ClusterStatus(
        healthy=not problems,
        problems=problems,
        tail=found.tail or max((each.get("tail", 1) for each in words), default=1),
        first=found.first or max((each.get("first", 1) for each in words), default=1),
        servers=tuple(map(_words, servers)),
        lanes=tuple((each.lane, min(each.durable.values()), each.ordered) for each in lanes_of(servers)),
        warnings=tuple(found.warnings),
    )


def _words(server: ServerStatus) -> dict[str, Any]:
    if server.status is not None:
        return server.status
    place = server.place
    return {"address": str(place.address), "role": place.role, "state": server.state, "error": server.silence}
