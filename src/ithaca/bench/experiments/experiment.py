"""What the experiments on a running cluster share: its servers, its load, disturbed turns and undisturbed ones.

A third of what the cluster can take at most is sent to it, open loop. In each round one turn passes undisturbed and one
for each scenario; what is compared was measured within one round, and every second round runs backwards.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import ithaca
from ithaca.bench.experiments.load import Load, LoadPlan, loaded
from ithaca.bench.experiments.servers import Servers, experiment_servers
from ithaca.bench.experiments.timeline import BIN_S, Timeline
from ithaca.bench.measure import Progress
from ithaca.bench.place import surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.engines import registry
from ithaca.model.engine import DEFAULT_ENGINE, EngineName, Feature
from ithaca.model.errors import InvalidInput
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import MIB
from ithaca.model.records import Durability

UNDISTURBED = "undisturbed"
WARM_UP_S = 1.0
SETTLE_S = 0.3
"""Between turns: what was started or stopped comes to rest."""
CAPACITY_TURNS = 3


@dataclass(frozen=True, slots=True)
class ExperimentSettings:
    """`at_s` is when something happens in a turn; `batches_per_s` is measured unless it is given."""

    shards: int = 6
    replicas: int = 2
    orderers: int = 3
    record_bytes: int = 4096
    batch: int = 4
    window: int = 4
    seconds: float = 6.0
    at_s: float = 2.0
    rounds: int = 5
    share: float = 1 / 3
    batches_per_s: float | None = None
    durability: Durability = "fsync"
    segment_bytes: int = 64 * MIB
    engine: EngineName = DEFAULT_ENGINE

    def __post_init__(self) -> None:
        if not 0 < self.at_s < self.seconds:
            raise InvalidInput(f"something is to happen after {self.at_s:g} s of {self.seconds:g} s: choose one within")
        if not 0 < self.share <= 1:
            raise InvalidInput(f"the load is to be {self.share:g} of the capacity: use more than 0, and at most 1")
        if Feature.SHARDS not in registry.engine(self.engine).features:
            raise unsupported(Feature.SHARDS)

    @property
    def shape(self) -> Shape:
        return Shape(self.shards, self.replicas, self.orderers, self.durability, self.segment_bytes, engine=self.engine)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: what came of the load, and when things happened, in seconds from its start."""

    timeline: Timeline
    events: Mapping[str, float] = field(default_factory=dict)
    affected: frozenset[int] = frozenset()
    """The clients that it was done to."""


Disturb = Callable[[float], Mapping[str, float]]
"""Told when the turn starts, by the monotonic clock; returns when what happened, by the same."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A cluster under load."""

    servers: Servers
    load: Load
    settings: ExperimentSettings
    batches_per_s: float
    capacity_batches_per_s: float | None
    progress: Progress

    def undisturbed(self) -> Turn:
        return Turn(self.load.run(self.settings.seconds, self.batches_per_s))

    def disturbed(self, disturb: Disturb, affected: frozenset[int] = frozenset()) -> Turn:
        """A turn in which something happens."""
        events: dict[str, float] = {}

        def meanwhile(start_s: float) -> None:
            happened = disturb(start_s)
            events.update({name: at_s - start_s for name, at_s in happened.items()})

        timeline = self.load.run(self.settings.seconds, self.batches_per_s, meanwhile)
        return Turn(timeline, events, affected)

    def clients_of(self, shard: int) -> frozenset[int]:
        """Clients that were at home in this shard lately."""
        return frozenset(client for client, home in enumerate(self.load.homes) if home == shard)

    def settle(self) -> None:
        """Let go of what the turns before have appended, and let everything come to rest."""
        with ithaca.connect(self.servers.bootstrap) as log:
            log.trim(log.tail())
        time.sleep(SETTLE_S)


@contextmanager
def experiment(
    parent: Path, settings: ExperimentSettings, progress: Progress, shape: Shape | None = None
) -> Iterator[Experiment]:
    """A cluster under a load that is a share of what it can take; nothing of it is left afterwards.

    `shape`: that of the settings, unless it is given.
    """
    plan = LoadPlan(settings.shards, settings.record_bytes, settings.batch)
    with (
        workspace(parent) as directory,
        experiment_servers(directory / "cluster", shape or settings.shape, progress) as servers,
        loaded(servers.bootstrap, plan) as load,
    ):
        capacity, rate = None, settings.batches_per_s
        if rate is None:
            progress("measuring what the cluster can take")
            load.capacity(min(WARM_UP_S, settings.seconds), settings.window)
            seconds = min(2.0, settings.seconds)
            capacity = median(load.capacity(seconds, settings.window) for _ in range(CAPACITY_TURNS))
            rate = settings.share * capacity
        load.run(min(WARM_UP_S, settings.seconds), rate)
        yield Experiment(servers, load, settings, rate, capacity, progress)


Scenario = Callable[[Experiment], Turn]
Figures = Callable[[Turn, Turn], dict[str, float | None]]
"""What a disturbed turn says, beside the undisturbed one of its round."""


def run_rounds(
    lab: Experiment, scenarios: Mapping[str, Scenario], prepare: Callable[[Experiment], None]
) -> list[dict[str, Turn]]:
    """Every round has all scenarios and an undisturbed turn; `prepare` is called before each round."""
    rounds: list[dict[str, Turn]] = []
    every: dict[str, Scenario] = {UNDISTURBED: lambda lab: lab.undisturbed(), **scenarios}
    for number in range(lab.settings.rounds):
        prepare(lab)
        turns: dict[str, Turn] = {}
        for name in reversed(every) if number % 2 else every:
            lab.settle()
            lab.progress(f"round {number + 1} of {lab.settings.rounds}: {name}")
            turns[name] = every[name](lab)
        rounds.append({name: turns[name] for name in every})
    return rounds


def report_of(
    bench: str, lab: Experiment, rounds: list[dict[str, Turn]], figures: Mapping[str, Figures], directory: Path
) -> dict[str, Any]:
    """A JSON-ready report: medians over the rounds, then every round."""
    told = []
    for turns in rounds:
        quiet = turns[UNDISTURBED]
        told.append({name: _turn_report(turn, quiet, figures.get(name)) for name, turn in turns.items()})
    batch = lab.settings.batch
    capacity = lab.capacity_batches_per_s
    return {
        "bench": bench,
        "load_records_per_s": round(lab.batches_per_s * batch, 1),
        "capacity_records_per_s": None if capacity is None else round(capacity * batch, 1),
        "scenarios": {name: _medians([each[name] for each in told]) for name in rounds[0]},
        "rounds": told,
        "bin_s": BIN_S,
        "settings": asdict(lab.settings) | surroundings(directory),
    }


def _turn_report(turn: Turn, quiet: Turn, figures: Figures | None) -> dict[str, Any]:
    told: dict[str, Any] = turn.timeline.to_json()
    if turn is not quiet:
        told["records_ratio"] = round(turn.timeline.completed() / max(1, quiet.timeline.completed()), 4)
        told["extra_gap_ms"] = round((turn.timeline.longest_gap()[0] - quiet.timeline.longest_gap()[0]) * 1e3, 3)
    if figures is not None:
        told |= figures(turn, quiet)
    told["events_s"] = {name: round(at_s, 4) for name, at_s in turn.events.items()}
    told["bins"] = turn.timeline.bins().tolist()
    return told


def _medians(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every figure that each round has; failures are added up."""
    told: dict[str, Any] = {}
    for name, first in turns[0].items():
        if name == "latency_ms":
            told[name] = {each: _median([turn[name][each] for turn in turns]) for each in first}
        elif name == "failed_batches":
            told[name] = sum(turn[name] for turn in turns)
        elif name not in ("events_s", "bins", "longest_gap_end_s"):
            told[name] = _median([turn[name] for turn in turns])
    return told


def _median(figures: list[float | None]) -> float | None:
    """None when that is what half of them have, or more: then it did not come to it."""
    known = sorted(each for each in figures if each is not None)
    return (
        round(median(known + [float("inf")] * (len(figures) - len(known))), 4)
        if len(known) * 2 > len(figures)
        else None
    )


async def until(at_s: float) -> None:
    """Wait for a time of the monotonic clock."""
    await asyncio.sleep(max(0.0, at_s - time.monotonic()))


def milliseconds(seconds: float) -> float | None:
    """For a report; None for what never happened."""
    return None if seconds == float("inf") else round(seconds * 1e3, 3)
