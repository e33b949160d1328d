"""`ithaca bench emulate`: a real ordering layer under the reports of emulated shards (Scalog §6.3.2).

Orderers are real processes that order what emulators report, who pretend to be the replicas of very many shards; real
aggregators may stand between them.
What is measured is the ordering layer alone: cuts per second, the time from a report to the cut that covers it, and
the CPU that this takes. Records are lengths in reports, and nothing else; a rate of records that is printed for real
shards is arithmetic.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ithaca.bench.children import Child, start_child
from ithaca.bench.emulation.orderers import OrderingLayer, last_words, ordering_layer
from ithaca.bench.emulation.plan import Counted, Turn, Upwards
from ithaca.bench.emulation.process import DRAIN_TIMEOUT_S, emulate
from ithaca.bench.emulation.shards import REPLICAS, Durations
from ithaca.bench.measure import Progress
from ithaca.bench.memory import private_memory_bytes
from ithaca.bench.place import surroundings, workspace
from ithaca.bench.profiles import draw_profiles
from ithaca.bench.server_processes import cpu_s
from ithaca.cluster.temporary import terminations_raised
from ithaca.model.errors import Corrupt, DeadlineExceeded, InvalidInput, Unavailable
from ithaca.model.limits import CONNECTIONS_MAX, REPORT_INTERVAL_S
from ithaca.model.positions import FIRST
from ithaca.model.view import Address

SHARD_RECORDS_PER_S = 15_000
"""What one real shard of two servers takes in, in the paper."""
OTHER_CONNECTIONS = 16
"""Of the other orderers, of whoever registers shards and asks for the tail, of whoever opens lanes."""
LEAD_S = 0.2
"""From telling the emulators to their common start."""
WARM_UP_S = 0.5
PROFILE_S = 5.0
SETUP_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class EmulateSettings:
    """`records_per_s` is of one shard, and is multiplied by each of `scales` in turn."""

    shards: tuple[int, ...] = (6, 60, 600, 3500, 10_000)
    scales: tuple[int, ...] = (1,)
    records_per_s: float = SHARD_RECORDS_PER_S
    report_interval_s: float = 0.0
    repeat_interval_s: float = REPORT_INTERVAL_S
    order_interval_us: int = 0
    seconds: float = 2.0
    rounds: int = 3
    orderers: int = 3
    emulators: int = 1
    replicas_per_connection: int = 100
    aggregators: tuple[int, ...] = (0,)
    """How many, one run for each."""

    def __post_init__(self) -> None:
        shards = max(self.shards)
        connections = -(-REPLICAS * shards // self.replicas_per_connection) / max(1, min(self.aggregators))
        if connections > CONNECTIONS_MAX - OTHER_CONNECTIONS:
            raise InvalidInput(
                f"{shards} shards have {REPLICAS * shards} replicas, which need {connections:.0f} connections, and a "
                f"server takes {CONNECTIONS_MAX}: let more replicas share one (--replicas-per-connection), or put "
                "aggregators between (--aggregators)"
            )


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn, of all emulators together."""

    cuts_per_s: float
    records_per_s: float
    durations: Durations
    reports: int
    seconds: float
    leader_cpu: float
    follower_cpu: float
    aggregator_cpu: float
    """Of all of them."""
    emulator_cpu: float
    sent_bytes_per_s: float
    """By the leader or the aggregators, to replicas."""
    received_bytes_per_s: float


def run_emulate(
    parent: Path, settings: EmulateSettings, progress: Progress, profile: Path | None = None
) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report; `profile` is of the last number of shards."""
    rows: list[dict[str, Any]] = []
    profiles: dict[str, str] = {}
    with terminations_raised(), workspace(parent) as directory:
        setting = asdict(settings) | surroundings(directory)
        for shards, aggregators in itertools.product(settings.shards, settings.aggregators):
            with _noting_failure(rows, shards, aggregators), ExitStack() as stack:
                place = directory / f"shards-{shards}-aggregators-{aggregators}"
                layer = stack.enter_context(_layer(place, shards, aggregators, settings, progress))
                emulation = _start(stack, layer, shards, settings, progress)
                rows += emulation.rows(progress)
                if profile is not None and (shards, aggregators) == (settings.shards[-1], settings.aggregators[-1]):
                    profiles = emulation.draw(profile, progress)
    report = {"bench": "emulate", "rows": rows, "settings": setting}
    return report | ({"profiles": profiles} if profile is not None else {})


@contextmanager
def _noting_failure(rows: list[dict[str, Any]], shards: int, aggregators: int) -> Iterator[None]:
    """That so many shards are too much for the ordering layer is a result, too."""
    try:
        yield
    except (Unavailable, DeadlineExceeded) as error:
        rows.append({"shards": shards, "aggregators": aggregators, "failed": str(error)})


@contextmanager
def _layer(
    directory: Path, shards: int, aggregators: int, settings: EmulateSettings, progress: Progress
) -> Iterator[OrderingLayer]:
    progress(f"{shards} shards: starting {settings.orderers} orderers and {aggregators} aggregators")
    with ordering_layer(directory, settings.orderers, settings.order_interval_us, aggregators) as layer:
        try:
            yield layer
        except (Unavailable, DeadlineExceeded) as error:  # the logs go with the directory, so their end is told here
            raise Unavailable(f"{error}. The servers' last words: {last_words(layer)}") from error


def _start(
    stack: ExitStack, layer: OrderingLayer, shards: int, settings: EmulateSettings, progress: Progress
) -> "_Emulation":
    progress(f"{shards} shards: registering them")
    leader = asyncio.run(layer.register(shards))
    asyncio.run(layer.await_aggregators(leader))
    aggregators = {place.aggregator: place.address for place in layer.file.aggregators}
    upwards = Upwards(leader, aggregators, layer.file.engine)
    count = min(settings.emulators, shards)
    each = settings.replicas_per_connection
    emulators = [
        start_child(stack, f"emulator {number + 1}", emulate, upwards, range(number, shards, count), each)
        for number in range(count)
    ]
    progress(f"{shards} shards: opening {REPLICAS * shards} lanes")
    for child in emulators:
        assert child.answer(SETUP_TIMEOUT_S) == "opened"
    progress(f"{shards} shards: {REPLICAS * shards} replicas join")
    for child in emulators:
        child.ask("join")
    for child in emulators:
        assert child.answer(SETUP_TIMEOUT_S) == "joined"
    return _Emulation(layer, leader, shards, emulators, settings)


class _Emulation:
    """A number of shards that have joined an ordering layer."""

    def __init__(
        self, layer: OrderingLayer, leader: Address, shards: int, emulators: Sequence[Child], settings: EmulateSettings
    ) -> None:
        self._layer = layer
        self._leader = leader
        self._shards = shards
        self._emulators = emulators
        self._settings = settings
        self._records = self._tail = 0

    def rows(self, progress: Progress) -> list[dict[str, Any]]:
        """The medians of every scale, over rounds that alternate between scales."""
        settings = self._settings
        measured: dict[int, list[Measured]] = {scale: [] for scale in settings.scales}
        for number in range(settings.rounds):
            for scale in reversed(settings.scales) if number % 2 else settings.scales:
                progress(f"{self._shards} shards: round {number + 1} of {settings.rounds}, {scale} × the records")
                measured[scale].append(self.measure(scale, settings.seconds))
        memory = private_memory_bytes(self._layer.pid(self._leader))
        return [
            self._row(scale, each, measured[settings.scales[0]]) | {"leader_rss_anon_bytes": memory}
            for scale, each in measured.items()
        ]

    def measure(self, scale: int, seconds: float) -> Measured:
        """One turn; raises `Corrupt` unless everything that was reported is ordered, exactly once."""
        start_s = time.monotonic() + LEAD_S
        count_s = start_s + WARM_UP_S
        rate = scale * self._settings.records_per_s / REPLICAS
        settings = self._settings
        turn = Turn(rate, settings.report_interval_s, settings.repeat_interval_s, start_s, count_s, count_s + seconds)
        for child in self._emulators:
            child.ask(turn)
        time.sleep(max(0.0, turn.count_s - time.monotonic()))
        before = self._cpu()
        time.sleep(max(0.0, turn.stop_s - time.monotonic()))
        after = self._cpu()
        counted: list[Counted] = [child.answer(seconds + DRAIN_TIMEOUT_S) for child in self._emulators]
        self._check(counted)
        passed_s = after[0] - before[0]
        used = {address: (after[1][address] - before[1][address]) / passed_s for address in before[1]}
        leader_cpu = used.pop(self._leader)
        emulator_cpu, aggregator_cpu = (after[2] - before[2]) / passed_s, (after[3] - before[3]) / passed_s
        return _measured(counted, leader_cpu, sum(used.values()), aggregator_cpu, emulator_cpu)

    def draw(self, directory: Path, progress: Progress) -> dict[str, str]:
        """Flame graphs of the leader and of the emulators, in a turn that is not counted."""
        pids = {"leader": self._layer.pid(self._leader)} | {child.name: child.pid for child in self._emulators}
        scale = self._settings.scales[-1]
        return draw_profiles(directory, pids, PROFILE_S, lambda: self.measure(scale, PROFILE_S), progress)

    def _cpu(self) -> tuple[float, dict[Address, float], float, float]:
        """The time, and the CPU used so far by each orderer, by the emulators and by the aggregators."""
        emulators = sum(cpu_s(child.pid) for child in self._emulators)
        return time.monotonic(), self._layer.cpu_s(), emulators, self._layer.aggregators_cpu_s()

    def _check(self, counted: Sequence[Counted]) -> None:
        self._records = sum(each.records for each in counted)
        self._tail = asyncio.run(self._layer.tail())
        if self._tail != FIRST + self._records:
            raise Corrupt(f"{self._records} records were reported, and the order ends at {self._tail}")

    def _row(self, scale: int, rounds: Sequence[Measured], base: Sequence[Measured]) -> dict[str, Any]:
        durations = Durations()
        for each in rounds:
            durations.join(each.durations)
        if not durations.total:
            raise Unavailable(f"no report was covered within {self._settings.seconds:g} s: measure longer")
        replicas = REPLICAS * self._shards

        def middle(of: str) -> float:
            return round(float(median(getattr(each, of) for each in rounds)), 3)

        ratios = [ours.leader_cpu / its.leader_cpu for ours, its in zip(rounds, base, strict=True) if its.leader_cpu]
        return {
            "shards": self._shards,
            "aggregators": len(self._layer.aggregators),
            "scale": scale,
            "cuts_per_s": middle("cuts_per_s"),
            "leader_connections": len(self._layer.aggregators)
            or -(-replicas // self._settings.replicas_per_connection),
            "latency_ms": {f"p{percent}": round(durations.percentile_ms(percent), 3) for percent in (50, 99)},
            "reports_per_s": round(median(each.reports / each.seconds for each in rounds), 1),
            "report_interval_ms": round(
                median(1e3 * each.seconds * replicas / max(1, each.reports) for each in rounds), 3
            ),
            "leader_cpu": middle("leader_cpu"),
            "leader_cpu_us_per_report": round(
                median(1e6 * each.leader_cpu * each.seconds / max(1, each.reports) for each in rounds), 2
            ),
            "follower_cpu": round(middle("follower_cpu") / max(1, self._layer.orderers - 1), 3),
            "aggregator_cpu": middle("aggregator_cpu"),
            "emulator_cpu": middle("emulator_cpu"),
            "sent_bytes_per_s": middle("sent_bytes_per_s"),
            "received_bytes_per_s": middle("received_bytes_per_s"),
            "ordered_records_per_s": middle("records_per_s"),
            "leader_cpu_to_first_scale": round(median(ratios), 3) if ratios else None,
            "records_ordered": self._records,
            "tail": self._tail,
            "arithmetic": {
                "shards": self._shards,
                "shard_records_per_s": SHARD_RECORDS_PER_S,
                "records_per_s": self._shards * SHARD_RECORDS_PER_S,
            },
        }


def _measured(
    counted: Sequence[Counted], leader_cpu: float, follower_cpu: float, aggregator_cpu: float, emulator_cpu: float
) -> Measured:
    """Put together what the emulators counted; every one of them hears of every cut."""
    durations = Durations()
    for each in counted:
        durations.join(Durations(each.durations))
    first, last = counted[0].first, counted[0].last
    seconds = last.at_s - first.at_s
    return Measured(
        cuts_per_s=(last.cut - first.cut) / seconds,
        records_per_s=(last.tail - first.tail) / seconds,
        durations=durations,
        reports=sum(each.reports for each in counted),
        seconds=seconds,
        leader_cpu=leader_cpu,
        follower_cpu=follower_cpu,
        aggregator_cpu=aggregator_cpu,
        emulator_cpu=emulator_cpu,
        sent_bytes_per_s=sum(each.last.received_bytes - each.first.received_bytes for each in counted) / seconds,
        received_bytes_per_s=sum(each.last.sent_bytes - each.first.sent_bytes for each in counted) / seconds,
    )
