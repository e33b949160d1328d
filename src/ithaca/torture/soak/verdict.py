"""Whether anything has grown: the last rounds against the first."""

import statistics
from collections.abc import Callable, Sequence

import msgspec

GROWTH_MAX = 0.20
WARM_UP_SHARE = 0.1
"""Of the rounds: caches fill and retention begins to work; they are drawn and not compared."""
COMPARED_SHARE = 0.2
"""Of the rounds, at the beginning and at the end."""


class Round(msgspec.Struct, frozen=True):
    """How the cluster was after a round; `fresh_` is a cluster that was just made, at the same time."""

    number: int
    at_s: float
    memory_bytes: int
    descriptors: int
    start_ms: float
    append_ms: float
    read_ms: float
    fresh_start_ms: float
    fresh_append_ms: float
    fresh_read_ms: float
    first: int
    tail: int


class Figure(msgspec.Struct, frozen=True):
    """One figure at the beginning and at the end; times are compared as multiples of a fresh cluster's."""

    name: str
    unit: str
    first: float
    last: float

    @property
    def growth(self) -> float:
        return self.last / self.first - 1

    @property
    def has_grown(self) -> bool:
        return self.growth > GROWTH_MAX


def figures(rounds: Sequence[Round]) -> list[Figure]:
    """Of at least one round; of few rounds, the first and the last alone are compared."""
    warm = int(len(rounds) * WARM_UP_SHARE)
    compared = max(1, int(len(rounds) * COMPARED_SHARE))
    early, late = rounds[warm : warm + compared], rounds[-compared:]

    def figure(name: str, unit: str, value: Callable[[Round], float]) -> Figure:
        return Figure(name, unit, statistics.median(map(value, early)), statistics.median(map(value, late)))

    return [
        figure("memory", "MiB", lambda each: each.memory_bytes / (1 << 20)),
        figure("descriptors", "", lambda each: each.descriptors),
        figure("start of a replica", "x fresh", lambda each: each.start_ms / each.fresh_start_ms),
        figure("append", "x fresh", lambda each: each.append_ms / each.fresh_append_ms),
        figure("read", "x fresh", lambda each: each.read_ms / each.fresh_read_ms),
    ]
