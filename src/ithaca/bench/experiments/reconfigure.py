"""`ithaca bench reconfigure`: what whoever appends notices when a shard comes and another goes (Scalog §6.1, figure 3).

The servers of the shard that comes run already. In the middle of a turn it is registered; once its lanes are open the
oldest shard is finalized, with a grace in which its clients are told and go elsewhere.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.bench.experiments.experiment import (
    Experiment,
    ExperimentSettings,
    Turn,
    experiment,
    milliseconds,
    report_of,
    run_rounds,
    until,
)
from ithaca.bench.measure import Progress
from ithaca.model.interface.awaited import ClusterLog

RECONFIGURED = "reconfigured"
GRACE_CUTS = 10
"""As in the paper."""
GRACE_S = 0.5
_POLL_S = 0.01


def run_reconfigure(parent: Path, settings: ExperimentSettings, progress: Progress) -> dict[str, Any]:
    """Rounds of one undisturbed turn and one in which a shard is added and another finalized."""
    with experiment(parent, settings, progress) as lab:
        changing = _Changing(lab)
        rounds = run_rounds(lab, {RECONFIGURED: changing.turn}, changing.prepare)
        return report_of("reconfigure", lab, rounds, {RECONFIGURED: _figures}, parent)


class _Changing:
    """Which shard goes next, and which one comes."""

    def __init__(self, lab: Experiment) -> None:
        self._live = list(range(lab.settings.shards))
        self._spare = -1

    def prepare(self, lab: Experiment) -> None:
        """Have a spare shard for this round."""
        self._spare = lab.servers.start_spare(lab.progress)

    def turn(self, lab: Experiment) -> Turn:
        spare, oldest = self._spare, self._live.pop(0)
        self._live.append(spare)

        def disturb(start_s: float) -> Mapping[str, float]:
            return asyncio.run(_reconfigure(lab, spare, oldest, start_s + lab.settings.at_s))

        turn = lab.disturbed(disturb, lab.clients_of(oldest))
        names = [place.name for shard in (spare, oldest) for place in lab.servers.replicas_of(shard)]
        lab.servers.wait_healthy(names, lab.progress)
        lab.servers.retire(oldest)
        return turn


async def _reconfigure(lab: Experiment, spare: int, oldest: int, at_s: float) -> Mapping[str, float]:
    addresses = [str(place.address) for place in lab.servers.replicas_of(spare)]
    async with ithaca.aio.connect(lab.servers.bootstrap) as log:
        await until(at_s)
        events = {"asked": time.monotonic()}
        await log.admin.add_shard(addresses, shard=spare)
        events["added"] = time.monotonic()
        await _opened(log, spare)
        events["opened"] = time.monotonic()
        await log.admin.finalize_shard(oldest, grace_cuts=GRACE_CUTS, grace=GRACE_S)
        events["finalized"] = time.monotonic()
    return events


async def _opened(log: ClusterLog, number: int) -> None:
    """Wait until every replica of the shard has its lane."""
    while True:
        shards = {shard.shard: shard for shard in await log.admin.shards()}
        if all(replica.is_open for replica in shards[number].replicas):
            return
        await asyncio.sleep(_POLL_S)


def _figures(turn: Turn, quiet: Turn) -> dict[str, float | None]:
    """How long the clients of the shard that went waited, beside what they waited when nothing happened."""
    asked_s, affected = turn.events["asked"], set(turn.affected)
    moved = turn.timeline.of_clients(affected).longest_gap(asked_s)[0]
    before = quiet.timeline.of_clients(affected).longest_gap()[0]
    return {
        "added_ms": milliseconds(turn.events["added"] - asked_s),
        "opened_ms": milliseconds(turn.events["opened"] - asked_s),
        "finalized_ms": milliseconds(turn.events["finalized"] - asked_s),
        "moved_clients_gap_ms": milliseconds(moved),
        "moved_clients_extra_gap_ms": milliseconds(moved - before),
    }
