"""Prepared parts over the wire: what the leader seals, waits for and refuses, and what a replica takes."""

import asyncio
from pathlib import Path

import pytest
from tests.server.orderers import FakeReplica, client, cluster_file, joined, orderers, propose
from tests.server.raw_client import RawClient, batch_of

from ithaca.engines.scalog.messages.appending import AppendPart, FinishPart, GetPart, PartIs, PartSynced
from ithaca.engines.scalog.messages.order import Applied
from ithaca.engines.scalog.ordering.entries import OrderingEntry
from ithaca.engines.scalog.ordering.prepared.entries import AbortParts, ExpireParts, OpenPart, Publish, SealPart
from ithaca.engines.scalog.ordering.prepared.outcomes import (
    PartDropped,
    PartOpened,
    PartSealed,
    PartsPublished,
    StagedPart,
)
from ithaca.model.cut import ShardCut
from ithaca.model.errors import InvalidInput, PartGone, Unavailable, WrongLane
from ithaca.model.limits import PART_INCARNATION_MIN
from ithaca.model.parts import Published
from ithaca.model.positions import LaneId
from ithaca.testing import Cluster
from ithaca.wire.batch import Batch

TOKEN, HOUR_US = bytes(range(16)), 3_600_000_000
PART = LaneId(0, 0, PART_INCARNATION_MIN)


async def test_a_part_is_sealed_when_enough_replicas_have_it_and_published(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        one, two = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(leader, [one, two]), client(leader) as asking:
            [opened] = await propose(leader, OpenPart(one.lane, TOKEN, HOUR_US))
            assert isinstance(opened, PartOpened)
            assert opened.part.until_us > HOUR_US, "it lives by the leader's clock"
            assert (await one.hear(PartOpened)).part == opened.part
            assert (await two.hear(PartOpened)).part == opened.part
            finishing = asyncio.create_task(asking.request(FinishPart(PART, TOKEN, 3)))
            one.report({PART: 3})
            two.report({PART: 2})
            answer = (await asking.request(GetPart(PART, TOKEN))).message
            assert isinstance(answer, PartIs)
            assert isinstance(answer.part, StagedPart)
            assert not finishing.done()
            two.report({PART: 3})
            assert (await finishing).message == Applied((PartSealed(PART, 3),))
            assert (await one.hear(PartSealed)).length == 3
            assert (await asking.request(FinishPart(PART, TOKEN, 3))).message == Applied((PartSealed(PART, 3),))
            published = PartsPublished(Published("w", 1, "", 1, 3))
            assert await propose(leader, Publish("w", 1, "", ((PART, TOKEN),))) == (published,)
            cut = await one.hear(ShardCut)
            assert [(run.lane, run.position, run.count) for run in cut.runs] == [(PART, 1, 3)]
            assert (await asking.request(GetPart(PART, TOKEN))).message == PartIs(None)


async def test_what_cannot_be_finished_is_refused(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        replica = FakeReplica(0, 0)
        async with joined(leader, [replica]), client(leader) as asking:
            await propose(leader, OpenPart(replica.lane, TOKEN, HOUR_US))
            with pytest.raises(PartGone):
                await asking.request(FinishPart(PART, bytes(16), 0))
            replica.report({PART: 5})
            first = asyncio.create_task(asking.request(FinishPart(PART, TOKEN, 9)))
            await asyncio.sleep(0)
            second = asyncio.create_task(asking.request(FinishPart(PART, TOKEN, 9)))
            with pytest.raises(Unavailable, match="later request"):
                await first
            assert await propose(leader, AbortParts(((PART, TOKEN),))) == (PartDropped(PART),)
            with pytest.raises(PartGone):
                await second
            await propose(leader, OpenPart(replica.lane, TOKEN, HOUR_US))
            other = PART._replace(incarnation=PART.incarnation + 1)
            replica.report({other: 5})
            with pytest.raises(InvalidInput, match="has 5 records"):
                await asking.request(FinishPart(other, TOKEN, 4))


async def test_parts_expire_by_the_leaders_clock(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        replica = FakeReplica(0, 0)
        async with joined(leader, [replica]):
            await propose(leader, OpenPart(replica.lane, TOKEN, 1_000_000))
            assert (await asyncio.wait_for(replica.hear(PartDropped), 30)).lane == PART


@pytest.mark.parametrize("entry", [SealPart(PART, TOKEN, 1, 1), ExpireParts((PART,), 1 << 60)], ids=["seal", "expire"])
async def test_what_is_the_leaders_own_is_not_proposed_by_clients(entry: OrderingEntry, tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        with pytest.raises(InvalidInput, match="clients may not propose"):
            await propose(group.address(await group.leader()), entry)


async def known(replica: RawClient, message: AppendPart, batch: Batch) -> object:
    """The answer, once the replica has heard of the part."""
    while True:
        try:
            return await replica.ask(message, batch.buffers())
        except WrongLane:
            await asyncio.sleep(0.01)


async def test_a_replica_takes_what_its_maker_sends_and_nothing_else(tmp_path: Path) -> None:
    with Cluster(tmp_path, replicas=1) as cluster:
        orderer = await RawClient.connect(cluster.file.orderers[0].address)
        replica = await RawClient.connect(cluster.file.replica(0, 0).address)
        with pytest.raises(WrongLane, match="not written here"):
            await replica.ask(AppendPart(PART, TOKEN, 0), batch_of(b"x").buffers())
        assert isinstance(await orderer.propose(OpenPart(LaneId(0, 0, 1), TOKEN, HOUR_US)), PartOpened)
        batch = batch_of(b"a", b"b")
        assert await known(replica, AppendPart(PART, TOKEN, 0), batch) == PartSynced(2)
        assert await replica.ask(AppendPart(PART, TOKEN, 0), batch.buffers()) == PartSynced(2)
        with pytest.raises(InvalidInput, match="another client"):
            await replica.ask(AppendPart(PART, bytes(16), 2), batch.buffers())
        with pytest.raises(Unavailable, match="goes on at 2"):
            await replica.ask(AppendPart(PART, TOKEN, 5), batch.buffers())
        mine = batch_of(b"c", producer=(1, 1, 1))
        with pytest.raises(InvalidInput, match="belongs to no session"):
            await replica.ask(AppendPart(PART, TOKEN, 2), mine.buffers())
        with pytest.raises(InvalidInput, match="exactly one batch"):
            await replica.ask(AppendPart(PART, TOKEN, 2), [*batch.buffers(), *batch.buffers()])
        for each in (orderer, replica):
            each.connection.abort()
