"""The handle of a cluster, over real sockets against a cluster in memory."""

import asyncio

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.model.errors import InvalidInput, LogClosed, NotWritten


async def test_a_record_reads_back() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        receipt = await log.append(b"hello", key=b"k")
        record = await log.read(receipt.position)
        assert (record.value, record.key, record.position) == (b"hello", b"k", 1)
        assert await log.tail() == 2
        with pytest.raises(NotWritten):
            await log.read(2)


async def test_many_in_one_turn_travel_together() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        receipts = await asyncio.gather(*(log.append(b"%d" % n) for n in range(1000)))
        assert [receipt.position for receipt in receipts] == list(range(1, 1001))
        assert [record.value async for record in log.read_range(1)] == [b"%d" % n for n in range(1000)]
        batches = [batch for shard in cluster.replicas for replica in shard for batch in replica.appended]
        assert len(batches) <= 8
