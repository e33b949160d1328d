"""Retention that waits for consumers: what it wants to trim is held back until they have processed it. Pure.

It waits for a bounded time: what retention wanted to trim so long ago goes, whoever still needs it. That is counted
since this object was first asked, so that a new leader holds things back for longer, and never for less.
"""

from collections import deque

from ithaca.consumers.limits import HELD_MAX
from ithaca.consumers.table import ConsumerTable
from ithaca.model.records import Retention


class ConsumerHold:
    """Says how far may be trimmed, again and again."""

    def __init__(self, names: frozenset[str] | None, bound_s: float) -> None:
        """Without `names` every consumer counts; one that there is none of holds nothing back."""
        self._names = names
        self._bound_s = bound_s
        self._wanted: deque[tuple[int, float]] = deque()
        """Positions before which all was to go, and since when; both rise."""
        self._overdue = 0

    @classmethod
    def of(cls, kept: Retention) -> "ConsumerHold | None":
        """None where retention waits for nobody."""
        if kept.keep_for_consumers is False:
            return None
        names = None if kept.keep_for_consumers is True else frozenset(kept.keep_for_consumers)
        return cls(names, kept.keep_for.total_seconds())

    def allowed(self, before: int, consumers: ConsumerTable, now_s: float) -> int:
        """The position before which may be trimmed of what is to go; `now_s` is a clock that never falls."""
        needed = [
            each.position for name, each in consumers.by_name.items() if self._names is None or name in self._names
        ]
        if not self._wanted or before > self._wanted[-1][0]:
            self._wanted.append((before, now_s))
        while self._wanted and now_s - self._wanted[0][1] >= self._bound_s:
            self._overdue = self._wanted.popleft()[0]
        if len(self._wanted) > HELD_MAX:
            self._wanted = deque(list(self._wanted)[1::2])  # every second goes with the one behind it
        return max(min([before, *needed]), min(before, self._overdue))
