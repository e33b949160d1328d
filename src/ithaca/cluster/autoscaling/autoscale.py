"""Adds and finalizes shards of the cluster on this machine: `load_meter` measures, `policy` decides.

Every decision is told as one audit entry, with the loads that it was made from and what came of it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.cluster.autoscaling.load_meter import LoadMeter
from ithaca.cluster.autoscaling.policy import Add, AutoscalePolicy, AutoscaleSettings, Decision, Finalize, Sample
from ithaca.cluster.layout import bootstrap_of
from ithaca.cluster.limits import CONNECT_TIMEOUT_S
from ithaca.cluster.local import cluster_file
from ithaca.cluster.shards import add_local_shard
from ithaca.cluster.supervisor import Tell
from ithaca.model.errors import IthacaError

Audit = Callable[[dict[str, Any]], object]
"""Told each decision."""

GRACE_CUTS = 100


@dataclass(frozen=True, slots=True)
class Acting:
    """How decisions are carried out."""

    interval_s: float = 5.0
    grace_s: float = 5.0
    """Given to a shard that is finalized."""
    dry_run: bool = False
    timeout_s: float = CONNECT_TIMEOUT_S
    """How long the cluster is waited for."""


def autoscale(
    directory: Path,
    settings: AutoscaleSettings,
    acting: Acting,
    audit: Audit,
    progress: Tell,
    *,
    samples_max: int | None = None,
) -> None:
    """Look after the cluster in the directory, without end or for so many samples."""
    file = cluster_file(directory)
    meter = LoadMeter((place.address for place in file.orderers), file.client_tls)
    policy = AutoscalePolicy(settings)
    taken = 0
    while samples_max is None or taken < samples_max:
        if taken:
            time.sleep(acting.interval_s)
        taken += 1
        try:
            sample = asyncio.run(meter.sample())
        except IthacaError as error:
            audit(_entry("nothing", None, "the load cannot be measured", acting, str(error), ()))
            continue
        decision = policy.decide(sample)
        progress(f"{sample.live} shards: {decision.reason}")
        audit(_told(decision, sample, acting, _carry_out(directory, decision, acting, progress)))


def _carry_out(directory: Path, decision: Decision, acting: Acting, progress: Tell) -> tuple[int | None, str]:
    """The shard that it concerned, and what came of it."""
    match decision:
        case Add() if not acting.dry_run:
            try:
                return _added(directory, acting, progress), "done"
            except IthacaError as error:
                return None, f"failed: {error}"
        case Finalize(shard) if not acting.dry_run:
            try:
                asyncio.run(_finalize(directory, shard, acting))
            except IthacaError as error:
                return shard, f"failed: {error}"
            return shard, "done"
        case Add():
            return None, "dry run"
        case Finalize(shard):
            return shard, "dry run"
        case _:
            return None, "done"


def _added(directory: Path, acting: Acting, progress: Tell) -> int:
    return add_local_shard(directory, None, masking=False, progress=progress, timeout_s=acting.timeout_s)


async def _finalize(directory: Path, shard: int, acting: Acting) -> None:
    file, timeout_s = cluster_file(directory), acting.timeout_s
    async with ithaca.aio.connect(
        bootstrap_of(file), timeout=timeout_s, tls=file.client_tls, token=file.client_token
    ) as log:
        await log.admin.finalize_shard(shard, grace_cuts=GRACE_CUTS, grace=acting.grace_s)


def _told(decision: Decision, sample: Sample, acting: Acting, outcome: tuple[int | None, str]) -> dict[str, Any]:
    name = {Add: "add", Finalize: "finalize"}.get(type(decision), "nothing")
    loads = tuple(asdict(load) for load in sample.loads)
    return _entry(name, outcome[0], decision.reason, acting, outcome[1], loads)


def _entry(
    decision: str, shard: int | None, reason: str, acting: Acting, outcome: str, loads: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "decision": decision,
        "shard": shard,
        "reason": reason,
        "dry_run": acting.dry_run,
        "outcome": outcome,
        "loads": [{name: round(value, 1) for name, value in load.items()} for load in loads],
    }
