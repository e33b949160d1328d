"""How far each consumer is behind the tail, as a leader sees it. Pure.

A leader sees no records. So it notes now and then where the tail was: since the tail passed a consumer's position, the
consumer is behind. Who has led for less long says that it is so since then, at least.
"""

from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from ithaca.consumers.limits import TAIL_NOTED_S, TAILS_NOTED_MAX
from ithaca.consumers.table import ConsumerTable


class ConsumerLag(NamedTuple):
    """One consumer."""

    name: str
    position: int
    positions: int
    """Between it and the tail."""
    seconds: float


class TailTimes:
    """Where the tail was, during one term."""

    def __init__(self) -> None:
        self._noted: deque[tuple[int, float]] = deque(maxlen=TAILS_NOTED_MAX)
        """Tails, and when each was first seen; both rise."""

    def note(self, tail: int, now_s: float) -> None:
        """The tail is here now, by a clock that never falls."""
        if not self._noted or (tail > self._noted[-1][0] and now_s - self._noted[-1][1] >= TAIL_NOTED_S):
            self._noted.append((tail, now_s))

    def lags(self, consumers: ConsumerTable, tail: int, now_s: float) -> list[ConsumerLag]:
        """All consumers, by name."""
        self.note(tail, now_s)
        tails = [each for each, _ in self._noted]
        found = []
        for consumer in consumers.after(""):
            place = bisect_right(tails, consumer.position)
            since_s = self._noted[place][1] if place < len(tails) else now_s
            behind = max(0, tail - consumer.position)
            found.append(ConsumerLag(consumer.name, consumer.position, behind, now_s - since_s if behind else 0.0))
        return found
