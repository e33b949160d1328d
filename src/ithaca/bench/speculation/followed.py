"""What a task has seen of the records of one turn, and what follows from it.

```
 due        delivered       picked         computed         final
  │ delivery    │     queue    │    compute    │     wait     │       seconds of the monotonic clock
  ├─────────────┴──────────────┴───────────────┴──────────────┤
  └ end to end ───────────────────────────────────────────────┘
```

A result may be shown to somebody from `final` on: it is computed, and the record's place is final.
"""

from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BIN_S = 0.05
"""Latencies over time are medians of so many seconds."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A speculation that failed: when that was told, how many records were undone, and how long that took."""

    told_s: float
    after: int
    records: int
    undo_s: float


@dataclass(frozen=True, slots=True)
class Followed:
    """Arrays have an item for each record whose place became final, in the order of the log."""

    due_s: Floats
    delivered_s: Floats
    picked_s: Floats
    computed_s: Floats
    final_s: Floats
    rolled_back: tuple[RolledBack, ...] = ()

    def latencies(self) -> dict[str, Any]:
        """Milliseconds: delivery and end to end by percentile, and the parts of the latter by their means."""
        parts = {
            "delivery": self.delivered_s - self.due_s,
            "queue": self.picked_s - self.delivered_s,
            "compute": self.computed_s - self.picked_s,
            "wait": self.final_s - self.computed_s,
        }
        return {
            "records": len(self.due_s),
            "delivery_ms": percentiles(parts["delivery"]),
            "end_to_end_ms": percentiles(self.final_s - self.due_s),
            "parts_ms": {name: rounded(each.mean()) for name, each in parts.items()},
            "failed": len(self.rolled_back),
        }

    def over_time(self, start_s: float, seconds: float) -> dict[str, list[float | None]]:
        """Medians by when records were due, in bins; None where none was."""
        bins = ((self.due_s - start_s) / BIN_S).astype(np.int64)
        count = max(1, round(seconds / BIN_S))
        told = {}
        for name, latency in (("delivery", self.delivered_s - self.due_s), ("end_to_end", self.final_s - self.due_s)):
            chosen = [latency[bins == number] for number in range(count)]
            told[name] = [rounded(float(np.median(each))) if len(each) else None for each in chosen]
        return told


def percentiles(seconds: Floats) -> dict[str, float]:
    """Milliseconds.

    >>> percentiles(np.array([0.001, 0.002, 0.003]))
    {'mean': 2.0, 'p50': 2.0, 'p99': 2.98}
    """
    p50, p99 = np.percentile(seconds, [50, 99])
    return {"mean": rounded(seconds.mean()), "p50": rounded(p50), "p99": rounded(p99)}


def rounded(seconds: float) -> float:
    """Milliseconds, for a report."""
    return round(float(seconds) * 1e3, 3)


def medians(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every figure over the rounds, however deep it stands; lists are those of the first round.

    >>> medians([{"a": 1, "b": {"c": 2.0}}, {"a": 3, "b": {"c": 4.0}}])
    {'a': 2.0, 'b': {'c': 3.0}}
    """
    told: dict[str, Any] = {}
    for name, first in reports[0].items():
        every = [each[name] for each in reports]
        if isinstance(first, dict):
            told[name] = medians(every)
        elif isinstance(first, list):
            told[name] = first
        else:
            known = [each for each in every if each is not None]
            told[name] = round(median(known), 4) if known else None
    return told


def ratio(reports: list[dict[str, Any]], others: list[dict[str, Any]], *path: str) -> dict[str, Any]:
    """One figure beside the other's of the same round, and the median of that.

    >>> ratio([{"a": {"b": 2.0}}], [{"a": {"b": 4.0}}], "a", "b")
    {'median': 0.5, 'rounds': [0.5]}
    """
    shares = []
    for one, other in zip(reports, others, strict=True):
        ours, theirs = one, other
        for name in path:
            ours, theirs = ours[name], theirs[name]
        shares.append(round(ours / theirs, 3))  # type: ignore[operator]
    return {"median": round(median(shares), 3), "rounds": shares}
