"""`ithaca bench raft beside`: three servers of raft beside scalog with one shard, two replicas and three orderers.

Both sync on a majority before they acknowledge, and are measured in turns: lone appends, and batches in flight.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ithaca.bench.cluster.contest import Load, contest, running_clusters
from ithaca.bench.cluster.producers import Plan
from ithaca.bench.measure import Progress
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape

SHAPES = {"raft": Shape(1, 1, 3, engine="raft"), "scalog": Shape(1, 2, 3)}


@dataclass(frozen=True, slots=True)
class BesideSettings:
    record_bytes: int = 4096
    batch: int = 64
    window: int = 4
    seconds: float = 2.0
    rounds: int = 5


def run_beside(parent: Path, settings: BesideSettings, progress: Progress) -> dict[str, Any]:
    """Rates and latencies of both, and the ratios within each round."""
    plans = {
        "lone": Plan(settings.record_bytes, 1, 1),
        "batches": Plan(settings.record_bytes, settings.batch, settings.window),
    }
    with workspace(parent) as directory, running_clusters(directory, SHAPES, progress) as clusters:
        setting = asdict(settings) | surroundings(directory)
        found = {
            kind: contest(clusters, Load(plan, settings.seconds, settings.rounds), progress)
            for kind, plan in plans.items()
        }
    return {"bench": "raft beside", **found, "settings": setting}
