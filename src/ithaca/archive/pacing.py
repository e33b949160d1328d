"""Not more than so many bytes a second; and rests while others append."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ithaca.model.limits import MIB

STRETCH_BYTES: Final = 4 * MIB
"""What is read, or written, between two looks at whether others append."""
RESTS: Final = 9
"""A rest is so many times as long as the stretch before it: others have nine tenths of the time to themselves."""
REST_S_MAX: Final = 5.0


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


class Yielding:
    """Rests behind each stretch of work during which others appended, as the tail tells.

    >>> naps: list[float] = []
    >>> times, tails = iter([0.0, 0.5, 5.0, 5.25, 6.0]), iter([7, 8, 9, 9])
    >>> yielding = Yielding(lambda: next(tails), now_s=lambda: next(times), sleep=naps.append)
    >>> yielding.worked(STRETCH_BYTES), yielding.worked(STRETCH_BYTES), naps
    (None, None, [4.5])
    """

    def __init__(
        self,
        tail: Callable[[], int],
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._tail = tail
        self._now_s = now_s
        self._sleep = sleep
        self._bytes = 0
        self._seen = tail()
        self._began_s = now_s()

    def worked(self, count: int) -> None:
        """So many bytes were read or written."""
        self._bytes += count
        if self._bytes < STRETCH_BYTES:
            return
        took_s, tail = self._now_s() - self._began_s, self._tail()
        if tail > self._seen:
            self._sleep(min(REST_S_MAX, RESTS * took_s))
            tail = self._tail()
        self._bytes, self._seen, self._began_s = 0, tail, self._now_s()

    def through(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, whose taking is the work."""
        for piece in pieces:
            yield piece
            self.worked(len(piece))
