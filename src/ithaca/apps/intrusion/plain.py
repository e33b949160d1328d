"""The rule in plain Python: a reading is judged by the mean and the deviation of those before it in its group.

With n readings x₁ … xₙ before it, their sum s and the sum of their squares q, x is k deviations above the mean when
(n·x − s)² > k²·(n·q − s²) and n·x > s. So the rule needs no division and no root, and is exact in whole numbers.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ithaca.apps.intrusion.readings import Reading

WINDOW: Final = 50
"""A reading is judged by so many before it; the first ones of a group are not judged."""
DEVIATIONS: Final = 5


class Alert(NamedTuple):
    """A reading that stands out, where it is in the log, and what it was judged by."""

    position: int
    area: str
    sensor: int
    packets: int
    total: int
    squares: int


def is_far_above(packets: int, total: int, squares: int) -> bool:
    """Whether a reading is too many deviations above a full window with this sum and sum of squares.

    >>> is_far_above(100, 50 * 100, 50 * 100**2), is_far_above(101, 50 * 100, 50 * 100**2)
    (False, True)
    """
    above = WINDOW * packets - total
    return above > 0 and above * above > DEVIATIONS * DEVIATIONS * (WINDOW * squares - total * total)


def judge(window: Sequence[int], position: int, reading: Reading) -> Alert | None:
    """What there is to say of a reading behind these of its group."""
    if len(window) < WINDOW:
        return None
    total, squares = sum(window), sum(packets * packets for packets in window)
    if not is_far_above(reading.packets, total, squares):
        return None
    return Alert(position, reading.area, reading.sensor, reading.packets, total, squares)


def detect(readings: Iterable[tuple[int, Reading]]) -> list[Alert]:
    """The alerts of readings with their positions, in the order of the log."""
    windows: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=WINDOW))
    alerts = []
    for position, reading in readings:
        window = windows[reading.area]
        alert = judge(window, position, reading)
        if alert is not None:
            alerts.append(alert)
        window.append(reading.packets)
    return alerts
