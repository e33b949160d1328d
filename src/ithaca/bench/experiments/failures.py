"""`ithaca bench failures`: what whoever appends notices when a server is killed (Scalog §6.2, figure 4, and table 2).

| scenario         | killed with -9                | expected                                                   |
|------------------|-------------------------------|------------------------------------------------------------|
| leader           | the orderer that leads        | a dip until another leads, then what queued up: none fewer |
| follower         | an orderer that does not lead | nothing                                                    |
| replica          | one replica of a shard        | its shard's clients wait until it is finalized, no others  |

The cluster answers the death of a replica itself: spares wait, and its file says `finalize-and-add`.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.bench.experiments.answer import answered
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
from ithaca.model.config.failures import FailurePolicy
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import DETECTION_MS_MIN

LEADER, FOLLOWER, REPLICA = "leader killed", "follower killed", "replica killed"


def run_failures(
    parent: Path, settings: ExperimentSettings, progress: Progress, *, detect_s: float = 1.0
) -> dict[str, Any]:
    """Rounds of one undisturbed turn and one for each scenario; a replica has failed after `detect_s` of silence."""
    if detect_s * 1000 < DETECTION_MS_MIN:
        raise InvalidInput(f"silence of {detect_s:g} s is too short to tell: use {DETECTION_MS_MIN / 1000:g} s or more")
    shape = replace(
        settings.shape,
        spares=settings.replicas * settings.rounds,
        failures=FailurePolicy("finalize-and-add", round(detect_s * 1000)),
    )
    with experiment(parent, settings, progress, shape) as lab:
        shards = _Shards(lab)
        scenarios = {LEADER: _kill_leader, FOLLOWER: _kill_follower, REPLICA: shards.kill_replica}
        rounds = run_rounds(lab, scenarios, lambda lab: lab.servers.start_spares(progress))
        figures = {LEADER: _leader_figures, REPLICA: _replica_figures}
        report = report_of("failures", lab, rounds, figures, parent)
        report["settings"]["detect_s"] = detect_s
        return report


def _kill_leader(lab: Experiment) -> Turn:
    return _kill_orderer(lab, lab.servers.leader())


def _kill_follower(lab: Experiment) -> Turn:
    return _kill_orderer(lab, lab.servers.follower())


def _kill_orderer(lab: Experiment, name: str) -> Turn:
    """Started again after the turn, in which two orderers go on without it."""

    def disturb(start_s: float) -> Mapping[str, float]:
        time.sleep(max(0.0, start_s + lab.settings.at_s - time.monotonic()))
        lab.servers.kill(name)
        return {"killed": time.monotonic()}

    turn = lab.disturbed(disturb)
    lab.servers.start(name)
    lab.servers.wait_healthy([], lab.progress)
    return turn


class _Shards:
    """Which shards are live."""

    def __init__(self, lab: Experiment) -> None:
        self._live = list(range(lab.settings.shards))

    def kill_replica(self, lab: Experiment) -> Turn:
        """The oldest shard loses its first replica; one of spares takes its place."""
        shard = self._live[0]
        killed = lab.servers.replicas_of(shard)[0].name

        def disturb(start_s: float) -> Mapping[str, float]:
            return asyncio.run(self._kill(lab, killed, shard, start_s + lab.settings.at_s))

        turn = lab.disturbed(disturb, lab.clients_of(shard))
        lab.servers.start(killed)  # what the shard holds is complete again before it is let go
        names = [place.name for each in (shard, self._live[-1]) for place in lab.servers.replicas_of(each)]
        lab.servers.wait_healthy(names, lab.progress)
        lab.servers.retire(shard)
        return turn

    async def _kill(self, lab: Experiment, name: str, shard: int, at_s: float) -> Mapping[str, float]:
        async with ithaca.aio.connect(lab.servers.bootstrap) as log:
            watching = asyncio.ensure_future(answered(log, shard, self._live))
            await until(at_s)
            lab.servers.kill(name)
            killed_s = time.monotonic()
            answer = await watching
        lab.servers.spares_became(answer.shard)
        self._live = [*self._live[1:], answer.shard]
        return {"killed": killed_s, "detected": answer.detected_s, "finalized": answer.finalized_s}


def _leader_figures(turn: Turn, quiet: Turn) -> dict[str, float | None]:
    killed_s = turn.events["killed"]
    gap_s, end_s = turn.timeline.longest_gap(killed_s)
    caught_up_s = turn.timeline.caught_up_s(end_s, quiet.timeline.usual_backlog())
    return {
        "gap_ms": milliseconds(gap_s),
        "resumed_ms": milliseconds(end_s - killed_s),
        "caught_up_ms": milliseconds(caught_up_s - killed_s),
    }


def _replica_figures(turn: Turn, quiet: Turn) -> dict[str, float | None]:
    """`restored_ms`: from the detection until the clients of the shard were served again."""
    killed_s, detected_s, affected = turn.events["killed"], turn.events["detected"], set(turn.affected)
    theirs = turn.timeline.of_clients(affected)
    gap_s, end_s = theirs.longest_gap(killed_s)
    caught_up_s = theirs.caught_up_s(end_s, quiet.timeline.of_clients(affected).usual_backlog())
    others, others_before = (each.timeline.of_clients(affected, others=True) for each in (turn, quiet))
    return {
        "detection_ms": milliseconds(detected_s - killed_s),
        "gap_ms": milliseconds(gap_s),
        "resumed_ms": milliseconds(end_s - killed_s),
        "restored_ms": milliseconds(end_s - detected_s),
        "caught_up_ms": milliseconds(caught_up_s - killed_s),
        "others_ratio": round(others.completed(killed_s) / max(1, others_before.completed(killed_s)), 4),
        "others_extra_gap_ms": milliseconds(others.longest_gap()[0] - others_before.longest_gap()[0]),
    }
