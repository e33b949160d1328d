"""Fetching records row by row: several rows at a time below the tail, and waiting at it.

A row that was taken and is not written is a hole. It is counted from when the sequencer's tail was seen behind it:
after `HOLE_MS` what the head of its chain has is completed, and after `JUNK_MS` the row is made junk. Waiting at the
tail is no hole: there a unit answers as soon as it has the row.
"""

import asyncio
import math
from collections import deque
from typing import NamedTuple

from ithaca.client.deadline import Deadline
from ithaca.client.fetched import Fetched
from ithaca.engines.corfu.client.driving import Driver
from ithaca.engines.corfu.client.writers import shard_of
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.flows.reading import looked, read, tail
from ithaca.engines.corfu.sequencing.flows.settling import RowState, settled
from ithaca.engines.corfu.sequencing.limits import (
    AWAIT_MS_MAX,
    HOLE_MS,
    JUNK_MS,
    LOOK_MS,
    READ_ROWS_MAX,
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
        self._looking: dict[asyncio.Task[RowState], None] = {}

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
            is_certain = row < self._tail or deadline.passed
            if is_certain:
                states = await self._read_some(row, 1 if alone else READ_ROWS_MAX)
            else:
                states = [await self._awaited(row, deadline.left_s)]
            found = self._fetched(position, row, states)
            if found.next > position:
                return found
            if not await self._waited(row, deadline) and is_certain:
                return found

    async def settled_from(self, row: int, stop: int) -> tuple[int, Entry] | None:
        """The first row from this one on that has a batch, below `stop`, with it; every row of these was taken."""
        self.saw_tail(stop)
        while row < stop:
            states = await self._read_some(row, READ_ROWS_MAX)
            for at, state in enumerate(states, row):
                if isinstance(state, Entry) and state.batch is not None:
                    return (at, state) if at < stop else None
            if states[0] == "unwritten":
                await self._mend(row)
            else:
                row = self._row_after(row, states)
        return None

    def _row_after(self, row: int, states: list[RowState]) -> int:
        """Where to go on behind rows of which the first is passed."""
        following = row
        projection = self._driver.knowledge.projection
        for at, state in enumerate(states, row):
            if state == "unwritten":
                break
            stop = projection.stop_of(projection.range_of(at)) if state == "empty" else None
            following = max(at + 1, stop or 0)
        return following

    async def _read_some(self, row: int, rows_max: int) -> list[RowState]:
        """This row and, where they were taken, those behind it; up to the first that is not written."""
        knowledge = self._driver.knowledge
        count = max(1, min(rows_max, self._tail - row))
        ahead = [self._look(each) for each in range(row + 1, row + count)]
        try:
            states = [await self._driver.run(read(knowledge, row))]
            for looking in ahead:
                if states[-1] == "unwritten":
                    break
                states.append(await looking)
        finally:
            for looking in ahead:
                looking.cancel()
        return states

    def _look(self, row: int) -> "asyncio.Task[RowState]":
        task = asyncio.create_task(self._driver.run(looked(self._driver.knowledge, row)))
        self._looking[task] = None
        task.add_done_callback(self._looked)
        return task

    def _looked(self, task: "asyncio.Task[RowState]") -> None:
        self._looking.pop(task, None)
        if not task.cancelled():
            task.exception()  # perhaps nobody came so far: then it is met again

    async def close(self) -> None:
        """End what is read ahead."""
        looking = list(self._looking)
        for task in looking:
            task.cancel()
        await asyncio.gather(*looking, return_exceptions=True)

    def _fetched(self, position: int, row: int, states: list[RowState]) -> Fetched:
        batches: list[PositionedBatch] = []
        for at, state in enumerate(states, row):
            if state == "unwritten":
                break
            start = first_position(at)
            if isinstance(state, Entry) and state.batch is not None:
                self.saw_tail(at + 1)
                if position < start + state.batch.count:
                    shard = shard_of(self._driver, at)
                    batches.append(PositionedBatch(state.batch, start, shard, 0, state.batch.count))
        following = self._row_after(row, states)
        return Fetched(batches, first_position(following) if following > row else position)

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
            await self._mend(row)
            return True
        if deadline.passed:
            return False
        await asyncio.sleep(min(LOOK_MS / 1000, deadline.left_s))
        return True

    async def _mend(self, row: int) -> None:
        """A hole: give its writer some time, then complete it, and at last make it junk."""
        now_s = asyncio.get_running_loop().time()
        while self._seen and self._seen[0].tail <= row:
            self._seen.popleft()
        age_ms = (now_s - (self._seen[0].at_s if self._seen else now_s)) * 1000
        if age_ms < HOLE_MS:
            if await self._awaited(row, (HOLE_MS - age_ms) / 1000) == "unwritten":
                await asyncio.sleep(LOOK_MS / 1000)
            return
        state = await self._driver.run(settled(self._driver.knowledge, row, may_junk=age_ms >= JUNK_MS))
        if state == "unwritten":
            await asyncio.sleep(HOLE_MS / 1000)
