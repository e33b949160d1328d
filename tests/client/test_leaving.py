"""Appends when their shard is finalized before, during and after the cut that orders them: each is there once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from tests.client.fake_cluster import FakeCluster, until

from ithaca.engines.scalog.ordering.entries import Finalize, TrimTo
from ithaca.model.errors import ShardFinalized, Trimmed
from ithaca.model.interface.awaited import Session


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(shards=2, replicas=1) as cluster:
        yield cluster


async def named(cluster: FakeCluster, shard: int) -> Session:
    """A session that lives in this shard."""
    log = await cluster.connect(shard_policy=lambda key, shards: shard if shard in shards else shards[0])
    session = await log.session("s")
    await session.append(b"first")
    return session


async def values(cluster: FakeCluster) -> list[bytes]:
    log = await cluster.connect()
    return [record.value async for record in log.read_range(1)]


async def test_a_session_whose_batch_was_not_ordered_moves_and_sends_it_again(cluster: FakeCluster) -> None:
    session = await named(cluster, 0)
    cluster.is_holding = True
    pending = [asyncio.ensure_future(session.append(b"%d" % number)) for number in range(3)]
    await until(lambda: len(cluster.pending) == 3)
    cluster.apply(Finalize(0))
    cluster.release()
    receipts = [await each for each in pending]
    assert [receipt.shard for receipt in receipts] == [1, 1, 1]
    assert await values(cluster) == [b"first", b"0", b"1", b"2"]


async def test_a_session_whose_answer_was_lost_learns_what_was_ordered(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await named(cluster, 0)
    order = cluster.order

    def order_and_finalize() -> None:
        monkeypatch.undo()
        order()
        cluster.apply(Finalize(0))

    monkeypatch.setattr(cluster, "order", order_and_finalize)
    cluster.replicas[0][0].losing_acks = 1
    receipt = await session.append(b"second")
    assert (receipt.position, receipt.shard) == (2, 0)
    assert (await session.append(b"third")).shard == 1
    assert await values(cluster) == [b"first", b"second", b"third"]


async def test_a_retry_after_the_move_gets_the_receipt_of_the_shard_that_is_finalized(cluster: FakeCluster) -> None:
    session = await named(cluster, 0)
    first = await session.append(b"again", seq=2)
    cluster.apply(Finalize(0))
    assert (await session.append(b"third", seq=3)).shard == 1
    again = await session.append(b"again", seq=2)
    assert (again.position, again.shard) == (first.position, 0)
    assert await values(cluster) == [b"first", b"again", b"third"]


async def test_plain_appends_go_elsewhere_and_their_session_ends(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: shards[0])
    assert (await log.append(b"a")).shard == 0
    cluster.is_holding = True
    pending = [await log.submit(b"%d" % number) for number in range(3)]
    await until(lambda: bool(cluster.pending))
    cluster.apply(Finalize(0))
    cluster.release()
    receipts = [await each for each in pending]
    assert {receipt.shard for receipt in receipts} == {1}
    assert (await log.append(b"b")).shard == 1
    await until(lambda: all(each.home.shard == 1 for each in cluster.state.sessions.by_id.values()))
    assert await values(cluster) == [b"a", b"0", b"1", b"2", b"b"]
    assert log._appends.under_way.inflight.bytes == 0, "nothing counts as under way"


async def test_a_grace_is_told_with_the_acknowledgement_and_only_new_records_move(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: shards[0])
    await log.append(b"a")
    cluster.apply(Finalize(0, cuts=100))
    assert (await log.append(b"b")).shard == 0, "it does not know yet"
    await until(lambda: log._context.order.view.shards[0].phase == "finalizing")
    assert (await log.append(b"c")).shard == 1
    with pytest.raises(ShardFinalized, match="finalizing"):
        await log.append_to_shard(0, b"d")
    await until(lambda: len(cluster.state.sessions.by_id) == 1)
    assert await values(cluster) == [b"a", b"b", b"c"]


async def reclaim_shard_0(cluster: FakeCluster) -> None:
    """Finalize it, and trim all that it has; nobody may have a session there."""
    cluster.apply(Finalize(0))
    cluster.apply(TrimTo(cluster.state.tail))
    assert [shard.shard for shard in cluster.state.view.shards] == [1]


async def test_a_read_that_waits_for_a_shard_which_goes_is_told_trimmed(cluster: FakeCluster) -> None:
    writer = await cluster.connect()
    await writer.append_to_shard(0, b"a")
    await writer.close()
    log = await cluster.connect()
    cluster.replicas[0][0].is_mute = True
    reading = asyncio.ensure_future(log.read(1))
    seeking = asyncio.ensure_future(log.subscribe(datetime.fromtimestamp(0, UTC)).poll(timeout=0.1))
    await until(lambda: len(cluster.replicas[0][0].connections) >= 1)
    await reclaim_shard_0(cluster)
    await cluster.replicas[0][0].stop()
    with pytest.raises(Trimmed):
        await reading
    assert await seeking == []
