"""`ithaca bench failures`: what whoever appends notices when a server is killed (Scalog §6.2, figure 4, and table 2).

| scenario         | killed with -9                | expected                                                   |
|------------------|-------------------------------|------------------------------------------------------------|
| leader           | the orderer that leads        | a dip until another leads, then what queued up: none fewer |
| follower         | an orderer that does not lead | nothing                                                    |
| replica          | one replica of a shard        | its shard's clients wait until it is finalized, no others  |
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ithaca.aio
from ithaca.bench.answer import Answer, Spare, finalize_and_add, probe_all
from ithaca.bench.experiment import (
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
from ithaca.model.errors import Unavailable

LEADER, FOLLOWER, REPLICA = "leader killed", "follower killed", "replica killed"


def run_failures(
    parent: Path,
    settings: ExperimentSettings,
    progress: Progress,
    *,
    detect_s: float = 1.0,
    answer: Answer = finalize_and_add,
) -> dict[str, Any]:
    """Rounds of one undisturbed turn and one for each scenario; a shard is suspected after `detect_s` of silence."""
    with experiment(parent, settings, progress) as lab:
        shards = _Shards(lab, detect_s, answer)
        scenarios = {LEADER: _kill_leader, FOLLOWER: _kill_follower, REPLICA: shards.kill_replica}
        rounds = run_rounds(lab, scenarios, shards.prepare)
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
    """Which shards are live, and the spare one of this round."""

    def __init__(self, lab: Experiment, detect_s: float, answer: Answer) -> None:
        self._live = list(range(lab.settings.shards))
        self._detect_s = detect_s
        self._answer = answer
        self._spare = -1

    def prepare(self, lab: Experiment) -> None:
        self._spare = lab.servers.start_spare(lab.progress)

    def kill_replica(self, lab: Experiment) -> Turn:
        """The oldest shard loses its first replica; the spare one takes its place."""
        shard, spare, live = self._live[0], self._spare, list(self._live)
        killed = lab.servers.replicas_of(shard)[0].name

        def disturb(start_s: float) -> Mapping[str, float]:
            return asyncio.run(self._kill(lab, killed, live, spare, start_s + lab.settings.at_s))

        turn = lab.disturbed(disturb, lab.clients_of(shard))
        lab.servers.start(killed)  # what the shard holds is complete again before it is let go
        names = [place.name for each in (shard, spare) for place in lab.servers.replicas_of(each)]
        lab.servers.wait_healthy(names, lab.progress)
        lab.servers.retire(shard)
        self._live = [*live[1:], spare]
        return turn

    async def _kill(self, lab: Experiment, name: str, live: list[int], spare: int, at_s: float) -> Mapping[str, float]:
        addresses = [str(place.address) for place in lab.servers.replicas_of(spare)]
        async with ithaca.aio.connect(lab.servers.bootstrap) as log:
            await probe_all(log, live)
            answering = asyncio.ensure_future(self._answer(log, live, Spare(spare, addresses), self._detect_s))
            await until(at_s)
            lab.servers.kill(name)
            killed_s = time.monotonic()
            answered = await answering
        if answered.shard != live[0]:
            raise Unavailable(
                f"shard {answered.shard} was finalized, and {name} was killed: this machine is too busy to tell "
                "so soon that a shard is silent; choose a longer --detect"
            )
        return {
            "killed": killed_s,
            "detected": answered.detected_s,
            "finalized": answered.finalized_s,
            "added": answered.added_s,
        }


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
