"""How many records a range of positions holds, for whoever divides it among tasks.

Where positions are dense that is arithmetic. Elsewhere an engine says it; one that does not has its records counted.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from ithaca.model.interface import Batch


class Extent(NamedTuple):
    """The positions `[start, stop)` hold so many records."""

    start: int
    stop: int
    records: int


def dense_extents(start: int, stop: int, records_max: int, count_max: int | None = None) -> list[Extent]:
    """A range in which every position holds a record, in stretches of at most so many; the first ones if so.

    >>> dense_extents(1, 8, 3)
    [Extent(start=1, stop=4, records=3), Extent(start=4, stop=7, records=3), Extent(start=7, stop=8, records=1)]
    """
    starts = range(start, stop, records_max)[:count_max]
    stops = (min(stop, each + records_max) for each in starts)
    return [Extent(low, high, high - low) for low, high in zip(starts, stops, strict=True)]


async def counted_extents(
    batches: AsyncIterator[Batch],
    start: int,
    stop: int,
    records_max: int,
    count_max: int | None = None,
    shards: frozenset[int] | None = None,
) -> list[Extent]:
    """The same of any range, by going through its batches; of these shards alone if some are named."""
    found: list[Extent] = []
    records = 0
    async for batch in batches:
        positions = [] if shards is not None and batch.shard not in shards else batch.positions()
        for position in positions:
            if records == records_max:
                found.append(Extent(start, position, records))
                if len(found) == count_max:
                    return found
                start, records = position, 0
            records += 1
    return [*found, Extent(start, stop, records)] if start < stop else found
