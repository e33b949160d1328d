"""Latencies as counts in bins whose width grows with the latency, so that one file keeps a round whatever it measured.

Bin `n` has the latencies from 10**(n / 40) seconds up to 10**((n + 1) / 40), 6% more.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

BINS_PER_DECADE: Final = 40
SHORTEST_S: Final = 1e-9

Histogram = Sequence[tuple[int, int]]
"""Bins that have something, in their order, with how many latencies they have."""


def histogram_of(seconds: "np.ndarray[Any, np.dtype[np.float64]]") -> list[tuple[int, int]]:
    """
    >>> histogram_of(np.array([0.001, 0.00101, 0.01]))
    [(-120, 2), (-80, 1)]
    """
    numbers = np.floor(np.log10(np.maximum(seconds, SHORTEST_S)) * BINS_PER_DECADE + 1e-9).astype(np.int64)
    found, counts = np.unique(numbers, return_counts=True)
    return [(int(number), int(count)) for number, count in zip(found, counts, strict=True)]


def added(histograms: Iterable[Histogram]) -> list[tuple[int, int]]:
    """All rounds together.

    >>> added([[(1, 2)], [(0, 1), (1, 3)]])
    [(0, 1), (1, 5)]
    """
    total: Counter[int] = Counter()
    for each in histograms:
        for number, count in each:
            total[number] += count
    return sorted(total.items())


def middle_ms(number: int) -> float:
    """The middle of a bin.

    >>> round(middle_ms(-120), 2)
    1.03
    """
    return float(10 ** ((number + 0.5) / BINS_PER_DECADE) * 1e3)


def slower_shares(histogram: Histogram) -> list[tuple[float, float]]:
    """The share of all that is slower than each bin, with the bin's milliseconds; the last one has half of its slowest.

    >>> [round(share, 3) for share, _ in slower_shares([(0, 8), (1, 2)])]
    [0.2, 0.05]
    """
    total = sum(count for _, count in histogram)
    left, points = total, []
    for number, count in histogram:
        left -= count
        points.append((max(left, 0.5) / total, middle_ms(number)))
    return points


def percentile_ms(histogram: Histogram, share: float) -> float | None:
    """Milliseconds within which this share was done, to the width of a bin; None where too few were to tell.

    >>> percentile_ms([(-120, 999), (-80, 1)], 0.999), percentile_ms([(-120, 10)], 0.999)
    (1.0292, None)
    """
    total = sum(count for _, count in histogram)
    if total * (1 - share) < 1 - 1e-9:
        return None
    reached = 0
    for number, count in histogram:
        reached += count
        if reached >= total * share - 1e-9:
            return round(middle_ms(number), 4)
    raise AssertionError("the last bin reaches everything")
