"""Synchronous iteration: records are fetched from the asynchronous twin in chunks and handed out locally.

What was fetched is put into the buffer by the loop, never returned to a caller that Ctrl-C may have taken
away in between; so an interrupted step skips nothing. An error is raised once everything before it was
handed out. An iteration is for one thread at a time; any thread may close it.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ithaca.client.portal import Portal
from ithaca.model import interface
from ithaca.model.interface import Batch, awaited
from ithaca.model.limits import COALESCE_BYTES_MAX, POLL_RECORDS_MAX, READ_CHUNK_BYTES
from ithaca.model.records import Record
from ithaca.wire.build import build
from ithaca.wire.positioned import ScatteredBatch

Twin = TypeVar("Twin", bound=awaited.Records)


class _Ahead(NamedTuple):
    """What was fetched and not yet handed out, replaced as a whole, since Ctrl-C may come between two steps."""

    records: list[Record]
    """Decoded, the next one last."""
    batches: list[Batch]
    """Behind them, not decoded, the next one last."""


class _Buffered(interface.Records, Generic[Twin]):
    """An iteration over a buffer: the loop fills it when it is empty, the caller takes from it."""

    def __init__(self, portal: Portal, open_twin: Callable[[], Twin]) -> None:
        self._portal = portal
        self._closed = False
        self._ahead = _Ahead([], [])
        self._failure: Exception | None = None  # what comes after that
        self._filling = asyncio.Lock()
        self._stream: AsyncIterator[Batch] | None = None  # the twin's batches, while nothing else was fetched
        self._twin = portal.run(lambda: self._enter(open_twin))

    @property
    def position(self) -> int:
        records, batches = self._ahead
        if records:
            return records[-1].position
        return batches[-1].positions()[0] if batches else self._fetched_to

    def __next__(self) -> Record:
        while not self._closed:
            if self._ahead.records:
                return self._ahead.records.pop()
            if not self._decode() and not self._fill(lambda: self._fetch_records(None, POLL_RECORDS_MAX)):
                break
        raise StopIteration

    def batches(self) -> Iterator[Batch]:
        while not self._closed:
            if self._ahead.records:
                self._pack()
            if self._ahead.batches:
                yield self._ahead.batches.pop()
            elif not self._fill(self._fetch_batch):
                return

    def close(self) -> None:
        self._closed = True
        if not self._portal.forked and not self._portal.ended:
            self._portal.run(self._twin.close)

    def _decode(self) -> bool:
        """Turn the next batch into records; False when there is none."""
        batches = self._ahead.batches
        if not batches:
            return False
        self._ahead = _Ahead(batches[-1].records()[::-1], batches[:-1])
        return True

    def _pack(self) -> None:
        """Turn records that were fetched for iteration back into batches."""
        records, batches = self._ahead
        self._ahead = _Ahead([], batches + list(_packed(records[::-1]))[::-1])

    def _fill(self, fetch: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Fill the empty buffer; False when nothing came, because of the end or of a time-out."""
        if self._failure is None:
            self._portal.run(lambda: self._fill_once(fetch))
        if any(self._ahead):
            return True
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        return False

    # On the loop

    async def _enter(self, open_twin: Callable[[], Twin]) -> Twin:
        twin = await open_twin().__aenter__()
        self._fetched_to = twin.position
        return twin

    async def _fill_once(self, fetch: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._filling:
            # A fetch whose caller was interrupted may have come through just before this one.
            if not any(self._ahead) and self._failure is None:
                await fetch()

    @abstractmethod
    async def _fetch_records(self, timeout: float | None, max_records: int) -> None:
        """Put the next records into the empty buffer."""

    async def _fetch_batch(self) -> None:
        if self._stream is None:
            self._stream = self._twin.batches()
        try:
            self._ahead = _Ahead([], [await anext(self._stream)])
            self._fetched_to = self._twin.position
        except StopAsyncIteration:
            self._fetched_to = self._twin.position
        except BaseException:
            self._stream = None  # a generator that was left by an error gives nothing more
            raise


class SyncRecords(_Buffered[awaited.Records]):
    """A bounded range."""

    async def _fetch_records(self, timeout: float | None, max_records: int) -> None:
        self._stream = None
        found: list[Record] = []
        size = 0
        try:
            while len(found) < max_records and size < READ_CHUNK_BYTES:
                record = await anext(self._twin)
                found.append(record)
                size += len(record.value)
            self._fetched_to = self._twin.position
        except StopAsyncIteration:
            self._fetched_to = self._twin.position
        except BaseException as error:
            if not found:
                raise
            self._fetched_to = found[-1].position + 1
            if not isinstance(error, Exception):
                raise  # cancelled, and what was found stays
            self._failure = error
        finally:
            self._ahead = _Ahead(found[::-1], [])


class SyncSubscription(_Buffered[awaited.Subscription], interface.Subscription):
    """Without end."""

    def poll(self, timeout: float | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        if self._closed or max_records < 1:
            return []
        if not self._ahead.records and not self._decode():
            self._fill(lambda: self._fetch_records(timeout, max_records))
        records = self._ahead.records
        found = records[: -max_records - 1 : -1]
        del records[-max_records:]
        return found

    async def _fetch_records(self, timeout: float | None, max_records: int) -> None:
        self._stream = None
        found = await self._twin.poll(timeout, max_records)
        self._fetched_to = self._twin.position
        self._ahead = _Ahead(found[::-1], [])


def _packed(records: list[Record]) -> Iterator[Batch]:
    """The records as batches, each of one time and one shard, and not too large."""
    run: list[Record] = []
    size = 0
    for record in records:
        continues = run and (record.timestamp_us, record.shard) == (run[0].timestamp_us, run[0].shard)
        if run and (not continues or size > COALESCE_BYTES_MAX):
            yield _batch_of(run)
            run, size = [], 0
        run.append(record)
        size += len(record.value) + len(record.key or b"")
    if run:
        yield _batch_of(run)


def _batch_of(run: list[Record]) -> Batch:
    keys = [record.key for record in run] if any(record.key is not None for record in run) else None
    batch = build([record.value for record in run], keys, timestamp_us=run[0].timestamp_us)
    return ScatteredBatch(batch, np.array([record.position for record in run], np.int64), run[0].shard)
