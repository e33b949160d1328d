"""How much the live shards of a cluster have to do: what their replicas count, twice, and the difference by the time.

Every replica of a shard receives every batch of it, its own or as a copy: the shard's rate is that of the replica that
received the most.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ithaca.client.asking import ask_status
from ithaca.cluster.autoscaling.policy import Sample, ShardLoad
from ithaca.cluster.server_metrics import ask_metrics
from ithaca.cluster.status import cluster_status, places_of
from ithaca.model.errors import IthacaError, Unavailable
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address

_BYTES = "ithaca_replica_received_bytes_total"
_RECORDS = "ithaca_replica_received_records_total"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one replica said at one time."""

    time_s: float
    pid: int
    received_bytes: float
    received_records: float
    pending_bytes: float
    lanes: tuple[tuple[str, bool, int, int], ...]
    """Name, whether it is open, records synced here, records ordered."""


class LoadMeter:
    """Asks again and again; the first sample knows no rates, and so nothing of any shard."""

    def __init__(self, orderers: Iterable[Address], tls: TLS | None) -> None:
        self._orderers = list(orderers)
        self._tls = tls
        self._before: dict[Address, Reading] = {}

    async def sample(self) -> Sample:
        """The load since the last sample; `Unavailable` while nobody leads."""
        places = await places_of(self._orderers, self._tls)
        orderers = [place for place in places if place.role == "orderer"]
        leader = (await cluster_status(orderers, self._tls)).leader
        if leader is None or leader.status is None:
            raise Unavailable("no orderer leads, so nobody knows which shards are live")
        live = [shard["shard"] for shard in leader.status["shards"] if shard["phase"] == "live"]
        replicas = [place for place in places if place.shard in live]
        readings = dict(
            zip(replicas, await asyncio.gather(*(_read(place, self._tls) for place in replicas)), strict=True)
        )
        loads = [
            self._load(shard, {place: readings[place] for place in replicas if place.shard == shard}) for shard in live
        ]
        self._before = {place.address: reading for place, reading in readings.items() if reading is not None}
        unknown = tuple(shard for shard, load in zip(live, loads, strict=True) if load is None)
        return Sample(time.monotonic(), tuple(load for load in loads if load is not None), unknown)

    def _load(self, shard: int, readings: dict[ServerPlace, Reading | None]) -> ShardLoad | None:
        """None while a replica of the shard is silent, or was started since the last time."""
        pairs = [(self._before.get(place.address), reading) for place, reading in readings.items()]
        known = [
            (before, now) for before, now in pairs if before is not None and now is not None and before.pid == now.pid
        ]
        if len(known) < len(readings) or not known:
            return None
        return load_of(shard, known)


def load_of(shard: int, pairs: list[tuple[Reading, Reading]]) -> ShardLoad:
    """The load of a shard from two readings of each of its replicas."""
    rates = [
        (
            (now.received_bytes - before.received_bytes) / (now.time_s - before.time_s),
            (now.received_records - before.received_records) / (now.time_s - before.time_s),
        )
        for before, now in pairs
    ]
    synced: dict[str, int] = {}
    ordered: dict[str, int] = {}
    for _, now in pairs:
        for lane, is_open, durable, length in now.lanes:
            if is_open:
                synced[lane] = max(synced.get(lane, 0), durable)
                ordered[lane] = max(ordered.get(lane, 0), length)
    return ShardLoad(
        shard,
        max(rate for rate, _ in rates),
        max(rate for _, rate in rates),
        sum(now.pending_bytes for _, now in pairs),
        sum(max(0, synced[lane] - ordered[lane]) for lane in synced),
    )


async def _read(place: ServerPlace, tls: TLS | None) -> Reading | None:
    try:
        metrics, status = await asyncio.gather(ask_metrics(place.address, tls), ask_status(place.address, tls))
        return _reading(metrics, status)
    except IthacaError:
        return None


def _reading(metrics: dict[str, float], status: dict[str, Any]) -> Reading | None:
    if _BYTES not in metrics or status.get("role") != "replica":
        return None
    lanes = tuple((lane["lane"], lane["open"], lane["durable"], lane["ordered"]) for lane in status["lanes"])
    return Reading(
        time.monotonic(), status["pid"], metrics[_BYTES], metrics[_RECORDS], float(status["pending_bytes"]), lanes
    )
