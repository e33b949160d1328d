"""How long somebody is ready to wait."""

from ithaca.model.units import Duration, seconds
from ithaca.runtime.machine import monotonic_s


class Limit:
    """A point in time; None waits for ever."""

    __slots__ = ("_at_s",)

    def __init__(self, timeout: Duration | None) -> None:
        self._at_s = None if timeout is None else monotonic_s() + seconds(timeout)

    @property
    def left_s(self) -> float | None:
        """Never below 0."""
        return None if self._at_s is None else max(0.0, self._at_s - monotonic_s())

    def within(self, seconds: float) -> float:
        """So long, or less if less is left."""
        left_s = self.left_s
        return seconds if left_s is None else min(seconds, left_s)
