"""A replica is told of more lanes than one message takes: in pieces, while the order goes on, by any way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.server.aggregators import aggregating
from tests.server.orderers import FakeReplica, Orderers, ask, cluster_file, joined, orderers, propose, speaking, until
from tests.server.test_aggregator_silence import Ignoring

from ithaca.engines.scalog.messages.reporting import Join, Joined, JoinedLanes
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.server.orderer import telling
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.connection import Connection

BOOTS = 6


@pytest.fixture(autouse=True)
def few_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "JOINED_LANES_MAX", 2)


class Taking(Ignoring):
    """A follower that keeps what it is told when it joins."""

    told: Joined | None = None
    boot: int | None = None

    def order_joined(self, joined: Joined) -> None:
        super().order_joined(joined)
        self.told = joined

    def order_knows(self, boot: int) -> None:
        self.boot = boot


@asynccontextmanager
async def following(address: Address) -> AsyncIterator[Taking]:
    """The next start of replica 0, as it follows the order."""
    taking = Taking()
    hello = Hello(VERSION_MIN, VERSION_MAX, "replica", "0/0")
    link = OrderLink((address,), Join(0, 0, BOOTS + 1), lambda: hello, taking, 60.0)
    task = asyncio.create_task(link.run())
    try:
        yield taking
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def start_again_and_again(address: Address, peer: FakeReplica) -> None:
    """Replica 0 has so many starts behind it, each with two records."""
    for boot in range(1, BOOTS + 1):
        replica = FakeReplica(0, 0, boot)
        async with joined(address, [replica]):
            for each in (replica, peer):
                each.report({replica.lane: 2, peer.lane: 0})
            await peer.hear_cut(boot)


def lengths(group: Orderers) -> dict[LaneId, int]:
    summary = group.up[1]._machine.state.summary(0)
    assert summary is not None
    return dict(summary.lengths)


async def test_a_replica_learns_of_all_lanes(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader, peer = group.address(await group.leader()), FakeReplica(0, 1)
        async with joined(leader, [peer]):
            await start_again_and_again(leader, peer)
            async with following(leader) as taking:
                await until(lambda: taking.told is not None)
            assert taking.told is not None
            assert len(lengths(group)) == BOOTS + 2
            assert dict(taking.told.summary.lengths) == lengths(group)
            assert taking.told.lane == LaneId(0, 0, BOOTS + 1)


async def test_pieces_come_first_and_are_not_said_again(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader, peer = group.address(await group.leader()), FakeReplica(0, 1)
        async with joined(leader, [peer]):
            await start_again_and_again(leader, peer)
            async with speaking(leader, "replica") as (connection, mailbox):
                connection.send(Join(0, 0, BOOTS + 1, takes_pieces=True), correlation=connection.next_correlation())
                pieces = [await mailbox.next(JoinedLanes) for _ in range(BOOTS // 2)]
                last = await mailbox.next(Joined)
            assert [len(piece.lengths) for piece in pieces] == [2] * (BOOTS // 2)
            assert {lane for lane, _ in last.summary.lengths} == {LaneId(0, 0, BOOTS + 1), peer.lane}


async def test_whoever_does_not_understand_pieces_is_told_in_one(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader, peer = group.address(await group.leader()), FakeReplica(0, 1)
        async with joined(leader, [peer]):
            await start_again_and_again(leader, peer)
            told = await ask(leader, Join(0, 0, BOOTS + 1), Joined)
            assert dict(told.summary.lengths) == lengths(group)


async def test_an_aggregator_passes_pieces_on(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (group, _, servers):
        address, peer = servers[1].address, FakeReplica(0, 1)
        async with joined(address, [peer]):
            await start_again_and_again(address, peer)
            async with following(address) as taking:
                await until(lambda: taking.told is not None)
            assert taking.told is not None
            assert dict(taking.told.summary.lengths) == lengths(group)


async def test_lanes_that_go_meanwhile_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_go_on, is_waiting = asyncio.Event(), asyncio.Event()

    async def drained(connection: Connection) -> None:
        is_waiting.set()
        await may_go_on.wait()

    monkeypatch.setattr(Connection, "drained", drained)
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader, peer = group.address(await group.leader()), FakeReplica(0, 1)
        async with joined(leader, [peer]):
            await start_again_and_again(leader, peer)
            async with following(leader) as taking:
                await is_waiting.wait()
                before = lengths(group)
                await propose(leader, TrimTo(2 * BOOTS - 1))
                may_go_on.set()
                await until(lambda: taking.told is not None)
            assert taking.told is not None
            assert len(lengths(group)) < len(before)
            assert dict(taking.told.summary.lengths) == lengths(group)


async def test_a_lane_that_was_closed_meanwhile_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start of the replica has come: the one that is still being told has to join again, and is too late."""
    may_go_on, is_waiting = asyncio.Event(), asyncio.Event()

    async def drained(connection: Connection) -> None:
        is_waiting.set()
        await may_go_on.wait()

    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader, peer = group.address(await group.leader()), FakeReplica(0, 1)
        async with joined(leader, [peer]):
            await start_again_and_again(leader, peer)
            monkeypatch.setattr(Connection, "drained", drained)
            async with following(leader) as taking:
                await is_waiting.wait()
                await ask(leader, Join(0, 0, BOOTS + 2), Joined)
                may_go_on.set()
                await until(lambda: taking.boot is not None)
            assert taking.told is None
            assert taking.boot == BOOTS + 2
