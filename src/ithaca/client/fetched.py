"""Reading for engines that ask for the records from a position on, and get some of them: ranges, subscriptions, reads.

An engine says where the log begins and ends, finds a time, and fetches. The next fetch is a task of its own, under way
while what came is taken: whoever iterates may be cancelled, or poll for a moment only, and what comes is there for the
next call.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Self

from ithaca.client.ahead_records import AheadSubscription, BegunRecords
from ithaca.client.deadline import Deadline
from ithaca.client.requesting import RequestingLog
from ithaca.model.errors import EmptyPosition, IthacaError, NotWritten, Trimmed
from ithaca.model.interface import awaited
from ithaca.model.limits import STREAM_SILENT_S
from ithaca.model.records import Buffer, KeyFilter, Record, Start
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import (
    check_filter,
    check_position,
    check_range,
    check_shard_number,
    check_start,
    time_us_of,
)
from ithaca.runtime.read_ahead import ReadAhead
from ithaca.wire.batch import parse
from ithaca.wire.positioned import AnyPositioned, PositionedBatch


class Bounds(NamedTuple):
    """The first position that can be read, and the next to be written."""

    first: int
    tail: int


class Fetched(NamedTuple):
    """What a fetch brought: batches in the order of their positions, and where the next one goes on.

    The server has said that below `next`, from where it was asked, there is no other record and never will be.
    """

    batches: Sequence[PositionedBatch]
    next: int

    @classmethod
    def of_payload(cls, payload: Buffer, start: int, shard: int) -> Self:
        """The batch in the payload of an answer, which starts at this position."""
        batch = parse(payload)
        return cls([PositionedBatch(batch, start, shard, 0, batch.count)], start + batch.count)


class FetchingLog(RequestingLog):
    """A handle that reads by fetching, and appends by requests."""

    @abstractmethod
    async def bounds(self) -> Bounds:
        """As they were at some time after this call began."""

    @abstractmethod
    async def fetch(self, position: int, wait_s: float) -> Fetched:
        """The records from this position on, some of them; waits up to so long for the first. `Trimmed`.

        The first batch may begin before the position, or behind it where positions hold no records.
        """

    async def fetch_one(self, position: int, wait_s: float) -> Fetched:
        """The same for whoever wants what is at this position, and nothing behind it."""
        return await self.fetch(position, wait_s)

    async def seek(self, time_us: int) -> int:
        """The first position whose record has this time or a later one: by bisection, for times that rise."""
        low, high = await self.bounds()
        wanted = tail = high
        while low < high:
            middle = (low + high) // 2
            found = await self.fetch_one(middle, 0)
            if found.batches and found.batches[0].timestamp_us < time_us:
                low = found.batches[0].stop_position
            else:
                wanted = max(low, found.batches[0].first_position) if found.batches else tail
                high = min(middle, wanted)
        return max(low, wanted)

    async def first(self) -> int:
        self.check()
        return (await self.bounds()).first

    async def tail(self) -> int:
        self.check()
        return (await self.bounds()).tail

    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        self.check()
        check_position(position)
        check_shard_number(shard)
        deadline = Deadline(seconds(wait, "wait"))
        try:
            while True:
                found = await self.fetch_one(position, min(deadline.left_s, STREAM_SILENT_S))
                if found.next > position:
                    if found.batches and found.batches[0].first_position <= position:
                        return found.batches[0].record(position)
                    following = found.batches or (await self.fetch(found.next, 0)).batches
                    raise EmptyPosition.at(position, following[0].first_position if following else 0)
                if deadline.passed:
                    tail = (await self.bounds()).tail
                    raise NotWritten(f"position {position} is not written: the tail is {tail}", tail=tail)
        except IthacaError:
            self.check()  # a handle that was closed meanwhile says that
            raise

    def read_range(self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None) -> awaited.Records:
        self.check()
        check_range(start, stop, where)
        return FetchedRecords(self, start, stop, where).told(self.bootstrap, stop)

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> awaited.Subscription:
        self.check()
        check_start(start)
        check_filter(where)
        return FetchedSubscription(self, start, None, where).told(self.bootstrap)


def trimmed(position: int, first: int) -> Trimmed:
    return Trimmed(f"position {position} was trimmed; the first one left is {first}", first=first)


class _Source:
    """What was fetched, until it is read."""

    def __init__(self, position: int) -> None:
        self.position = position
        self._next = position
        self._batches: list[AnyPositioned] = []

    def put(self, batches: list[AnyPositioned], up_to: int) -> None:
        self._batches, self._next = batches, up_to

    def read(self) -> list[AnyPositioned]:
        found, self._batches = self._batches, []
        self.position = self._next
        return found


class FetchedRecords(BegunRecords[_Source]):
    """A bounded range."""

    def __init__(self, log: FetchingLog, start: Start, until: Start | None, where: KeyFilter | None) -> None:
        super().__init__(start)
        self._log = log
        self._until = until
        self._stop: int | None = None
        self._where = where
        self._fetching: asyncio.Task[None] | None = None

    async def close(self) -> None:
        self._closed = True
        if self._fetching is not None:
            self._fetching.cancel()

    async def _begun(self) -> ReadAhead[_Source]:
        self._log.check()
        if self._ahead is None:
            bounds = await self._log.bounds()
            start, stop = await self._settled(bounds)
            if start < bounds.first and (stop is None or start < stop):
                raise trimmed(start, bounds.first)
            if self._ahead is None:  # else somebody else was quicker
                self._stop, self._ahead = stop, ReadAhead(_Source(start))
        return self._ahead

    async def _settled(self, bounds: Bounds) -> tuple[int, int | None]:
        """Where to start, and where to stop."""
        stop = bounds.tail if self._until is None else min(await self._meant(self._until, bounds), bounds.tail)
        return await self._meant(self._start, bounds), stop

    async def _meant(self, where: Start, bounds: Bounds) -> int:
        """The position that stands for it."""
        if isinstance(where, datetime):
            return await self._log.seek(time_us_of(where))
        if isinstance(where, int):
            return where
        return bounds.first if where == "earliest" else bounds.tail

    async def _advance(self, deadline: Deadline | None) -> bool:
        while not self._closed:
            ahead = await self._begun()
            if self._stop is not None and ahead.source.position >= self._stop:
                return False
            fetching = self._fetching or self._start_fetch(ahead.source)
            done, _ = await asyncio.wait([fetching], timeout=None if deadline is None else deadline.left_s)
            if not done:
                return False
            if self._fetching is not fetching:
                return True  # somebody else who iterates has it: there may be more
            self._fetching = None
            if not fetching.cancelled():
                fetching.result()
                if ahead.fill():
                    if self._stop is None or ahead.source.position < self._stop:
                        self._start_fetch(ahead.source)  # while these are taken
                    return True
        return False

    def _start_fetch(self, source: _Source) -> "asyncio.Task[None]":
        self._fetching = asyncio.create_task(self._fetch(source))
        self._fetching.add_done_callback(_looked_at)
        return self._fetching

    async def _fetch(self, source: _Source) -> None:
        try:
            found = await self._log.fetch(source.position, STREAM_SILENT_S)
        except IthacaError:
            self._log.check()  # a handle that was closed meanwhile says that
            raise
        batches: list[AnyPositioned] = []
        for batch in found.batches:
            wanted = batch.between(source.position, self._stop)
            chosen = wanted if self._where is None or not len(wanted) else wanted.where(self._where)
            if len(chosen):
                batches.append(chosen)
        source.put(batches, found.next if self._stop is None else min(found.next, self._stop))


def _looked_at(task: "asyncio.Task[None]") -> None:
    """Perhaps nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


class FetchedSubscription(FetchedRecords, AheadSubscription[_Source]):
    """Without end."""

    async def _settled(self, bounds: Bounds) -> tuple[int, int | None]:
        return await self._meant(self._start, bounds), None
