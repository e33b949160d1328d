"""Single records read through a handle: whom it asks, and what it believes of whom."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.client.fake_cluster import FakeCluster, fill

from ithaca.engines.scalog.client.links import Link
from ithaca.engines.scalog.messages.reading import Read
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.model.errors import Corrupt, InvalidInput, Lost, NotWritten, Trimmed
from ithaca.model.limits import TRIM_SEEN_TIMEOUT_S
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(shards=3) as cluster:
        yield cluster


async def test_a_read_asks_the_shard_that_is_known_and_else_all(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    values = await fill(log, 12)
    other = await cluster.connect()
    for reader in (log, other):
        for position, value in enumerate(values, 1):
            record = await reader.read(position)
            assert (record.value, record.position) == (value, position)
            assert (await reader.read(position, shard=record.shard)) == record


async def test_a_read_waits_for_a_replica_that_is_behind(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    for shard in cluster.replicas:
        for replica in shard:
            replica.readable_max = 1
    receipt = await log.append(b"a")
    reading = asyncio.ensure_future((await cluster.connect()).read(receipt.position))
    await asyncio.sleep(0.05)
    assert not reading.done()
    for shard in cluster.replicas:
        for replica in shard:
            replica.readable_max = None
    await log.append(b"b")
    assert (await reading).value == b"a"


async def test_damage_is_read_from_another_replica(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    receipt = await log.append(b"a")
    cluster.replicas[0][0].is_corrupt = True
    for _ in range(8):
        assert (await (await cluster.connect()).read(receipt.position)).value == b"a"


async def test_what_is_damaged_everywhere_is_corrupt_at_once(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    damaged = await log.append(b"a")
    for replica in cluster.replicas[0]:
        replica.is_corrupt = True
    other = await (await cluster.connect(shard_policy=lambda key, shards: 1)).append(b"b")
    for _ in range(4):
        reader = await cluster.connect(timeout=3600)
        with pytest.raises(Corrupt):
            await reader.read(damaged.position)
        assert (await reader.read(other.position)).value == b"b"


async def test_what_a_range_has_shown_is_asked_of_one_shard(cluster: FakeCluster) -> None:
    await fill(await cluster.connect(shard_policy="round_robin"), 9)
    log = await cluster.connect()
    seen = [(record.position, record.shard) async for record in log.read_range(1)]
    assert {shard for _, shard in seen} == {0, 1, 2}
    assert [(position, log._context.seen.shard_of(position)) for position, _ in seen] == seen


async def test_a_trim_gives_each_server_its_time_to_say_that_it_knows(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await cluster.connect()
    await log.append_many([b"0", b"1"])
    links, given = log._context.links, list[float]()
    dial, request = links.link, Link.request

    async def dialled(address: Address, timeout_s: float = 0) -> Link:
        given.append(timeout_s)
        return await dial(address, timeout_s)

    async def asked(link: Link, message: Message, timeout_s: float = 60, *more: Any) -> Received:
        if isinstance(message, Read):
            given.append(timeout_s)
        return await request(link, message, timeout_s, *more)

    monkeypatch.setattr(links, "link", dialled)
    monkeypatch.setattr(Link, "request", asked)
    await log.trim(2)
    assert len(given) >= 12, "all six replicas are dialled, and asked"
    assert min(given) > TRIM_SEEN_TIMEOUT_S / 20


async def test_that_a_position_is_trimmed_is_believed_of_the_leader_alone(cluster: FakeCluster) -> None:
    """Replicas may not have heard of it, and have nothing there all the same."""
    log = await cluster.connect(timeout=2)
    await log.append_many([b"a", b"b", b"c"])
    cluster.apply(TrimTo(3))
    for shard in cluster.replicas:
        for replica in shard:
            replica.readable_max = 1
    with pytest.raises(Trimmed) as told:
        await log.read(2)
    assert told.value.first == 3


async def test_a_replica_that_lacks_what_is_ordered_is_passed_over(cluster: FakeCluster) -> None:
    """It may have to fetch a whole lane before it can answer, and its peer has the record."""
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    receipt = await log.append(b"a")
    cluster.replicas[0][0].is_missing_from = receipt.position
    for _ in range(8):
        assert (await (await cluster.connect()).read(receipt.position)).value == b"a"


async def test_a_wait_is_satisfied_from_any_shard(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy="round_robin")
    reading = [asyncio.ensure_future(log.read(position, wait=10)) for position in range(1, 7)]
    await asyncio.sleep(0.02)
    for n in range(6):
        await log.append(b"%d" % n)
    assert [(await each).value for each in reading] == [b"%d" % n for n in range(6)]
    with pytest.raises(NotWritten):
        await log.read(7, wait=0.02)


async def test_a_handle_finds_shards_that_came_later(cluster: FakeCluster) -> None:
    log, unaware = await cluster.connect(), await cluster.connect()
    await cluster.add_shard()
    writer = await cluster.connect(shard_policy=lambda key, shards: 3)
    receipt = await writer.append(b"new")
    assert receipt.shard == 3
    assert (await log.read(receipt.position)).value == b"new"
    assert (await log.read(receipt.position, shard=3)).value == b"new"
    assert (await unaware.append_to_shard(3, b"there")).shard == 3
    for call in (log.read(1, shard=9), log.append_to_shard(9, b"nowhere")):
        with pytest.raises(InvalidInput, match="shard 9"):
            await call


async def test_what_is_lost_is_said_and_not_asked_elsewhere(cluster: FakeCluster) -> None:
    log = await cluster.connect(shard_policy=lambda key, shards: 0)
    receipt = await log.append(b"a")

    async def lost(*arguments: object) -> None:
        raise Lost("gone", start=1, stop=2)

    for replica in cluster.replicas[0]:
        replica._read = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(Lost) as caught:
        await log.read(receipt.position)
    assert (caught.value.start, caught.value.stop) == (1, 2)
