"""Two clusters of the same shape, one of each engine, with the same load and the same task, measured in turns.

The one that is not measured stands idle, and is silent. What is compared was measured within one round.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import ithaca
from ithaca.bench.experiments.load import STAMP, Events, Load, LoadPlan, loaded
from ithaca.bench.experiments.schedule import Schedule, in_phases
from ithaca.bench.experiments.servers import Command, Servers, experiment_servers
from ithaca.bench.experiments.timeline import Timeline
from ithaca.bench.measure import Progress, interleave
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.speculation.followed import Followed, medians, percentiles, ratio
from ithaca.bench.speculation.task import Begin, OpenApplication, Task, start_task
from ithaca.cluster.temporary import Shape
from ithaca.model.config.failures import NO_ACTION, FailurePolicy
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import MIB, ORDERING_INTERVAL_US_MAX

SPECULATIVE: Final[EngineName] = "belfast"
ENGINES: Final[tuple[EngineName, ...]] = (SPECULATIVE, DEFAULT_ENGINE)
WARM_UP_S = 0.5


@dataclass(frozen=True, slots=True)
class LabSettings:
    """`records_per_s` is of each shard; `at_s` is when something happens in a turn, where something does.

    `order_interval_us` is the least time between two cuts, of both clusters: 0 is self-clocked, a cut whenever there is
    something to order, where the papers' systems have a clock.
    """

    shards: int = 2
    replicas: int = 2
    orderers: int = 3
    record_bytes: int = 4096
    batch: int = 1
    records_per_s: float = 200.0
    compute_ms: float = 1.5
    seconds: float = 3.0
    at_s: float = 1.0
    rounds: int = 3
    order_interval_us: int = 0

    def __post_init__(self) -> None:
        if self.record_bytes < STAMP.size:
            raise InvalidInput(f"records of {self.record_bytes} bytes cannot hold their time: use {STAMP.size} or more")
        if not 0 < self.at_s < self.seconds:
            raise InvalidInput(f"something is to happen after {self.at_s:g} s of {self.seconds:g} s: choose one within")
        if not 0 <= self.order_interval_us <= ORDERING_INTERVAL_US_MAX:
            raise InvalidInput(
                f"{self.order_interval_us} µs between cuts: "
                f"use 0 (self-clocked) to {ORDERING_INTERVAL_US_MAX / 1e6:g} s"
            )

    @property
    def batches_per_s(self) -> float:
        """Of each shard."""
        return self.records_per_s / self.batch

    def steady(self, seconds: float | None = None) -> Schedule:
        """The load, all clients alike."""
        return in_phases(seconds or self.seconds, [[(0.0, self.batches_per_s)]] * self.shards)

    def shape(self, engine: EngineName, failures: FailurePolicy = NO_ACTION, masking: bool = False) -> Shape:
        return Shape(
            self.shards,
            self.replicas,
            self.orderers,
            segment_bytes=64 * MIB,
            masking=masking,
            failures=failures,
            engine=engine,
            order_interval_us=self.order_interval_us,
        )


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one contender; `events` are seconds from its start."""

    start_s: float
    timeline: Timeline
    followed: Followed | None
    events: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        done = ~_is_nan(self.timeline.done_s)
        told: dict[str, Any] = {
            "records_per_s": round(self.timeline.completed() / self.timeline.seconds, 1),
            "append_ms": percentiles((self.timeline.done_s - self.timeline.due_s)[done]),
            "failed_batches": self.timeline.failed,
        }
        return told if self.followed is None else told | self.followed.latencies()


def _is_nan(values: Any) -> Any:
    return values != values


Meanwhile = Callable[[float], Mapping[str, float]]
"""Told when the turn starts, by the monotonic clock; returns when what happened, by the same."""


@dataclass(slots=True)
class Contender:
    """One cluster with its load and its task."""

    engine: EngineName
    servers: Servers
    load: Load
    task: Task
    application: OpenApplication | None
    directory: Path
    """For what the task keeps."""
    turns: int = 0

    def turn(
        self,
        schedule: Schedule,
        compute_ms: float | None,
        meanwhile: Meanwhile = lambda start_s: {},
    ) -> Turn:
        """Run the load, and follow it unless there is nothing to compute."""
        times: dict[str, float] = {}

        def note(start_s: float) -> None:
            times["start"] = start_s
            times.update(meanwhile(start_s))

        if compute_ms is not None:
            self.turns += 1
            database = self.directory / f"{self.engine}-{self.turns}.sqlite"
            self.task.begin(Begin(self.engine == SPECULATIVE, compute_ms / 1e3, self.application, database))
        timeline = self.load.follow(schedule, note)
        acknowledged = (len(timeline.done_s) - timeline.failed) * timeline.batch_records
        followed = None if compute_ms is None else self.task.end(acknowledged)
        start_s = times.pop("start")
        return Turn(start_s, timeline, followed, {name: at_s - start_s for name, at_s in times.items()})

    def settle(self) -> None:
        """Let go of what the turns before have appended."""
        with ithaca.connect(self.servers.bootstrap) as log:
            log.trim(log.tail())


@contextmanager
def side_by_side(
    parent: Path,
    settings: LabSettings,
    progress: Progress,
    *,
    clients: int | None = None,
    shapes: Mapping[EngineName, Shape] | None = None,
    events: Events | None = None,
    application: OpenApplication | None = None,
    commands: Mapping[EngineName, Command] | None = None,
) -> Iterator[list[Contender]]:
    """A cluster of each engine that is warm; nothing of them is left afterwards."""
    plan = LoadPlan(clients or settings.shards, settings.record_bytes, settings.batch, stamped=True, events=events)
    with workspace(parent) as directory, ExitStack() as stack:
        contenders = []
        for engine in ENGINES:
            shape = settings.shape(engine) if shapes is None else shapes[engine]
            command = (commands or {}).get(engine)
            servers = stack.enter_context(experiment_servers(directory / engine, shape, progress, command))
            load = stack.enter_context(loaded(servers.bootstrap, plan))
            task = start_task(stack, servers.bootstrap)
            contenders.append(Contender(engine, servers, load, task, application, directory))
        for contender in contenders:
            progress(f"warming up: {contender.engine}")
            contender.turn(settings.steady(min(WARM_UP_S, settings.seconds)), 0.0)
        yield contenders


def in_turns(
    contenders: Sequence[Contender], settings: LabSettings, progress: Progress, measure: Callable[[Contender], Turn]
) -> dict[str, list[Turn]]:
    """A turn of each in every round."""

    def turn(contender: Contender) -> Turn:
        contender.settle()
        return measure(contender)

    every = {each.engine: (lambda each=each: turn(each)) for each in contenders}
    return interleave(every, settings.rounds, progress)


RATIOS: Final[Mapping[str, tuple[str, ...]]] = {
    "delivery": ("delivery_ms", "mean"),
    "delivery_p50": ("delivery_ms", "p50"),
    "end_to_end": ("end_to_end_ms", "mean"),
    "end_to_end_p99": ("end_to_end_ms", "p99"),
    "append": ("append_ms", "mean"),
    "append_p50": ("append_ms", "p50"),
}
"""How often scalog's time is belfast's; of appends the other way round: what they cost more."""


def compared(turns: Mapping[str, Sequence[Turn]]) -> dict[str, Any]:
    """Medians of each engine, and the ratios within the rounds."""
    told = {engine: [turn.to_json() for turn in of_one] for engine, of_one in turns.items()}
    ours, theirs = told[SPECULATIVE], told[DEFAULT_ENGINE]
    return {
        "engines": {engine: medians(reports) | {"rounds": reports} for engine, reports in told.items()},
        "ratios": {
            name: ratio(ours, theirs, *path) if name.startswith("append") else ratio(theirs, ours, *path)
            for name, path in RATIOS.items()
            if path[0] in ours[0]
        },
    }


def report_of(bench: str, settings: LabSettings, parent: Path, **told: Any) -> dict[str, Any]:
    """A JSON-ready report."""
    return {"bench": f"speculation {bench}", **told, "settings": asdict(settings) | surroundings_of(parent)}


def surroundings_of(parent: Path) -> dict[str, str | int]:
    """Of the nearest directory that is there: that of the measurement is gone."""
    while not parent.exists():
        parent = parent.absolute().parent
    return surroundings(parent)
