"""When an open-loop load sends what: each batch has its time and its client."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Phases = Sequence[tuple[float, float]]
"""Of one client: from when on, in seconds, it sends how many batches a second."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Batches in the order in which they are due, in seconds from the start of a turn."""

    seconds: float
    due_s: NDArray[np.float64]
    client: NDArray[np.int32]


def evenly(seconds: float, batches_per_s: float, clients: int) -> Schedule:
    """So many batches a second of all clients together, one client after the other.

    >>> schedule = evenly(1.0, 4.0, 2)
    >>> schedule.due_s.tolist(), schedule.client.tolist()
    ([0.0, 0.25, 0.5, 0.75], [0, 1, 0, 1])
    """
    numbers = np.arange(max(1, int(seconds * batches_per_s)))
    return Schedule(seconds, numbers / batches_per_s, (numbers % clients).astype(np.int32))


def in_phases(seconds: float, clients: Sequence[Phases]) -> Schedule:
    """Each client at rates of its own, which change at times of its own.

    >>> schedule = in_phases(1.0, [[(0.0, 2.0)], [(0.0, 2.0), (0.5, 4.0)]])
    >>> schedule.due_s.tolist(), schedule.client.tolist()
    ([0.0, 0.25, 0.5, 0.625, 0.875], [0, 1, 0, 1, 1])
    """
    due: list[NDArray[np.float64]] = []
    for client, phases in enumerate(clients):
        ends = [start for start, _ in phases[1:]] + [seconds]
        pieces = [
            np.arange(start + client / len(clients) / rate, end, 1 / rate)
            for (start, rate), end in zip(phases, ends, strict=True)
            if rate > 0
        ]
        due.append(np.concatenate([np.empty(0), *pieces]))
    times = np.concatenate(due)
    whose = np.concatenate([np.full(len(each), client, np.int32) for client, each in enumerate(due)])
    order = np.argsort(times, kind="stable")
    return Schedule(seconds, times[order], whose[order])
