"""Is it quicker, slower, or is that noise? Ratios of rounds, the interval that their median lies in, and a word."""

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import Any, Literal

CONFIDENCE = 0.9
MATTERS = 0.03
"""Smaller differences are not told, however sure they are."""

Word = Literal["better", "worse", "same", "unclear"]


def interval_of(values: Sequence[float]) -> tuple[float, float] | None:
    """Where the median of what these are a sample of lies, with a confidence of 0.9; None when they are too few.

    By ranks alone, whatever the distribution: of five rounds the smallest and the largest, of more an inner pair.

    >>> interval_of([1.0, 0.9, 1.2, 1.1, 5.0])
    (0.9, 5.0)
    >>> interval_of([0.9, 1.1]) is None
    True
    """
    ordered = sorted(values)
    count = len(ordered)
    found = None
    below = 0.0
    for rank in range((count + 1) // 2):
        below += comb(count, rank) / 2**count
        if 1 - 2 * below < CONFIDENCE:
            break
        found = (ordered[rank], ordered[count - 1 - rank])
    return found


def judge(ratios: Sequence[float], *, less_is_better: bool) -> dict[str, Any]:
    """This tree's figure as a share of the other's, round by round.

    *same*: the median lies within 3 % of one for sure. *unclear*: more rounds would say.

    >>> judge([0.80, 0.78, 0.82, 0.79, 0.81], less_is_better=True)["verdict"]
    'better'
    >>> judge([0.80, 1.30, 0.82, 0.79, 0.81], less_is_better=True)["verdict"]
    'unclear'
    """
    interval = interval_of(ratios)
    middle = median(ratios)
    return {
        "ratio": round(middle, 4),
        "interval": None if interval is None else [round(end, 4) for end in interval],
        "verdict": _word(middle, interval, less_is_better),
        "rounds": [round(ratio, 4) for ratio in ratios],
    }


def _word(middle: float, interval: tuple[float, float] | None, less_is_better: bool) -> Word:
    if interval is None:
        return "unclear"
    low, high = interval
    if low >= 1 - MATTERS and high <= 1 + MATTERS:
        return "same"
    if high < 1 and middle <= 1 - MATTERS:
        return "better" if less_is_better else "worse"
    if low > 1 and middle >= 1 + MATTERS:
        return "worse" if less_is_better else "better"
    return "unclear"
