"""Shards that are added and finalized through a handle: what is refused, and what may be repeated."""

import asyncio
from typing import Any

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.engines.scalog.ordering.entries import Finalize, RegisterShard, TrimTo
from ithaca.model.errors import (
    AddressInUse,
    DeadlineExceeded,
    InvalidInput,
    LastShard,
    LogClosed,
    NoSuchSession,
    NoSuchShard,
    ShardFinalized,
)
from ithaca.model.limits import SHARD_NUMBER_MAX
from ithaca.model.view import Address

NEW = ["10.0.0.7:7610", "10.0.0.8:7610"]
OTHERS = ["10.0.0.9:7610", "10.0.0.9:7611", "10.0.0.9:7612"]


async def test_a_shard_gets_the_next_number_and_the_same_one_again() -> None:
    async with FakeCluster(shards=2) as cluster:
        admin = (await cluster.connect()).admin
        assert await admin.add_shard(NEW) == 2
        assert await admin.add_shard(NEW) == 2
        assert await admin.add_shard(OTHERS, masking=True) == 3
        added = [(each.shard, each.f, each.masking, each.phase) for each in (await admin.shards())[2:]]
        assert added == [(2, 1, False, "live"), (3, 1, True, "live")]
        addresses = [replica.address for replica in (await admin.shards())[3].replicas]
        assert addresses == OTHERS


async def test_the_first_and_the_last_number_are_numbers() -> None:
    async with FakeCluster(shards=1) as cluster:
        admin = (await cluster.connect()).admin
        first = [replica.address for replica in (await admin.shards())[0].replicas]
        assert await admin.add_shard(first, shard=0) == 0
        assert await admin.add_shard(NEW, shard=SHARD_NUMBER_MAX) == SHARD_NUMBER_MAX
        with pytest.raises(InvalidInput, match=f"use a whole number from 0 to {SHARD_NUMBER_MAX}"):
            await admin.add_shard(OTHERS, shard=SHARD_NUMBER_MAX + 1)


async def test_a_number_that_was_chosen_meanwhile_or_ever_is_passed_over() -> None:
    async with FakeCluster(shards=1) as cluster:
        admin = (await cluster.connect()).admin
        cluster.apply(RegisterShard(1, 0, False, ((0, Address("10.0.0.1", 1)),)))
        cluster.apply(Finalize(1))
        cluster.apply(TrimTo(1))  # it is reclaimed
        assert await admin.add_shard(NEW) == 2
        with pytest.raises(InvalidInput, match="never used again"):
            await admin.add_shard(OTHERS, shard=1)
        assert await admin.add_shard(OTHERS, shard=9) == 9
        assert await admin.add_shard(OTHERS, shard=9) == 9


async def test_two_who_add_at_once_get_two_shards() -> None:
    async with FakeCluster(shards=1) as cluster:
        one, other = (await cluster.connect()).admin, (await cluster.connect()).admin
        numbers = await asyncio.gather(one.add_shard(NEW), other.add_shard(OTHERS))
        assert sorted(numbers) == [1, 2]


async def test_an_address_belongs_to_one_server() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect()
        taken = str(cluster.replicas[0][1].address)
        with pytest.raises(AddressInUse, match=f"{taken} is the address of replica 0/1"):
            await log.admin.add_shard(["10.0.0.7:7610", taken])
        with pytest.raises(AddressInUse, match="an orderer"):
            await log.admin.add_shard([cluster.bootstrap])
        await log.admin.finalize_shard(0)
        with pytest.raises(AddressInUse, match="finalized"):
            await log.admin.add_shard([str(each.address) for each in cluster.replicas[0]])


@pytest.mark.parametrize(
    ("replicas", "arguments"),
    [
        ([], {}),
        ("10.0.0.7:7610", {}),
        (["10.0.0.7"], {}),
        (["10.0.0.7:7610"] * 2, {}),
        (NEW, {"masking": True}),
        ([f"10.0.0.7:{port}" for port in range(1, 20)], {}),
        (NEW, {"shard": -1}),
    ],
)
async def test_what_cannot_be_a_shard_is_refused(replicas: Any, arguments: dict[str, Any]) -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        with pytest.raises(InvalidInput):
            await log.admin.add_shard(replicas, **arguments)
        assert len(await log.admin.shards()) == 1


async def test_a_shard_is_finalized_once() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect()
        await log.admin.finalize_shard(0)
        await log.admin.finalize_shard(0, grace_cuts=7)
        assert [each.phase for each in await log.admin.shards()] == ["finalized", "live"]
        assert not any(replica.is_open for replica in (await log.admin.shards())[0].replicas)


async def test_finalizing_a_shard_that_is_reclaimed_by_now_is_done() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect()
        await log.admin.finalize_shard(0)
        cluster.apply(TrimTo(1))
        await log.admin.finalize_shard(0)
        assert [each.shard for each in await log.admin.shards()] == [1]
        with pytest.raises(InvalidInput):
            await log.admin.finalize_shard(-1)


async def test_the_last_shard_and_one_that_is_not_there() -> None:
    async with FakeCluster(shards=1) as cluster:
        log = await cluster.connect()
        with pytest.raises(NoSuchShard, match="there is no shard 7: the cluster has 0"):
            await log.admin.finalize_shard(7)
        with pytest.raises(LastShard, match="add another first"):
            await log.admin.finalize_shard(0)
        await log.admin.finalize_shard(0, force=True)
        assert (await log.admin.shards())[0].phase == "finalized"


async def test_a_grace_is_waited_for_and_can_be_cut_short() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect(timeout=0.2)
        await log.admin.finalize_shard(0, grace_cuts=100, wait=False)
        assert (await log.admin.shards())[0].phase == "finalizing"
        with pytest.raises(DeadlineExceeded, match="still finalizing"):
            await log.admin.finalize_shard(0, grace=0.01)
        await log.admin.finalize_shard(0)
        assert (await log.admin.shards())[0].phase == "finalized"
        for arguments in ({"grace_cuts": -1}, {"grace": -0.1}, {"grace": float("nan")}):
            with pytest.raises(InvalidInput):
                await log.admin.finalize_shard(1, **arguments)


async def test_a_finalized_shard_takes_no_append_of_its_own() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect()
        assert (await log.append_to_shard(0, b"a")).shard == 0
        await log.admin.finalize_shard(0)
        with pytest.raises(ShardFinalized, match="shard 0"):
            await log.append_to_shard(0, b"b")
        with pytest.raises(NoSuchShard):
            await log.append_to_shard(5, b"b")
        assert (await log.append_to_shard(1, b"b")).shard == 1


async def test_a_handle_that_was_closed_administers_nothing() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        await log.close()
        for call in (log.admin.add_shard(NEW), log.admin.finalize_shard(0), log.admin.shards()):
            with pytest.raises(LogClosed):
                await call


async def test_each_replica_is_told_of_with_the_lane_that_it_has_or_none() -> None:
    async with FakeCluster(shards=1) as cluster:
        admin = (await cluster.connect()).admin
        await admin.add_shard(NEW)
        there, new = await admin.shards()
        assert [(each.lane, each.is_open) for each in there.replicas] == [("0-0-1", True), ("0-1-1", True)]
        assert [(each.lane, each.is_open) for each in new.replicas] == [(None, False), (None, False)]


async def test_the_session_of_a_handle_ends_with_its_shard_though_nothing_more_is_appended() -> None:
    async with FakeCluster(shards=2) as cluster:
        log = await cluster.connect()
        (lane,) = {(await log.append(b"a")).shard}
        assert [each.home.shard for each in cluster.state.sessions.by_id.values()] == [lane]
        await log.admin.finalize_shard(lane)
        await cluster.when(lambda: not cluster.state.sessions.by_id)


async def test_a_session_expires_by_its_name() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        for name in ("one", "two", "three"):
            await log.session(name)
        await log.admin.expire_session("two")
        assert {each.name for each in cluster.state.sessions.by_id.values()} == {"one", "three"}
        with pytest.raises(NoSuchSession, match="'two'"):
            await log.admin.expire_session("two")
