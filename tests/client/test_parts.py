"""Prepared parts of a handle: what becomes of those that are under way when it is closed."""

import asyncio

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.engines.scalog.client.append.part_writer import AsyncPartWriter
from ithaca.model.errors import DeadlineExceeded, LogClosed
from ithaca.model.parts import Part


def sending() -> int:
    """Batches of parts that are on their way."""
    return sum("AsyncPartWriter._send" in repr(task) for task in asyncio.all_tasks())


async def test_every_part_that_is_under_way_ends_with_its_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[AsyncPartWriter] = []
    close = AsyncPartWriter.close

    async def noted(writer: AsyncPartWriter) -> None:
        closed.append(writer)
        await close(writer)

    monkeypatch.setattr(AsyncPartWriter, "close", noted)
    async with FakeCluster() as cluster:
        for replica in cluster.replicas[0]:
            replica.is_mute = True
        log = await cluster.connect()
        writers = [await log.open_part() for _ in range(3)]
        for writer in writers:
            await writer.append_many([b"on its way"])
        assert sending() == 3
        under_way = log._appends.under_way.inflight.bytes
        assert under_way > 0, "parts count against the bytes in flight"
        await log.close()
        assert log._appends.under_way.inflight.bytes == 0
        assert closed == writers
        assert sending() == 0
        for writer in writers:
            with pytest.raises(LogClosed):
                await writer.append_many([b"too late"])


async def test_a_part_that_nobody_writes_is_given_up_in_time() -> None:
    async with FakeCluster() as cluster:
        for replica in cluster.replicas[0]:
            replica.is_mute = True
        log = await cluster.connect()
        with pytest.raises(DeadlineExceeded, match=r"within 0\.[12]\d* s"):
            await log.prepare([b"a"], timeout=0.2)


async def test_a_part_that_is_aborted_by_anybody_is_gone() -> None:
    async with FakeCluster() as cluster:
        writer = await (await cluster.connect()).open_part()
        (staged,) = cluster.state.parts.by_lane.values()
        assert staged.lane == writer.lane
        await (await cluster.connect()).abort([Part(staged.lane, 1, staged.token)])
        assert not cluster.state.parts.by_lane
