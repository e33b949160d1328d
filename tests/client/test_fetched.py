"""Iterations that fetch: one fetch at a time, whoever iterates, and nothing that was fetched is lost or doubled."""

import asyncio
from typing import cast

import pytest

from ithaca.client.fetched import Bounds, Fetched, FetchedRecords, FetchedSubscription, FetchingLog
from ithaca.model.errors import LogClosed, Trimmed
from ithaca.model.records import KeyFilter, Start
from ithaca.wire.build import build
from ithaca.wire.positioned import PositionedBatch


class FakeLog:
    """A log whose fetches are answered when the test says so."""

    def __init__(self, bounds: Bounds) -> None:
        self.asked: list[tuple[int, asyncio.Future[Fetched]]] = []
        self.is_closed = False
        self._bounds = bounds
        self._more = asyncio.Event()

    def check(self) -> None:
        if self.is_closed:
            raise LogClosed("closed")

    async def bounds(self) -> Bounds:
        return self._bounds

    async def fetch(self, position: int, wait_s: float) -> Fetched:
        future: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self.asked.append((position, future))
        self._more.set()
        return await future

    async def answer(self, count: int, start: int, *keys: bytes | None) -> None:
        """Wait until so many fetches were made, and answer the last with a batch of these keys."""
        while len(self.asked) < count:
            self._more.clear()
            await self._more.wait()
        batch = build([b"%d" % (start + n) for n in range(len(keys))], list(keys), timestamp_us=1)
        placed = PositionedBatch(batch, start, 0, 0, len(keys))
        self.asked[count - 1][1].set_result(Fetched([placed], start + len(keys)))


def subscribed(log: FakeLog, start: Start, where: KeyFilter | None = None) -> FetchedSubscription:
    return FetchedSubscription(cast(FetchingLog, log), start, None, where)


async def test_those_who_share_an_iteration_share_its_fetches() -> None:
    log = FakeLog(Bounds(1, 1))
    subscription = subscribed(log, 1)

    async def taken() -> list[int]:
        return [(await anext(subscription)).position for _ in range(2)]

    readers = [asyncio.create_task(taken()) for _ in range(2)]
    await log.answer(1, 1, None)
    await log.answer(2, 2, None, None, None)
    found = await asyncio.gather(*readers)
    assert sorted(found[0] + found[1]) == [1, 2, 3, 4]
    assert [position for position, _ in log.asked] == [1, 2, 5]


async def test_a_poll_that_does_not_wait_leaves_its_fetch_to_the_next() -> None:
    log = FakeLog(Bounds(1, 3))
    subscription = subscribed(log, 2)
    assert await subscription.poll() == []
    waiting = asyncio.create_task(subscription.poll(timeout=None))
    await asyncio.sleep(0)
    waiting.cancel()
    await log.answer(1, 1, None, None)
    assert [record.position for record in await subscription.poll(timeout=None)] == [2]
    await log.answer(2, 3, None)
    assert [position for position, _ in log.asked] == [2, 3]


async def test_what_a_filter_leaves_out_is_passed_over() -> None:
    log = FakeLog(Bounds(1, 5))
    subscription = subscribed(log, 1, KeyFilter.equals(b"a"))
    taking = asyncio.create_task(subscription.take_batches())
    await log.answer(1, 1, b"b", None)
    await log.answer(2, 3, b"b", b"a", b"b")
    (batch,) = await taking
    assert batch.positions() == [4]
    assert subscription.position == 6


async def test_a_range_ends_where_it_was_to_end() -> None:
    log = FakeLog(Bounds(1, 100))
    records = FetchedRecords(cast(FetchingLog, log), 2, 4, None)
    taking = asyncio.create_task(records.take_batches())
    await log.answer(1, 1, None, None, None, None)
    assert [position for batch in await taking for position in batch.positions()] == [2, 3]
    assert await records.take_batches() == []
    assert records.position == 4


async def test_the_next_fetch_is_under_way_while_what_came_is_taken() -> None:
    log = FakeLog(Bounds(1, 6))
    records = FetchedRecords(cast(FetchingLog, log), 1, None, None)
    taking = asyncio.create_task(anext(records))
    await log.answer(1, 1, None, None, None)
    assert (await taking).position == 1
    await log.answer(2, 4, None, None)
    assert [(await anext(records)).position for _ in range(4)] == [2, 3, 4, 5]
    assert await records.take_batches() == []
    assert [position for position, _ in log.asked] == [1, 4], "none beyond the end"


async def test_closing_ends_whoever_waits() -> None:
    log = FakeLog(Bounds(1, 1))
    subscription = subscribed(log, 1)
    waiting = asyncio.create_task(subscription.poll(timeout=None))
    await asyncio.sleep(0)
    await subscription.close()
    with pytest.raises(LogClosed, match="the subscription was closed"):
        await waiting
    assert [record async for record in subscription] == []


async def test_what_is_trimmed_is_said_before_anything_is_fetched() -> None:
    log = FakeLog(Bounds(5, 9))
    with pytest.raises(Trimmed) as caught:
        await subscribed(log, 4).poll()
    assert caught.value.first == 5
    assert await FetchedRecords(cast(FetchingLog, log), 4, 4, None).take_batches() == []
    assert log.asked == []


@pytest.mark.parametrize(("start", "position"), [("earliest", 4), ("latest", 9), (6, 6)])
async def test_it_begins_where_the_log_does_where_it_ends_or_where_it_is_told(start: Start, position: int) -> None:
    log = FakeLog(Bounds(4, 9))
    async with subscribed(log, start) as subscription:
        assert subscription.position == position
    assert log.asked == []


def test_the_payload_of_an_answer_is_one_batch_that_is_handed_out_whole() -> None:
    batch = build([b"a", b"b", b"c"], timestamp_us=1)
    fetched = Fetched.of_payload(b"".join(map(bytes, batch.buffers())), 7, 2)
    [placed] = fetched.batches
    found = [(each.position, each.value, each.shard) for each in placed.records()]
    assert found == [(7, b"a", 2), (8, b"b", 2), (9, b"c", 2)]
    assert fetched.next == 10
