"""Iterating through the synchronous face: in chunks, by turns in every way, up to an error and beyond."""

import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.embedded_twin import open_sync

from ithaca.client.portal import Portal, portal
from ithaca.client.sync.records import SyncRecords, SyncSubscription
from ithaca.model.errors import Lost
from ithaca.model.interface import Batch, Log, awaited
from ithaca.model.limits import POLL_RECORDS_MAX, READ_CHUNK_BYTES
from ithaca.model.records import Record
from ithaca.model.units import Duration
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch

PATIENCE_S = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with open_sync(tmp_path / "log") as log:
        yield log


def test_records_come_in_chunks(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 5 * POLL_RECORDS_MAX
    start = log.append_many([b"%d" % n for n in range(count)]).position
    runs: list[object] = []
    run = Portal.run

    def counted(self: Portal, begin: Callable[[], Coroutine[Any, Any, object]]) -> object:
        runs.append(begin)
        return run(self, begin)

    monkeypatch.setattr(Portal, "run", counted)
    assert [record.position for record in log.read_range(start)] == list(range(start, start + count))
    with log.subscribe(start) as subscription:
        assert [next(subscription).position for _ in range(count)] == list(range(start, start + count))
    assert len(runs) < 20


def test_a_chunk_of_large_records_is_bounded_by_its_bytes(log: Log) -> None:
    start = log.append(bytes(READ_CHUNK_BYTES)).position
    for _ in range(3):
        log.append(bytes(READ_CHUNK_BYTES))
    with log.read_range(start) as records:
        next(records)
        assert isinstance(records, SyncRecords)
        assert records._ahead.is_empty
        assert records.position == start + 1


def test_iterating_polling_and_batches_take_turns_without_gaps(log: Log) -> None:
    start = log.tail()
    for n in range(60):
        log.append_many([b"%d.%d" % (n, m) for m in range(n % 5 + 1)], keys=[b"k"] + [None] * (n % 5))
    expected = list(log.read_range(start))
    rng = random.Random(3)
    with log.subscribe(start) as subscription:
        found: list[Record] = []
        while len(found) < len(expected):
            assert subscription.position == expected[len(found)].position
            way = rng.randrange(4)
            if way == 0:
                found.append(next(subscription))
            elif way == 1:
                found += subscription.poll(timeout=PATIENCE_S, max_records=rng.randint(1, 4))
            else:
                batch = next(subscription.batches())
                assert batch.positions() == [record.position for record in batch.records()]
                assert batch.to_arrow()["value"].to_pylist() == [record.value for record in batch.records()]
                found += batch.records()
        assert found == expected


def test_what_was_fetched_for_a_caller_that_went_away_is_handed_to_the_next(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(10)]).position
    with log.subscribe(start) as subscription:
        assert isinstance(subscription, SyncSubscription)
        for _ in range(2):  # as if Ctrl-C had ended the wait when the fetch was through
            portal().run(lambda: subscription._fetch(None))
        assert [next(subscription).position for _ in range(10)] == list(range(start, start + 10))


class FailingTwin(awaited.Records):
    """Three records, then an error, then the end."""

    def __init__(self) -> None:
        self._steps = 0
        self._position = 1

    async def take_batches(self, timeout: Duration | None = None) -> list[Batch]:
        self._steps += 1
        if self._steps == 2:
            raise Lost("gone", start=4, stop=6)
        if self._steps > 2:
            return []
        self._position = 4
        return [PositionedBatch(build([b"1", b"2", b"3"], timestamp_us=0), 1, 0, 0, 3)]

    async def __anext__(self) -> Record:
        raise AssertionError("nobody asks for records here")

    @property
    def position(self) -> int:
        return self._position

    async def batches(self) -> AsyncIterator[Batch]:
        raise AssertionError("nobody asks for single batches here")
        yield

    async def close(self) -> None:
        pass


def test_an_error_comes_after_what_came_before_it() -> None:
    records = SyncRecords(portal(), FailingTwin)
    for n in (1, 2, 3):
        assert records.position == n
        assert next(records).position == n
    assert records.position == 4
    with pytest.raises(Lost) as caught:
        next(records)
    assert (caught.value.start, caught.value.stop) == (4, 6)
    assert list(records) == []
