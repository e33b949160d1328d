"""What came of an open-loop load over time: when each batch was due, when it was acknowledged, where it went.

Times are in seconds from the start of a turn. A batch that failed, or was never answered, has `nan` as its end. Latency
counts from when a batch was due, not from when it could be sent: whoever is held up is charged for it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BIN_S = 0.01
"""Completions are counted in bins of this length."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One turn of a load. Arrays have an item for each batch, in the order in which they were due."""

    seconds: float
    batch_records: int
    due_s: Floats
    done_s: Floats
    client: NDArray[np.int32]
    shard: NDArray[np.int32]
    """Where it was acknowledged; -1 if it was not."""

    def of_clients(self, clients: set[int], *, others: bool = False) -> "Timeline":
        """What these clients sent, or what all others did."""
        chosen = np.isin(self.client, sorted(clients), invert=others)
        return Timeline(
            self.seconds,
            self.batch_records,
            self.due_s[chosen],
            self.done_s[chosen],
            self.client[chosen],
            self.shard[chosen],
        )

    @property
    def _ends(self) -> Floats:
        """When batches were acknowledged within the turn, in order."""
        return np.sort(self.done_s[self.done_s <= self.seconds])

    @property
    def failed(self) -> int:
        """Batches that were never acknowledged, not even after the turn."""
        return int(np.isnan(self.done_s).sum())

    def completed(self, start_s: float = 0.0) -> int:
        """Records acknowledged from then on until the end of the turn."""
        ends = self._ends
        return int(len(ends) - np.searchsorted(ends, start_s)) * self.batch_records

    def bins(self) -> NDArray[np.int64]:
        """Records acknowledged in each bin of the turn."""
        count = max(1, round(self.seconds / BIN_S))
        edges = np.arange(count + 1) * BIN_S
        return np.histogram(self._ends, edges)[0] * self.batch_records

    def longest_gap(self, after_s: float = 0.0) -> tuple[float, float]:
        """(length, end) of the longest time without an acknowledgement, of those that end after `after_s`.

        The end of the turn ends the last one.
        """
        ends = np.append(self._ends, self.seconds)
        gaps = np.diff(ends, prepend=self.due_s[0] if len(self.due_s) else 0.0)
        later = ends > after_s
        if not later.any():
            return 0.0, self.seconds
        place = int(np.argmax(np.where(later, gaps, -1.0)))
        return float(gaps[place]), float(ends[place])

    def backlog(self, at_s: Floats) -> NDArray[np.int64]:
        """Batches that were due and not acknowledged, at each of these times."""
        due = np.searchsorted(self.due_s, at_s, side="right")
        return due - np.searchsorted(np.sort(self.done_s), at_s, side="right")

    def usual_backlog(self) -> float:
        """The backlog that is seldom exceeded; for a turn in which nothing happens."""
        return float(np.percentile(self.backlog(np.arange(0, self.seconds, BIN_S)), 99))

    def caught_up_s(self, after_s: float, backlog: float) -> float:
        """The first time after `after_s` at which no more than `backlog` is left; infinite if that is never."""
        times = np.sort(self.done_s[self.done_s >= after_s])
        reached = times[self.backlog(times) <= backlog]
        return float(reached[0]) if len(reached) else float("inf")

    def latency_ms(self) -> dict[str, float | None]:
        """Percentiles over the whole turn, of what was acknowledged at all."""
        took = (self.done_s - self.due_s)[~np.isnan(self.done_s)] * 1e3
        if not len(took):
            return {"p50": None, "p99": None, "max": None}
        p50, p99, largest = np.percentile(took, [50, 99, 100])
        return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "max": round(float(largest), 3)}

    def to_json(self) -> dict[str, Any]:
        length_s, end_s = self.longest_gap()
        return {
            "records": self.completed(),
            "failed_batches": self.failed,
            "longest_gap_ms": round(length_s * 1e3, 3),
            "longest_gap_end_s": round(end_s, 4),
            "latency_ms": self.latency_ms(),
        }
