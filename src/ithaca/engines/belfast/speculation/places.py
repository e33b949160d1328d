"""Where the batches of a lane are placed, as a copy of it knows: stretches of LSNs at consecutive positions.

Batches of one cut are next to each other, so that there are about as many stretches as cuts with records.
"""

from collections import deque
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from msgspec import Meta

from ithaca.model.limits import LANE_RECORDS_MAX

_Length = Annotated[int, Meta(ge=0, le=LANE_RECORDS_MAX)]


class PlacedRun(NamedTuple):
    """Whole batches of a lane, one behind the other, at consecutive positions."""

    lsn: _Length
    position: Annotated[int, Meta(ge=1, lt=1 << 62)]
    records: Annotated[int, Meta(ge=1, le=LANE_RECORDS_MAX)]

    @property
    def stop(self) -> int:
        """The lane's length behind it."""
        return self.lsn + self.records


class Places:
    """The stretches of one lane that may not be ordered yet. Batches without a place, of a free window, are missing."""

    def __init__(self, found: Iterable[PlacedRun] = ()) -> None:
        self._stretches: deque[PlacedRun] = deque()
        for placed in found:
            self.add(*placed)

    def add(self, lsn: int, position: int, records: int) -> None:
        """The next batch."""
        last = self._stretches[-1] if self._stretches else None
        if last is not None and (last.stop, last.position + last.records) == (lsn, position):
            self._stretches[-1] = last._replace(records=last.records + records)
        else:
            self._stretches.append(PlacedRun(lsn, position, records))

    def ordered(self, length: int) -> None:
        """So much of the lane is ordered: of that nobody asks any more."""
        while self._stretches and self._stretches[0].stop <= length:
            self._stretches.popleft()

    def all(self) -> tuple[PlacedRun, ...]:
        return tuple(self._stretches)
