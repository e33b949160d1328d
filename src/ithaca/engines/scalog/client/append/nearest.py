"""How far away the replicas are, for the policy "nearest": the shortest of a few round trips to each."""

import asyncio

from ithaca.engines.scalog.client.replicas import Replicas, find_replica
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, View
from ithaca.protocol.greeting import GetStatus

_ROUND_TRIPS = 3


async def measure(replicas: Replicas, view: View) -> dict[LaneId, float]:
    """Seconds to the replica of each live lane; those that do not answer are left out."""
    lanes = view.live_lanes()
    addresses = [replica.address for lane in lanes if (replica := find_replica(view, lane)) is not None]
    found = await asyncio.gather(*(_distance_s(replicas, address) for address in addresses))
    return {lane: distance_s for lane, distance_s in zip(lanes, found, strict=True) if distance_s is not None}


async def _distance_s(replicas: Replicas, address: Address) -> float | None:
    loop = asyncio.get_running_loop()
    shortest_s: float | None = None
    try:
        link = await replicas.link(address)
        for _ in range(_ROUND_TRIPS):
            began_s = loop.time()
            await link.request(GetStatus())
            taken_s = loop.time() - began_s
            shortest_s = taken_s if shortest_s is None else min(shortest_s, taken_s)
    except IthacaError:
        pass
    return shortest_s
