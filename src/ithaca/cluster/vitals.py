"""How long servers have been running, what they take in and what they hold: for those who look after a cluster."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from ithaca.cluster.server_metrics import ask_metrics
from ithaca.model.errors import IthacaError
from ithaca.model.security.tls import TLS
from ithaca.model.server_place import ServerPlace

_STARTED = "process_start_time_seconds"
_MEMORY = "process_resident_memory_bytes"
_RECORDS = "_received_records_total"
_BYTES = "_received_bytes_total"
_BLOCK_BYTES = 512
"""What `st_blocks` counts."""


class Vitals(msgspec.Struct, frozen=True):
    """Of one server; None where it does not say, or was not asked twice."""

    uptime_s: float | None = None
    memory_bytes: int | None = None
    records_per_s: float | None = None
    bytes_per_s: float | None = None


async def vitals_of(places: Sequence[ServerPlace], tls: TLS | None, *, measured_s: float = 0.0) -> dict[str, Vitals]:
    """Of each server that answers, by name; rates are what came in while `measured_s` seconds passed."""
    before = await _counted(places, tls)
    began_s = time.monotonic()
    if not measured_s:
        return {name: vitals(counted, time.time()) for name, counted in before.items()}
    await asyncio.sleep(measured_s)
    after = await _counted(places, tls)
    passed_s = time.monotonic() - began_s
    return {name: vitals(counted, time.time(), before.get(name), passed_s) for name, counted in after.items()}


def vitals(
    counted: Mapping[str, float], now_s: float, before: Mapping[str, float] | None = None, passed_s: float = 0.0
) -> Vitals:
    """What the counters of a server say, compared with those of so many seconds before.

    >>> early = {"process_start_time_seconds": 100.0, "ithaca_replica_received_records_total": 10.0}
    >>> vitals(early | {"ithaca_replica_received_records_total": 30.0}, 160.0, early, 2.0)
    Vitals(uptime_s=60.0, memory_bytes=None, records_per_s=10.0, bytes_per_s=None)
    """
    started_s, memory = counted.get(_STARTED), counted.get(_MEMORY)
    if before is not None and before.get(_STARTED) != started_s:
        before = None  # it was started again meanwhile, and counts from 0
    return Vitals(
        uptime_s=None if started_s is None else max(0.0, now_s - started_s),
        memory_bytes=None if memory is None else int(memory),
        records_per_s=_rate(counted, before, _RECORDS, passed_s),
        bytes_per_s=_rate(counted, before, _BYTES, passed_s),
    )


def _rate(
    counted: Mapping[str, float], before: Mapping[str, float] | None, suffix: str, passed_s: float
) -> float | None:
    names = [name for name in counted if name.startswith("ithaca_") and name.endswith(suffix)]
    if before is None or not names:
        return None
    return sum(counted[name] - before.get(name, 0.0) for name in names) / passed_s


async def _counted(places: Sequence[ServerPlace], tls: TLS | None) -> dict[str, dict[str, float]]:
    async def ask(place: ServerPlace) -> dict[str, float] | None:
        try:
            return await ask_metrics(place.address, tls)
        except IthacaError:
            return None  # that it does not answer is for its status to say

    answers = await asyncio.gather(*map(ask, places))
    return {place.name: answer for place, answer in zip(places, answers, strict=True) if answer is not None}


def stored_bytes(directory: Path) -> int:
    """What the files of a directory take on their disk, whatever their lengths are; files may go meanwhile."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(parent, name)).st_blocks * _BLOCK_BYTES
    return total
