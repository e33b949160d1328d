"""`ithaca bench consumers`: a commit beside an append, what many consumers cost the leader, how groups hand over."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import ithaca
from ithaca.bench.cluster.target import Measured, measured_cluster, status_of
from ithaca.bench.consumers.committing import Committing, commit_contenders, committing
from ithaca.bench.consumers.members import run_members
from ithaca.bench.measure import Progress, interleave, summarize
from ithaca.bench.place import payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.errors import Unavailable

RECORD_BYTES = 100


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    shape: Shape = field(default_factory=Shape)
    consumers: int = 1000
    handles: int = 20
    """Connected clients that these consumers share."""
    processes: int = 1
    seconds: float = 10.0
    rounds: int = 3
    members: int = 3
    lease_s: float = 2.0
    rate: int = 1000
    """Records per second that a group shares."""


def run_consumers(parent: Path, settings: ConsumerSettings, progress: Progress) -> dict[str, Any]:
    """All of it, on one cluster that is started for it."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        cluster = stack.enter_context(measured_cluster(directory / "cluster", settings.shape, progress))
        with ithaca.connect(cluster.bootstrap, timeout=60) as log:
            contenders = commit_contenders(log, payload(RECORD_BYTES), max(0.2, settings.seconds / 5))
            samples = interleave(contenders, settings.rounds, progress)
        p50s = [
            commit.latency.p50 / append.latency.p50
            for commit, append in zip(samples["commit"], samples["append"], strict=True)
        ]
        report = {
            "bench": "consumers",
            "contenders": {name: summarize(each) for name, each in samples.items()},
            "commit_by_append_p50": round(median(p50s), 3),
            "many": _many(cluster, settings, progress),
        }
        groups = []
        for number in range(settings.rounds):
            progress(f"a member comes, and one is killed: round {number + 1} of {settings.rounds}")
            with ithaca.connect(cluster.bootstrap, timeout=60) as log:
                if any(each.name == "group" for each in log.consumers()):
                    log.delete_consumer("group")
            groups.append(run_members(cluster.bootstrap, settings.members, settings.lease_s, settings.rate))
    return report | {"group": groups, "settings": setting}


def _many(cluster: Measured, settings: ConsumerSettings, progress: Progress) -> dict[str, Any]:
    """In turns: they commit, and they are only there."""
    leader = _leader(cluster)
    pids = cluster.pids()
    orderers = {name: pid for name, pid in pids.items() if name.startswith("orderer")}
    with ExitStack() as stack:
        progress(f"{settings.consumers} consumers open")
        team = committing(stack, cluster.bootstrap, settings.consumers, settings.handles, settings.processes)
        rounds = [_round(team, orderers, settings, progress, number) for number in range(settings.rounds)]
    return {"consumers": settings.consumers, "rounds": rounds} | _costs(rounds, leader, orderers)


def _round(
    team: Committing, orderers: dict[str, int], settings: ConsumerSettings, progress: Progress, number: int
) -> dict[str, Any]:
    progress(f"{settings.consumers} consumers wait, then commit every second: round {number + 1} of {settings.rounds}")
    idle = team.measured(orderers, settings.seconds, commit=False)
    busy = team.measured(orderers, settings.seconds, commit=True)
    return {
        "commits": busy.commits,
        "late": busy.late,
        "idle": {name: round(each, 4) for name, each in idle.cpu.items()},
        "busy": {name: round(each, 4) for name, each in busy.cpu.items()},
    }


def _costs(rounds: Sequence[dict[str, Any]], leader: str, orderers: dict[str, int]) -> dict[str, Any]:
    """The part of a core that commits cost, beyond what servers use that nobody asks for anything."""

    def cost(name: str) -> float:
        differences: list[float] = [each["busy"][name] - each["idle"][name] for each in rounds]
        return round(median(differences), 4)

    followers = [cost(name) for name in orderers if name != leader]
    return {"leader_cores": cost(leader), "follower_cores": max(followers, default=0.0)}


def _leader(cluster: Measured) -> str:
    found = status_of(cluster.bootstrap, cluster.tls).leader
    if found is None:
        raise Unavailable("no orderer leads")
    return found.place.name
