"""How a cluster is: every server is asked, and what is wrong is said in words.

Servers are asked directly, each within `limits.STATUS_TIMEOUT_S`, so that one that hangs hides no other.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ithaca.engines.scalog.messages.order import GetView, ViewIs
from ithaca.model.addresses import parse_address
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.limit_use import limit_warnings
from ithaca.model.limits import CLOCK_WARNED_S, STATUS_TIMEOUT_S
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, GetStatus, Hello, StatusIs
from ithaca.runtime.connection import Connection, OnlyAnswers, dial

WELL = {"leader", "follower", "serving", "finalized", "reclaimed", "attached", "waiting", "removed"}
"""States in which a server does all that it is there for."""


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What one server said of itself, or why it said nothing."""

    place: ServerPlace
    status: dict[str, Any] | None
    silence: str = ""

    @property
    def state(self) -> str:
        return "unreachable" if self.status is None else str(self.status["state"])


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All servers, orderers first, aggregators last."""

    servers: list[ServerStatus]

    @property
    def leader(self) -> ServerStatus | None:
        """The orderer that leads; of two that say so, the one with the higher term."""
        leaders = [server for server in self.servers if server.status is not None and server.state == "leader"]
        return max(leaders, key=_term, default=None)

    @property
    def tail(self) -> int | None:
        """The next position; None while no orderer leads."""
        return None if self.leader is None or self.leader.status is None else self.leader.status["tail"]

    @property
    def first(self) -> int | None:
        return None if self.leader is None or self.leader.status is None else self.leader.status["first"]

    @property
    def log(self) -> str | None:
        """The log's UUID, as any server knows it."""
        known = [server.status["log"] for server in self.servers if server.status is not None and server.status["log"]]
        return known[0] if known else None

    def problems(self, fenced: Collection[str] = ()) -> list[str]:
        """What is wrong, a sentence each; nothing when the cluster is healthy.

        `fenced` names the servers that their supervisor knows to have fenced themselves.
        """
        found = []
        for server in self.servers:
            if server.place.name in fenced:
                found.append(f"{server.place.name} has fenced itself, because a sync of its disk failed; it stays down")
            elif server.status is None and self._counts(server.place):
                found.append(f"{server.place.name} does not answer: {server.silence}")
            elif server.status is not None and server.state not in WELL:
                found.append(f"{server.place.name} is {server.state}")
            found += _damage(server)
        if self.leader is None:
            found.append("no orderer leads, so nothing is ordered: more than half of the orderers must be up")
        elif self.leader.status is not None and not self.leader.status["configured"]:
            found.append("the cluster is not configured yet")
        elif self.leader.status is not None:
            found += _shards_without_lanes(self.leader.status) + _shards_short_of_replicas(self.leader.status)
        logs = Counter(
            server.status["log"] for server in self.servers if server.status is not None and server.status["log"]
        )
        if len(logs) > 1:
            found.append(f"servers belong to different logs: {', '.join(map(str, logs))}")
        return found

    def warnings(self) -> list[str]:
        """What people should know of although nothing is wrong, a sentence each."""
        status = {} if self.leader is None or self.leader.status is None else self.leader.status
        servers = [(server.place.name, server.status) for server in self.servers if server.status is not None]
        return _trims_announced(status) + _clocks_apart(status) + limit_warnings(servers)

    def _counts(self, place: ServerPlace) -> bool:
        """Whether anybody waits for this server: not for a replica that was removed."""
        status = None if self.leader is None else self.leader.status
        if status is None or place.role != "replica":
            return True
        numbers = [
            each["replica"] for shard in status["shards"] if shard["shard"] == place.shard for each in shard["replicas"]
        ]
        return not numbers or place.number in numbers


def _term(server: ServerStatus) -> int:
    return int(server.status["term"]) if server.status is not None else 0


def _damage(server: ServerStatus) -> list[str]:
    """Lanes that a replica has lost, or is about to give up."""
    found = []
    for damaged in (server.status or {}).get("damaged", ()):
        name, lane = server.place.name, damaged["lane"]
        if damaged["kept"] is None:
            found.append(f"{name} holds damaged records of lane {lane}: restart it while its peers are well")
        elif not damaged["repaired"]:
            found.append(f"{name} lacks lane {lane}, which was damaged, until a peer has sent it")
    return found


def _trims_announced(leader: dict[str, Any]) -> list[str]:
    """What retention is about to trim although it did not grow old before the leader's eyes."""
    status = leader.get("retention")
    if not status:
        return []
    return [
        f"retention trims {status['records']} records, those before position {status['before']}, "
        f"from {status['in_s']} s on: they are too old by the orderers' clocks"
    ]


def _clocks_apart(leader: dict[str, Any]) -> list[str]:
    """Clocks that are far from what a majority of the orderers' clocks say."""
    status = leader.get("clocks") or {"order_ahead_s": 0.0, "voters": []}
    clocks = [(f"the clock of orderer {each['server']}", each["ahead_s"]) for each in status["voters"]]
    return [
        f"{name} is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} the time that most orderers agree on"
        for name, ahead_s in [*clocks, ("the order's time", status["order_ahead_s"])]
        if abs(ahead_s) > CLOCK_WARNED_S
    ]


def _shards_without_lanes(leader: dict[str, Any]) -> list[str]:
    """Shards that should take appends and cannot."""
    return [
        f"shard {shard['shard']} takes no appends: none of its replicas has an open lane"
        for shard in leader["shards"]
        if shard["phase"] == "live" and not any(replica["open"] for replica in shard["replicas"])
    ]


def _shards_short_of_replicas(leader: dict[str, Any]) -> list[str]:
    """Shards from which a replica was removed, and to which none was added since."""
    return [
        f"shard {shard['shard']} is short of {shard['missing']} of its replicas: add one with ithaca shard replicas add"
        for shard in leader["shards"]
        if shard["phase"] != "finalized" and shard.get("missing", 0) > 0
    ]


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
    hello = Hello(VERSION_MIN, VERSION_MAX, "client", "status", FEATURES)
    return await dial(address, hello, OnlyAnswers(), timeout=STATUS_TIMEOUT_S)
