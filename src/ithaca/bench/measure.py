"""Samples, percentiles, medians over interleaved rounds, and the tables that show them."""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol, TypeVar

import numpy as np
from rich.table import Table

Result = TypeVar("Result", covariant=True)
Measured = TypeVar("Measured")
Progress = Callable[[str], object]
"""Told what is being measured, before each measurement."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: "Sequence[float] | np.ndarray[Any, np.dtype[np.float64]]") -> "Latency":
        """The percentiles of durations in seconds; there must be at least one.

        >>> Latency.of([0.001, 0.002, 0.003]).p50
        2.0
        """
        p50, p99, largest = np.percentile(np.asarray(seconds) * 1e3, [50, 99, 100])
        return cls(float(p50), float(p99), float(largest))

    def to_json(self) -> dict[str, float]:
        return {"p50": round(self.p50, 4), "p99": round(self.p99, 4), "max": round(self.max, 4)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement of one contender."""

    records: int
    bytes: int
    seconds: float
    latency: Latency

    @property
    def records_per_s(self) -> float:
        return self.records / self.seconds

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "records_per_s": round(self.records_per_s, 1),
            "bytes_per_s": round(self.bytes_per_s, 1),
            "latency_ms": self.latency.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a measurement goes on: until the first of its bounds is reached."""

    seconds: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        assert self.seconds is not None or self.bytes is not None, "a measurement needs an end"

    def spent(self, elapsed_s: float, done_bytes: int) -> bool:
        return (self.seconds is not None and elapsed_s >= self.seconds) or (
            self.bytes is not None and done_bytes >= self.bytes
        )


def repeat(work: Callable[[int], None], records: int, record_bytes: int, budget: Budget) -> Sample:
    """Call `work(turn)`, which handles `records` records each time, until the budget is spent."""
    durations: list[float] = []
    turn_bytes = records * record_bytes
    started = now = time.perf_counter()
    while not durations or not budget.spent(now - started, len(durations) * turn_bytes):
        work(len(durations))
        then, now = now, time.perf_counter()
        durations.append(now - then)
    turns = len(durations)
    return Sample(turns * records, turns * turn_bytes, now - started, Latency.of(durations))


class UnderWay(Protocol[Result]):
    """What was begun and is waited for later: an append, a command."""

    def result(self) -> Result: ...


def repeat_ahead(
    window: int,
    begin: Callable[[int], UnderWay[Result]],
    finished: Callable[[Result], object],
    records: int,
    record_bytes: int,
    budget: Budget,
) -> Sample:
    """`begin(turn)` until the budget is spent, waiting for the oldest only while `window` are under way."""
    durations: list[float] = []
    under_way: deque[tuple[float, UnderWay[Result]]] = deque()
    turn_bytes = records * record_bytes
    turns = 0
    started = now = time.perf_counter()
    while True:
        is_spent = turns > 0 and budget.spent(now - started, turns * turn_bytes)
        if not is_spent and len(under_way) < window:
            under_way.append((now, begin(turns)))
            turns += 1
        elif under_way:
            began, pending = under_way.popleft()
            finished(pending.result())
            durations.append(time.perf_counter() - began)
        else:
            break
        now = time.perf_counter()
    return Sample(turns * records, turns * turn_bytes, now - started, Latency.of(durations))


def in_threads(count: int, measure: Callable[[], Sample]) -> Sample:
    """What so many threads measure at once; the records of all, and the latency of the median thread."""
    if count == 1:
        return measure()
    samples: list[Sample] = []
    threads = [threading.Thread(target=lambda: samples.append(measure())) for _ in range(count)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    if len(samples) < count:
        raise RuntimeError("a thread failed; its traceback is above")
    latency = sorted((sample.latency for sample in samples), key=lambda each: each.p50)[count // 2]
    return Sample(sum(sample.records for sample in samples), sum(sample.bytes for sample in samples), seconds, latency)


def interleave(
    contenders: Mapping[str, Callable[[], Measured]], rounds: int, progress: Progress
) -> dict[str, list[Measured]]:
    """Measure every contender once per round; every second round runs backwards, so that none is favoured."""
    names = list(contenders)
    samples: dict[str, list[Measured]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in reversed(names) if turn % 2 else names:
            progress(f"round {turn + 1} of {rounds}: {name}")
            os.sync()  # files that the last one removed are discarded now, and not at this one's expense
            samples[name].append(contenders[name]())
    return samples


def summarize(samples: Sequence[Sample]) -> dict[str, Any]:
    """Medians over the rounds; `latency_ms.max` is the largest of all."""
    return {
        "records_per_s": round(median(sample.records_per_s for sample in samples), 1),
        "bytes_per_s": round(median(sample.bytes_per_s for sample in samples), 1),
        "latency_ms": {
            "p50": round(median(sample.latency.p50 for sample in samples), 4),
            "p99": round(median(sample.latency.p99 for sample in samples), 4),
            "max": round(max(sample.latency.max for sample in samples), 4),
        },
        "rounds": [sample.to_json() for sample in samples],
    }


def ratios(log: Sequence[Sample], ceiling: Sequence[Sample], *, with_latency: bool = True) -> dict[str, Any]:
    """The log's share of the ceiling's rate, and its p50 latency as a multiple of the ceiling's.

    Each ratio is formed within a round, where both met the same disk; then the median.
    """
    pairs = list(zip(log, ceiling, strict=True))
    rounds = {"rate": [round(ours.bytes_per_s / bare.bytes_per_s, 4) for ours, bare in pairs]}
    if with_latency:
        rounds["latency_p50"] = [round(ours.latency.p50 / bare.latency.p50, 4) for ours, bare in pairs]
    return {which: round(median(each), 4) for which, each in rounds.items()} | {"rounds": rounds}


def rate_table(title: str, contenders: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per contender; the columns of ratios are there if any contender has some."""
    table = Table(title=title, title_justify="left")
    table.add_column("medians over the rounds")
    headings = {"rate": "rate / ceiling", "latency_p50": "p50 / ceiling"}
    shown = [ratio for ratio in headings if any(ratio in each.get("ratios", {}) for each in contenders.values())]
    for heading in ["records/s", "MB/s", "p50 ms", "p99 ms", "max ms", *(headings[ratio] for ratio in shown)]:
        table.add_column(heading, justify="right")
    for name, figures in contenders.items():
        latency, share = figures["latency_ms"], figures.get("ratios", {})
        table.add_row(
            name,
            f"{figures['records_per_s']:,.0f}",
            f"{figures['bytes_per_s'] / 1e6:,.1f}",
            *(f"{latency[which]:.3f}" for which in ("p50", "p99", "max")),
            *(f"{share[ratio]:.2f}" if ratio in share else "" for ratio in shown),
        )
    return table
