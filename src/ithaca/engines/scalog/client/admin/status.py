"""How a cluster is: every server is asked at once, and what they say is judged in plain words."""

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.model.decoding import UNDECODABLE
from ithaca.model.errors import IthacaError
from ithaca.model.interface import ClusterStatus
from ithaca.model.limit_use import limit_warnings
from ithaca.model.limits import STATUS_TIMEOUT_S
from ithaca.model.view import Address, Shard, View
from ithaca.protocol.greeting import GetStatus, StatusIs

ServerStatus = dict[str, Any]
"""What a server says of itself (`server.status`)."""

_NOT_SERVING = ("joining", "catching up", "full", "fenced")


async def cluster_status(order: Order, links: Links) -> ClusterStatus:
    """Ask everybody, each for a short time only."""
    unreachable = ""
    try:
        await order.refresh(Deadline(STATUS_TIMEOUT_S))
    except IthacaError as error:
        unreachable = str(error)
    view = order.view
    replicas = [replica.address for shard in view.shards for replica in shard.replicas]
    orderers, stores = await asyncio.gather(
        asyncio.gather(*(ask_server(links, address, "orderer") for address in order.orderers)),
        asyncio.gather(*(ask_server(links, address, "replica") for address in replicas)),
    )
    return judged(view, orderers, stores, unreachable)


async def ask_server(links: Links, address: Address, role: str) -> ServerStatus:
    """What the server says of itself; one that says nothing in time is unreachable."""
    deadline = Deadline(STATUS_TIMEOUT_S)
    try:
        link = await links.link(address, deadline.left_s)
        answer = (await link.request(GetStatus(), max(deadline.left_s, 0.001))).message
        if isinstance(answer, StatusIs):
            status = msgspec.json.decode(answer.json)
            if isinstance(status, dict):
                return {**status, "address": str(address)}
        error = f"it answered GetStatus with {type(answer).__name__}"
    except (IthacaError, *UNDECODABLE) as failure:
        error = str(failure)
    return {"address": str(address), "role": role, "state": "unreachable", "error": error}


def judged(
    view: View, orderers: list[ServerStatus], replicas: list[ServerStatus], unreachable: str = ""
) -> ClusterStatus:
    """What the servers' words add up to. `unreachable` is why the ordering layer could not be asked, if so."""
    problems: list[str] = []
    if unreachable:
        problems.append(f"the ordering layer cannot be asked: {unreachable}")
    problems += _of_orderers(orderers)
    status_at = {status["address"]: status for status in replicas}
    for shard in view.shards:
        problems += _of_shard(shard, status_at)
    problems += _differences((*orderers, *replicas))
    tail = max((status.get("tail", 1) for status in (*orderers, *replicas)), default=1)
    first = max((status.get("first", 1) for status in (*orderers, *replicas)), default=1)
    servers = (*orderers, *replicas)
    warnings = limit_warnings((_name(status), status) for status in servers)
    return ClusterStatus(not problems, tuple(problems), tail, first, servers, _lanes(replicas), tuple(warnings))


def _name(status: ServerStatus) -> str:
    place = (
        f"{status.get('shard')}/{status.get('replica')}"
        if status["role"] == "replica"
        else str(status.get("server", ""))
    )
    return f"{status['role']} {place} ({status['address']})"


def _of_orderers(orderers: list[ServerStatus]) -> Iterable[str]:
    for status in orderers:
        if status["state"] == "unreachable":
            yield f"orderer {status['address']} is unreachable: {status['error']}"
    if not any(status["state"] == "leader" for status in orderers):
        yield "no orderer says that it leads: nothing is ordered until a majority of them runs"
    elif not any(status.get("configured") for status in orderers):
        yield "the log is not configured yet"


def _of_shard(shard: Shard, status_at: dict[str, ServerStatus]) -> Iterable[str]:
    serving = 0
    for replica in shard.replicas:
        status = status_at[str(replica.address)]
        name = f"replica {shard.shard}/{replica.replica} ({replica.address})"
        state = status["state"]
        if state == "unreachable":
            yield f"{name} is unreachable: {status['error']}"
        elif (status.get("shard"), status.get("replica")) != (shard.shard, replica.replica):
            yield f"{name} answers as {status.get('role')} {status.get('shard')}/{status.get('replica')}"
        elif state in _NOT_SERVING:
            yield f"{name} is {state}"
        else:
            serving += 1
    if shard.phase == "finalized":
        return
    if len(shard.replicas) < shard.copies:
        yield f"shard {shard.shard} cannot order: it has {len(shard.replicas)} replicas and needs {shard.copies}"
    elif serving < shard.copies:
        yield f"shard {shard.shard} cannot order: {serving} of its replicas serve, and it needs {shard.copies}"
    elif not shard.open_lanes():
        yield f"shard {shard.shard} takes no appends: none of its lanes is open"


def _differences(servers: Iterable[ServerStatus]) -> Iterable[str]:
    """What cannot be true of the servers of one log."""
    logs: dict[str, list[str]] = {}
    for status in servers:
        if status.get("log"):
            logs.setdefault(status["log"], []).append(status["address"])
    if len(logs) > 1:
        yield "the servers are of different logs: " + "; ".join(
            f"{log} at {', '.join(places)}" for log, places in sorted(logs.items())
        )


def _lanes(replicas: Iterable[ServerStatus]) -> tuple[tuple[str, int, int], ...]:
    """Every lane with the least durable and the greatest ordered length that a holder names."""
    found: dict[str, tuple[int, int]] = {}
    for status in replicas:
        for lane in status.get("lanes", ()):
            durable, ordered = found.get(lane["lane"], (lane["durable"], 0))
            found[lane["lane"]] = (min(durable, lane["durable"]), max(ordered, lane["ordered"]))
    return tuple((lane, *found[lane]) for lane in sorted(found, key=_lane_order))


def _lane_order(lane: str) -> tuple[int, ...]:
    return tuple(int(part) for part in lane.split("-") if part.isdecimal())
