"""`ithaca bench raft beside`: three servers of raft beside scalog with one shard, two replicas and three orderers.

Both sync on a majority before they acknowledge, and are measured in turns: lone appends, and batches in flight.
"""

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ithaca.bench.cluster.producers import Plan, producers
from ithaca.bench.measure import Progress, interleave, ratios, summarize
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape, temporary_cluster

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
    lone = Plan(settings.record_bytes, 1, 1)
    batches = Plan(settings.record_bytes, settings.batch, settings.window)
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        clusters = {
            name: stack.enter_context(temporary_cluster(directory / name, shape, progress))
            for name, shape in SHAPES.items()
        }
        found: dict[str, Any] = {}
        for kind, plan in {"lone": lone, "batches": batches}.items():
            with ExitStack() as teams:
                contenders = {}
                for name, cluster in clusters.items():
                    team = teams.enter_context(producers(cluster.bootstrap, [None], plan))
                    team.measure(min(0.5, settings.seconds))
                    contenders[name] = lambda team=team: team.measure(settings.seconds)
                samples = interleave(contenders, settings.rounds, progress)
            found[kind] = {name: summarize(of_one) for name, of_one in samples.items()}
            found[kind]["ratios"] = ratios(samples["raft"], samples["scalog"])
    return {"bench": "raft beside", **found, "settings": setting}
