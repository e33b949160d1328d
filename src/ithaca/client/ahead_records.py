"""Iteration over what was read ahead: the same for all engines, which only say how to read on."""

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Generic, Self

from ithaca.client.deadline import Deadline
from ithaca.model import interface
from ithaca.model.errors import InvalidInput
from ithaca.model.interface import awaited
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import Record, Start
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import check_max_records, closed_subscription, iteration_text
from ithaca.runtime.read_ahead import ReadAhead, SourceT


class AheadRecords(awaited.Records, Generic[SourceT]):
    """A range. Taking awaits nothing: whoever is cancelled takes nothing along."""

    def __init__(self, ahead: ReadAhead[SourceT] | None = None) -> None:
        self._ahead = ahead
        """None until it is known where to begin."""
        self._closed = False
        self._origin = "a log"
        self._stop: Start | None = None

    def __repr__(self) -> str:
        name = "aio.Subscription" if isinstance(self, awaited.Subscription) else "aio.Records"
        position = None if self._ahead is None else self._ahead.position
        return iteration_text(name, self._origin, position, self._stop, self._closed)

    def told(self, origin: str, stop: Start | None = None) -> Self:
        """This, once it is told for `repr` where its log is, and where it ends."""
        self._origin, self._stop = origin, stop
        return self

    def bounds(self) -> tuple[str, Start | None]:
        """What it was told."""
        return self._origin, self._stop

    async def __anext__(self) -> Record:
        while not self._closed:
            if self._ahead is not None:
                if self._ahead.held.records:
                    return self._ahead.held.records.pop()
                if self._ahead.decode():
                    continue
            if not await self._advance(None):
                break
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[interface.Batch]:
        if self._ahead is not None:
            self._ahead.rewind()
        while not self._closed:
            batch = None if self._ahead is None else self._ahead.next_batch()
            if batch is not None:
                yield batch
            elif not await self._advance(None):
                return

    async def take_batches(self, timeout: Duration | None = None) -> list[interface.Batch]:
        deadline = None if timeout is None else Deadline(seconds(timeout))
        if self._closed:
            return []
        found = [] if self._ahead is None else self._ahead.take_batches()
        while not found and await self._advance(deadline):
            assert self._ahead is not None
            found = self._ahead.take_batches()
        return found

    @abstractmethod
    async def _advance(self, deadline: Deadline | None) -> bool:
        """Have more to take, waiting if this kind of iteration waits; False at the end, and when the time is up."""


class SyncAheadRecords(interface.Records, Generic[SourceT]):
    """A range, for callers that wait."""

    def __init__(self, ahead: ReadAhead[SourceT]) -> None:
        self._ahead = ahead
        self._closed = False

    def __repr__(self) -> str:
        name = "Subscription" if isinstance(self, interface.Subscription) else "Records"
        return iteration_text(name, *self._bounds(), self._closed)

    @property
    def position(self) -> int:
        return self._ahead.position

    @abstractmethod
    def _bounds(self) -> tuple[str, int, Start | None]:
        """Where its log is, and at which position it is and ends, if it does, for `repr`."""

    def __next__(self) -> Record:
        while not self._closed:
            if self._ahead.held.records:
                return self._ahead.held.records.pop()
            if not self._ahead.decode() and not self._has_more():
                break
        raise StopIteration

    @abstractmethod
    def _has_more(self) -> bool:
        """Have more to take, waiting for as long as it takes if this kind of iteration waits; False at the end."""


class BegunRecords(AheadRecords[SourceT]):
    """One whose start has to be asked for, unless it is a position: it begins when it is entered, or iterated."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self._start = start

    @property
    def position(self) -> int:
        if self._ahead is not None:
            return self._ahead.position
        if isinstance(self._start, int):
            return self._start
        raise InvalidInput("the subscription has not begun: enter its context, or iterate, before asking where it is")

    async def __aenter__(self) -> Self:
        await self._begun()
        return self

    @abstractmethod
    async def _begun(self) -> ReadAhead[SourceT]:
        """Settle where to start, once."""


class AheadSubscription(AheadRecords[SourceT], awaited.Subscription):
    """Without end."""

    async def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        check_max_records(max_records)
        deadline = None if timeout is None else Deadline(seconds(timeout))
        if self._closed:
            raise closed_subscription()
        if max_records < 1:
            return []
        # Taking awaits nothing: a poll that is cancelled must not take records with it.
        found = [] if self._ahead is None else self._ahead.take(max_records, self._read_on)
        while not found and await self._advance(deadline):
            assert self._ahead is not None
            found = self._ahead.take(max_records, self._read_on)
        if not found and self._closed:
            raise closed_subscription()
        return found

    def _read_on(self) -> bool:
        """Read what can be had without waiting, for a poll that has some; False when there is nothing."""
        return False
