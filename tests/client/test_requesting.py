"""Appends that are requests: answered one by one, bounded by their bytes, and given up when their time is over."""

import asyncio

import pytest

from ithaca.client.fetched import Bounds, Fetched, FetchingLog
from ithaca.client.settings import ClientSettings
from ithaca.model.errors import DeadlineExceeded, LogClosed, Overloaded
from ithaca.model.interface import ClusterStatus
from ithaca.model.records import Receipt
from ithaca.wire.batch import Batch

PATIENCE_S = 60


class HeldLog(FetchingLog):
    """A log that answers appends when the test says so."""

    def __init__(self, *, timeout_s: float = 20) -> None:
        super().__init__("the held log", ClientSettings(timeout_s=timeout_s))
        self.may_answer = asyncio.Event()
        self.sent: list[Batch] = []
        self._tail = 1

    async def send(self, batch: Batch) -> Receipt:
        self.sent.append(batch)
        await self.may_answer.wait()
        start, self._tail = self._tail, self._tail + batch.count
        return Receipt(start, batch.count, 0, "os")

    async def bounds(self) -> Bounds:
        return Bounds(1, self._tail)

    async def fetch(self, position: int, wait_s: float) -> Fetched:
        return Fetched([], max(position, self._tail))

    async def status(self) -> ClusterStatus:
        return ClusterStatus(True, (), self._tail, 1)

    async def disconnect(self) -> None:
        self.may_answer.set()


async def test_an_append_that_is_not_answered_in_its_time_is_given_up_by_its_caller_alone() -> None:
    log = HeldLog()
    async with asyncio.timeout(PATIENCE_S):
        for append in (log.append(b"late", timeout=0.02), log.append_many([b"a", b"b"], timeout=0.02)):
            with pytest.raises(DeadlineExceeded) as caught:
                await append
            assert caught.value.outcome_unknown
        log.may_answer.set()
        assert (await log.append(b"next")).position == 4, "what was given up was appended all the same"
        assert (await log.append_many([b"c", b"d"], timeout=PATIENCE_S)).position == 5
    await log.close()


async def test_whoever_appends_waits_while_too_much_is_under_way() -> None:
    log = HeldLog()
    log.inflight.bytes_max = 1000
    first = await log.submit(bytes(2000))
    waiting = [asyncio.create_task(log.append(b"one")), asyncio.create_task(log.append_many([b"two", b"three"]))]
    for _ in range(10):
        await asyncio.sleep(0)
    assert [batch.count for batch in log.sent] == [1]
    log.may_answer.set()
    async with asyncio.timeout(PATIENCE_S):
        assert (await first).position == 1
        assert {(await task).count for task in waiting} == {1, 2}
    await asyncio.sleep(0)
    assert log.inflight.bytes == 0, "what was answered counts no more"
    await log.close()


async def test_whoever_waits_for_room_for_too_long_is_told_so_and_appends_nothing() -> None:
    log = HeldLog()
    log.inflight.bytes_max, log.inflight.timeout_s = 1000, 0.02
    first = await log.submit(bytes(2000))
    for append in (log.append(b"one"), log.append_many([b"two"])):
        with pytest.raises(Overloaded):
            await append
    assert len(log.sent) == 1
    log.may_answer.set()
    assert (await first).position == 1
    await log.close()


async def test_a_log_that_is_closed_takes_nothing() -> None:
    log = HeldLog()
    log.may_answer.set()
    await log.append(b"one")
    await log.close()
    for call in (log.append(b"two"), log.append_many([b"two"]), log.tail(), log.flush()):
        with pytest.raises(LogClosed):
            await call
    assert len(log.sent) == 1
