"""The regression in plain Python, of the second stock's price y on the first one's x, over the last points of a pair.

A point is made at each tick of either stock, of the last prices of both. With the sums over n points before it,
`D = n·Σx² − (Σx)²`, `N = n·Σxy − Σx·Σy` and `V = n·Σy² − (Σy)²`, the slope is N/D, and the residual of a point, times
n·D, is `R = (n·y − Σy)·D − N·(n·x − Σx)`. It is k deviations away when R² > k²·D·(V·D − N²): exact in whole numbers.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ithaca.apps.trading.ticks import PAIRS, Tick

WINDOW: Final = 100
"""A point is judged by so many before it; the first ones are not judged."""
DEVIATIONS: Final = 4


class Sums(NamedTuple):
    """Over the points of a full window."""

    x: int
    y: int
    xx: int
    xy: int
    yy: int


class Signal(NamedTuple):
    """A point off the line: where in the log, both prices, and the slope as numerator and denominator."""

    position: int
    pair: str
    x: int
    y: int
    numerator: int
    denominator: int


def sums_of(points: Iterable[tuple[int, int]]) -> Sums:
    """
    >>> sums_of([(1, 2), (3, 4)])
    Sums(x=4, y=6, xx=10, xy=14, yy=20)
    """
    rows = [(x, y, x * x, x * y, y * y) for x, y in points]
    return Sums(*map(sum, zip(*rows, strict=True)))


def slope(sums: Sums) -> tuple[int, int]:
    """Numerator and denominator; the denominator is 0 when x did not move."""
    return WINDOW * sums.xy - sums.x * sums.y, WINDOW * sums.xx - sums.x * sums.x


def is_off(x: int, y: int, sums: Sums) -> bool:
    """Whether a point is too many deviations away from the line through the window."""
    numerator, denominator = slope(sums)
    spread = WINDOW * sums.yy - sums.y * sums.y
    residual = (WINDOW * y - sums.y) * denominator - numerator * (WINDOW * x - sums.x)
    limit = DEVIATIONS * DEVIATIONS * denominator * (spread * denominator - numerator * numerator)
    return residual * residual > limit


class PairRegression:
    """One pair, tick after tick."""

    def __init__(self, pair: str, kept: Sequence[Any] | None = None) -> None:
        self.pair = pair
        last, points, _ = kept or ([None, None], [], None)
        self._last: list[int | None] = list(last)
        self._points: deque[tuple[int, int]] = deque(((x, y) for x, y in points), maxlen=WINDOW)

    def kept(self) -> tuple[list[int | None], list[tuple[int, int]], tuple[int, int] | None]:
        """All of it, to go on with later, and the slope that a strategy would use: the weights of the model."""
        is_full = len(self._points) == WINDOW
        return self._last, list(self._points), slope(sums_of(self._points)) if is_full else None

    def tick(self, position: int, side: int, price_cents: int) -> Signal | None:
        """A new price of its first or second stock; what there is to say of the point."""
        self._last[side] = price_cents
        x, y = self._last
        if x is None or y is None:
            return None
        signal = self._judge(position, x, y) if len(self._points) == WINDOW else None
        self._points.append((x, y))
        return signal

    def _judge(self, position: int, x: int, y: int) -> Signal | None:
        sums = sums_of(self._points)
        return Signal(position, self.pair, x, y, *slope(sums)) if is_off(x, y, sums) else None


def signals(ticks: Iterable[tuple[int, Tick]]) -> list[Signal]:
    """Of ticks with their positions, in the order of the log."""
    regressions = {pair: PairRegression(pair) for pair in PAIRS}
    sides = {stock: (regressions[pair], side) for pair, stocks in PAIRS.items() for side, stock in enumerate(stocks)}
    found = []
    for position, tick in ticks:
        regression, side = sides[tick.stock]
        signal = regression.tick(position, side, tick.price_cents)
        if signal is not None:
            found.append(signal)
    return found
