"""Fetching records: stretches of rows below the tail, and row by row at the tail, and where something is not complete.

A row that was taken and is not written is a hole. It is counted from when the sequencer's tail was seen behind it:
after `HOLE_MS` what the head of its chain has is completed, and after `JUNK_MS` the row is made junk. Waiting at the
tail is no hole: there a unit answers as soon as it has the row.
"""

import asyncio
import math
from collections import OrderedDict, deque
from typing import NamedTuple

from ithaca.client.deadline import Deadline
from ithaca.client.fetched import Fetched
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.writers import shard_of
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.flows.reading import looked, read, tail
from ithaca.engines.corfu.sequencing.flows.settling import RowState, settled
from ithaca.engines.corfu.sequencing.flows.stretching import Stretch, stretched
from ithaca.engines.corfu.sequencing.limits import (
    AWAIT_MS_MAX,
    HOLE_MS,
    JUNK_MS,
    LOOK_MS,
    STRETCH_BYTES_MAX,
    STRETCH_PARTS,
    STRETCH_ROWS_MAX,
    STRETCH_ROWS_MIN,
    STRETCHES_MAX,
    TAILS_SEEN_MAX,
)
from ithaca.engines.corfu.sequencing.rows import first_position, row_of
from ithaca.wire.positioned import PositionedBatch


class _Seen(NamedTuple):
    """The tail was seen there, then."""

    tail: int
    at_s: float


class RowReader:
    """Reads rows for one handle."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._tail = 0
        """The highest that was seen: rows below it were taken."""
        self._seen: deque[_Seen] = deque(maxlen=TAILS_SEEN_MAX)
        """Tails that were seen, each behind the one before: since when rows are known to be taken."""
        self._stretches: OrderedDict[int, int] = OrderedDict()
        """How many rows are to be asked for from this one on: whoever reads one stretch after the other gets more."""

    @property
    def tail_seen(self) -> int:
        """Rows before this one were taken, and perhaps others."""
        return self._tail

    def saw_tail(self, row: int) -> None:
        """Rows before this one were taken."""
        if row > self._tail:
            self._tail = row
            self._seen.append(_Seen(row, asyncio.get_running_loop().time()))

    async def fetch(self, position: int, wait_s: float, *, alone: bool = False) -> Fetched:
        """The records from this position on, of some rows, or of its own row alone; waits for the first. Nothing, and
        `next` where it was asked from, when nothing is there in time."""
        deadline = Deadline(wait_s)
        row = row_of(position)
        while True:
            is_over = deadline.passed
            if row < self._tail:
                stretch = await (self._taken(row) if alone else self._next_stretch(row))
            elif is_over:
                stretch = self._alone(row, await self._driver.run(read(self._driver.knowledge, row)))
            else:
                stretch = self._alone(row, await self._awaited(row, deadline.left_s))
            if stretch.up_to > row:
                return self._fetched(position, stretch)
            if not await self._waited(row, deadline) and is_over:
                return Fetched([], position)

    async def settled_from(self, row: int, stop: int) -> tuple[int, Entry] | None:
        """The first row from this one on that has a batch, below `stop`, with it; every row of these was taken."""
        self.saw_tail(stop)
        while row < stop:
            stretch = await self._driver.run(stretched(self._driver.knowledge, row, stop, 1))
            if stretch.up_to <= row:
                stretch = await self._taken(row)
            for at, entry in stretch.rows:
                if entry.batch is not None:
                    return (at, entry) if at < stop else None
            row = stretch.up_to
        return None

    async def _next_stretch(self, row: int) -> Stretch:
        """What is known to be complete of this row and those behind it, where they were taken: the more of them the
        longer a reader goes on where it was."""
        rows_max = self._stretches.pop(row, STRETCH_ROWS_MIN)
        if row + 1 < self._tail:
            knowledge, stop = self._driver.knowledge, min(self._tail, row + rows_max)
            stretch = await self._driver.run(stretched(knowledge, row, stop, STRETCH_BYTES_MAX, STRETCH_PARTS))
            self.saw_tail(knowledge.highest + 1)
            if stretch.up_to > row:
                self._stretches[stretch.up_to] = _rows_next(stretch, row, stop)
                if len(self._stretches) > STRETCHES_MAX:
                    self._stretches.popitem(last=False)
                return stretch
        return await self._taken(row)

    async def _taken(self, row: int) -> Stretch:
        """A row that was taken, alone; nothing while it is a hole that is not mended yet."""
        state = await self._driver.run(looked(self._driver.knowledge, row))
        return self._alone(row, await self._mend(row) if state == "unwritten" else state)

    def _alone(self, row: int, state: RowState) -> Stretch:
        """This row, or all the empty ones that it is one of."""
        if isinstance(state, Entry):
            return Stretch(row + 1, [(row, state)])
        if state == "unwritten":
            return Stretch(row, [])
        projection = self._driver.knowledge.projection
        stop = projection.stop_of(projection.range_of(row)) if state == "empty" else None
        return Stretch(max(row + 1, stop or 0), [])

    def _fetched(self, position: int, stretch: Stretch) -> Fetched:
        batches: list[PositionedBatch] = []
        for row, entry in stretch.rows:
            start = first_position(row)
            if entry.batch is not None:
                self.saw_tail(row + 1)
                if position < start + entry.batch.count:
                    shard = shard_of(self._driver, row)
                    batches.append(PositionedBatch(entry.batch, start, shard, 0, entry.batch.count))
        return Fetched(batches, first_position(stretch.up_to))

    async def _awaited(self, row: int, wait_s: float) -> RowState:
        """What the row holds, as soon as it holds something; "unwritten" may be old."""
        knowledge = self._driver.knowledge
        wait_ms = min(AWAIT_MS_MAX, math.ceil(wait_s * 1000))
        state = await self._driver.run(looked(knowledge, row, wait_ms))
        self.saw_tail(knowledge.highest + 1)
        return state

    async def _waited(self, row: int, deadline: Deadline) -> bool:
        """Wait until there may be more; False when the time is up."""
        driver, knowledge = self._driver, self._driver.knowledge
        if row >= self._tail:
            self.saw_tail(await driver.run(tail(knowledge)))
        if row < self._tail:
            return True
        if deadline.passed:
            return False
        await asyncio.sleep(min(LOOK_MS / 1000, deadline.left_s))
        return True

    async def _mend(self, row: int) -> RowState:
        """A hole: give its writer some time, then complete it, and at last make it junk. What it holds then."""
        now_s = asyncio.get_running_loop().time()
        while self._seen and self._seen[0].tail <= row:
            self._seen.popleft()
        age_ms = (now_s - (self._seen[0].at_s if self._seen else now_s)) * 1000
        if age_ms < HOLE_MS:
            state, pause_ms = await self._awaited(row, (HOLE_MS - age_ms) / 1000), LOOK_MS
        else:
            state = await self._driver.run(settled(self._driver.knowledge, row, may_junk=age_ms >= JUNK_MS))
            pause_ms = HOLE_MS
        if state == "unwritten":
            await asyncio.sleep(pause_ms / 1000)
        return state


def _rows_next(stretch: Stretch, row: int, stop: int) -> int:
    """How many rows to ask for next, where these of `[row, stop)` came: so many that each part is likely to come whole,
    and does not hold much less than it may."""
    count = stretch.up_to - row
    if stretch.up_to < stop:
        return min(STRETCH_ROWS_MAX, count * STRETCH_PARTS)
    size = sum(entry.batch.total_bytes for _, entry in stretch.rows if entry.batch is not None)
    return min(STRETCH_ROWS_MAX, 2 * count) if 2 * size <= STRETCH_BYTES_MAX else count
