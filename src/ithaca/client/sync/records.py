"""Synchronous iteration: batches are fetched from the asynchronous twin in bulk, and decoded in the caller's thread.

What was fetched is put into the buffer by the loop, never returned to a caller that Ctrl-C may have taken
away in between; so an interrupted step skips nothing. An iteration is for one thread at a time; any thread may close
it.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ithaca.client.ahead_records import AheadRecords, SyncAheadRecords
from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.interface import Batch, awaited
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import Record, Start
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.checks import check_max_records, closed_subscription
from ithaca.runtime.read_ahead import ReadAhead

Twin = TypeVar("Twin", bound=awaited.Records)


class _Fetched:
    """What the loop has got from the twin: the source of the buffer."""

    def __init__(self) -> None:
        self.position = 0
        """Everything below was fetched."""
        self.batches: list[Batch] = []

    def read(self) -> list[Batch]:
        batches, self.batches = self.batches, []
        return batches


class _Buffered(SyncAheadRecords[_Fetched], Generic[Twin]):
    """An iteration over a buffer: the loop fills it when it is empty, the caller takes from it."""

    def __init__(self, portal: Portal, open_twin: Callable[[], Twin]) -> None:
        self._fetched = _Fetched()
        super().__init__(ReadAhead(self._fetched))
        self._portal = portal
        self._filling = asyncio.Lock()
        self._twin = portal.run(lambda: self._enter(open_twin))

    def batches(self) -> Iterator[Batch]:
        while not self._closed:
            self._ahead.rewind()
            batch = self._ahead.next_batch()
            if batch is not None:
                yield batch
            elif not self._fill(None):
                return

    def take_batches(self, timeout: Duration | None = None) -> list[Batch]:
        timeout_s = optional_seconds(timeout)
        if self._closed:
            return []
        if self._ahead.is_empty:
            self._fill(timeout_s)
        return self._ahead.take_batches()

    def close(self) -> None:
        self._closed = True
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._twin.close)

    def _bounds(self) -> tuple[str, int, Start | None]:
        origin, stop = self._twin.bounds() if isinstance(self._twin, AheadRecords) else ("a cluster", None)
        return origin, self.position, stop

    def _has_more(self) -> bool:
        return self._fill(None)

    def _fill(self, timeout: float | None) -> bool:
        """Fill the empty buffer; False when nothing came, because of the end or of a time-out."""
        self._portal.run(lambda: self._fetch(timeout))
        return not self._ahead.is_empty

    # On the loop

    async def _enter(self, open_twin: Callable[[], Twin]) -> Twin:
        twin = await open_twin().__aenter__()
        self._fetched.position = twin.position
        return twin

    async def _fetch(self, timeout: float | None) -> None:
        async with self._filling:
            # A fetch whose caller was interrupted may have come through just before this one.
            if self._ahead.is_empty:
                self._fetched.batches = await self._twin.take_batches(timeout)
                self._fetched.position = self._twin.position
                self._ahead.fill()


class SyncRecords(_Buffered[awaited.Records]):
    """A bounded range."""


class SyncSubscription(_Buffered[awaited.Subscription], interface.Subscription):
    """Without end."""

    def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        check_max_records(max_records)
        timeout_s = optional_seconds(timeout)
        if self._closed:
            raise closed_subscription()
        if max_records < 1:
            return []
        if self._ahead.is_empty:
            self._fill(timeout_s)
        found = self._ahead.take(max_records)
        if not found and self._closed:
            raise closed_subscription()
        return found
