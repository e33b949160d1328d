"""Ranges and subscriptions over several shards (the package's numbers 4 to 7)."""

import asyncio
import gc
import random
from collections.abc import AsyncIterator

import pytest
from tests.client.fake_cluster import FakeCluster, fill, until

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.messages.order import TailReply
from ithaca.engines.scalog.ordering.entries import Finalize, TrimTo
from ithaca.model.errors import Corrupt, Trimmed, Unavailable
from ithaca.model.limits import MIB, STREAM_BUFFER_BYTES_MAX
from ithaca.model.records import KeyFilter, Record


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(shards=3) as cluster:
        yield cluster


def slow_down(cluster: FakeCluster, seed: int) -> None:
    chance = random.Random(seed)

    async def pause() -> None:
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.003]))

    for shard in cluster.replicas:
        for replica in shard:
            replica.before_deliver = pause


async def take(records: AsyncIterator[Record], count: int) -> list[Record]:
    return [await anext(records) for _ in range(count)]


async def test_shards_are_merged_by_position_whatever_their_speed(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    slow_down(cluster, 1)
    async with log.subscribe("earliest") as subscription:
        values = await fill(log, 60)
        records = await take(subscription, len(values))
        assert [record.value for record in records] == values
        assert [record.position for record in records] == list(range(1, len(values) + 1))
        assert {record.shard for record in records} == {0, 1, 2}
    assert [record.value async for record in log.read_range(5, 20)] == values[4:19]


async def test_connections_that_end_do_not_disturb_a_subscription(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    chance = random.Random(3)
    found: list[bytes] = []
    async with log.subscribe(1) as subscription:
        expected: list[bytes] = []
        for n in range(20):
            expected += [b"%d" % n] * 3
            await log.append_many([b"%d" % n] * 3)
            chance.choice(cluster.replicas[n % 3]).drop_connections()
            found += [record.value for record in await subscription.poll(timeout=0.002)]
        while len(found) < len(expected):
            found += [record.value for record in await subscription.poll(timeout=10)]
    assert found == expected


async def test_a_replica_that_is_gone_is_replaced_by_another(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 1)
    async with log.subscribe(1) as subscription:
        await log.append(b"a")
        assert (await anext(subscription)).value == b"a"
        serving = next(replica for replica in cluster.replicas[1] if replica.streams)
        await serving.stop()
        await log.append(b"b")
        assert (await anext(subscription)).value == b"b"


async def test_a_filter_is_not_stalled_by_quiet_shards(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 2 if key == b"k1" else 0)
    slow_down(cluster, 2)
    async with log.subscribe(1, where=KeyFilter.equals(b"k1")) as subscription:
        for n in range(10):
            await log.append_many([b"no", b"yes %d" % n, b"no"], keys=[None, b"k1", b"k2"])
        for n in range(10):
            assert (await log.append(b"more %d" % n, key=b"k1")).shard == 2
        found = await take(subscription, 20)
        assert [record.value for record in found] == [b"yes %d" % n for n in range(10)] + [
            b"more %d" % n for n in range(10)
        ]
        assert [record.position for record in found] == [3 * n + 2 for n in range(10)] + list(range(31, 41))
        await log.append(b"unmatched", key=b"k3")
        await log.append(b"unmatched")
        assert await subscription.poll(timeout=0.05) == []
        assert subscription.position == 43


@pytest.mark.parametrize("where", [None, KeyFilter.prefix(b"k")], ids=["all", "filtered"])
async def test_a_shard_that_is_added_is_streamed_from_the_right_place(
    cluster: FakeCluster, where: KeyFilter | None
) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    slow_down(cluster, 4)
    async with log.subscribe("earliest", where=where) as subscription:
        values = await fill(log, 12)
        assert [record.value for record in await take(subscription, 5)] == values[:5]
        await cluster.add_shard()
        writer = await cluster.connect(shard_policy=lambda key, shards: 3)
        new = [b"new %d" % n for n in range(10)]
        for value in new:
            assert (await writer.append(value, key=b"k")).shard == 3
        found = [record.value for record in await take(subscription, len(values) - 5 + 10)]
        assert found == values[5:] + new


async def test_a_slow_consumer_holds_the_servers_back_and_not_the_memory(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    count, size = 60, MIB
    for n in range(count):
        await log.append(bytes([n]) * size)
    async with log.subscribe(1) as subscription:
        assert (await anext(subscription)).position == 1
        stream = subscription._streams[0]
        await until(lambda: stream.connection.is_paused)
        assert stream.connection.buffered_bytes <= STREAM_BUFFER_BYTES_MAX + 4 * MIB
        delivered = sum(replica.delivered_bytes for replica in cluster.replicas[0])
        assert delivered < count * size
        rest = await take(subscription, count - 1)
        assert [record.value[0] for record in rest] == list(range(1, count))
        assert sum(replica.streams for replica in cluster.replicas[0]) == 1, "the same stream has gone on"


async def test_polling_without_waiting_lets_the_loop_receive(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await log.append_many([b"a", b"b"])
    async with asyncio.timeout(10), log.subscribe(1) as subscription:
        found: list[Record] = []
        while len(found) < 2:
            found += await subscription.poll()
        assert [record.value for record in found] == [b"a", b"b"]


async def test_a_range_that_does_not_go_on_says_why(cluster: FakeCluster) -> None:
    log = await cluster.connect(timeout=0.4, shard_policy=lambda key, shards: 1)
    await log.append(b"a")
    for replica in cluster.replicas[1]:
        await replica.stop()
    with pytest.raises(Unavailable, match="shard 1"):
        await anext(log.read_range(1))
    for replica in cluster.replicas[1]:
        await replica.start()


async def test_a_range_asks_for_nothing_behind_its_end(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await log.append_many([b"a", b"b", b"c"])
    for stop, asked in [(None, 4), (9, 4), (3, 3)]:
        async with log.read_range(1, stop) as records:
            assert [record.value async for record in records] == [b"a", b"b", b"c"][: asked - 1]
        for shard in cluster.replicas:
            assert {each for replica in shard for each in replica.asked_to} == {asked}
            for replica in shard:
                replica.asked_to.clear()


async def test_a_silent_replica_is_left_when_the_leader_knows_more(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ithaca.engines.scalog.client.read.records.STREAM_SILENT_S", 0.05)
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    async with log.subscribe(1) as subscription:
        await until(lambda: any(replica.streams for replica in cluster.replicas[0]))
        for replica in cluster.replicas[0]:
            if replica.streams:
                replica.readable_max = 1
        await log.append(b"a")
        assert (await asyncio.wait_for(anext(subscription), 10)).value == b"a"


async def test_a_trim_under_a_subscription_is_said_after_what_came_before(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await log.append_many([b"a", b"b"])
    async with log.subscribe(1) as subscription:
        assert (await anext(subscription)).value == b"a"
        for shard in cluster.replicas:
            for replica in shard:
                replica.readable_max = 3
        await log.append_many([b"c", b"d"])
        await log.trim(4)
        for shard in cluster.replicas:
            for replica in shard:
                replica.readable_max = None
                replica.drop_connections()
        assert (await anext(subscription)).value == b"b"
        with pytest.raises(Trimmed) as caught:
            await anext(subscription)
        assert caught.value.first == 4


async def test_an_iteration_that_is_abandoned_ends_its_streams(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await log.append_many([b"a", b"b"])
    async for _ in log.subscribe(1):
        break
    assert sum(replica.streams for shard in cluster.replicas for replica in shard) == 3
    gc.collect()
    await until(lambda: sum(len(each.connections) for shard in cluster.replicas for each in shard) <= 1)
    assert (await log.append(b"c")).position == 3


async def test_a_poll_that_is_cancelled_while_it_begins_leaves_that_to_the_next(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await cluster.connect()
    await log.append(b"a")
    asked, gate, tail = list[Deadline](), asyncio.Event(), Order.tail

    async def slow(order: Order, deadline: Deadline) -> TailReply:
        asked.append(deadline)
        await gate.wait()
        return await tail(order, deadline)

    monkeypatch.setattr(Order, "tail", slow)
    subscription = log.subscribe(1)
    first = asyncio.ensure_future(subscription.poll(timeout=10))
    await until(lambda: bool(asked))
    first.cancel()
    await asyncio.wait([first])
    second = asyncio.ensure_future(subscription.poll(timeout=10))
    await asyncio.sleep(0.01)
    gate.set()
    assert [record.value for record in await second] == [b"a"]
    assert len(asked) == 1
    await subscription.close()


async def test_damage_that_every_replica_meets_ends_a_subscription_with_it(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    await log.append(b"a")

    async def damaged() -> None:
        raise Corrupt("a record is damaged")

    for replica in cluster.replicas[0]:
        replica.before_deliver = damaged
    with pytest.raises(Corrupt, match="damaged"):
        await asyncio.wait_for(anext(log.subscribe(1)), 10)


async def test_shards_come_and_go_under_a_subscription(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    slow_down(cluster, 3)
    async with log.subscribe("earliest") as subscription:
        values = await fill(log, 12)
        await cluster.add_shard()
        await log.admin.finalize_shard(1)
        values += await fill(log, 12)
        await log.admin.finalize_shard(0)
        values += await fill(log, 12)
        records = await take(subscription, len(values))
    assert [record.value for record in records] == values
    assert {record.shard for record in records[-12:]} <= {2, 3}
    assert {record.shard for record in records} == {0, 1, 2, 3}


@pytest.mark.parametrize("where", [None, KeyFilter.equals(b"k")])
async def test_all_shards_of_a_subscription_may_go_at_once(where: KeyFilter | None) -> None:
    async with FakeCluster(shards=1, replicas=1) as cluster:
        log = await cluster.connect()
        async with log.subscribe("earliest", where=where) as subscription:
            assert await subscription.poll(timeout=0.05) == []
            for replica in cluster.replicas[0]:
                replica.is_mute = True
                replica.drop_connections()
            await cluster.add_shard()
            cluster.apply(Finalize(0))
            cluster.apply(TrimTo(1))
            assert [shard.shard for shard in cluster.state.view.shards] == [1]
            await cluster.replicas[0][0].stop()
            await log.append(b"new", key=b"k")
            assert [record.value for record in await subscription.poll(timeout=10)] == [b"new"]


@pytest.mark.parametrize("where", [None, KeyFilter.equals(b"k")])
async def test_who_waits_for_a_shard_that_is_trimmed_and_gone_is_told(
    cluster: FakeCluster, where: KeyFilter | None
) -> None:
    log, other = await cluster.connect(), await cluster.connect()
    await log.append_to_shard(0, b"old", key=b"k")
    await log.append_to_shard(1, b"new", key=b"k")
    for replica in cluster.replicas[0]:
        replica.is_mute = True
    async with other.subscribe(1, where=where) as subscription:
        assert await subscription.poll(timeout=0.05) == []
        await log.admin.finalize_shard(0)
        await log.append_to_shard(1, b"newer")  # the handle learns of it, and its session in the shard ends
        await until(lambda: all(session.home.shard for session in cluster.state.sessions.by_id.values()))
        cluster.apply(TrimTo(2))
        with pytest.raises(Trimmed):
            await subscription.poll(timeout=10)
    async with log.subscribe("earliest", where=where) as subscription:
        assert (await subscription.poll(timeout=10))[0].value == b"new"
