"""When prepared parts expire, and when to look for that."""

from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts
from ithaca.engines.scalog.ordering.state import OrderingState

LOOK_S_MAX = 60.0
"""The order's time may pass a little slower than time does: it is looked at this often."""


class PartExpiry:
    """Looks at parts during one term. `time_us` is the order's time."""

    def __init__(self, state: OrderingState) -> None:
        self._state = state
        self._look_at_us: int | None = None

    def expires(self, until_us: int | None) -> bool:
        """A part expires then: whether that is sooner than the look that is planned."""
        if until_us is None or (self._look_at_us is not None and until_us >= self._look_at_us):
            return False
        self._look_at_us = until_us
        return True

    def look_in_s(self, time_us: int) -> float:
        """How long the look that is planned is ahead."""
        assert self._look_at_us is not None, "a look is planned once a part is known that expires"
        return min(max(0.0, (self._look_at_us - time_us) / 1e6), LOOK_S_MAX)

    def look(self, time_us: int) -> ExpireParts | None:
        """The entry for those whose time is up, if there are any; from here on no look is planned."""
        self._look_at_us = None
        due = self._state.parts.due(time_us)
        return ExpireParts(due, time_us) if due else None

    @property
    def next_us(self) -> int | None:
        """When the next part expires."""
        return self._state.parts.next_until_us
