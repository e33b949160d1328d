"""Not more than so many bytes a second."""

import time
from collections.abc import Callable


class Pacing:
    """Keeps whoever takes bytes waiting when it is ahead of its pace; what was not used in time is not saved up.

    >>> naps: list[float] = []
    >>> pacing = Pacing(1000, now_s=lambda: 0.0, sleep=naps.append)
    >>> pacing.took(500), pacing.took(250), naps
    (None, None, [0.5, 0.75])
    """

    def __init__(
        self,
        bytes_per_s: int | None,
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """None: as quick as it goes."""
        self._bytes_per_s = bytes_per_s
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()
        """When everything so far should have been taken."""

    def took(self, count: int) -> None:
        if self._bytes_per_s is None:
            return
        now_s = self._now_s()
        self._due_s = max(self._due_s, now_s) + count / self._bytes_per_s
        if self._due_s > now_s:
            self._sleep(self._due_s - now_s)
