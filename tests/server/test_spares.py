"""Spares and learners as a leader sees them: who is told what, and whose word counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.ordering.building import CONFIGURATION, shard_entry
from tests.server.orderers import client, cluster_file, orderers

from ithaca.engines.scalog.messages.order import AdmissionIs
from ithaca.engines.scalog.messages.reporting import Enlist, Enlisted, Join, Joined
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    Configure,
    OrderingEntry,
    RegisterShard,
    RemoveReplica,
    encode_entry,
)
from ithaca.engines.scalog.ordering.state import OrderingState
from ithaca.engines.scalog.server.orderer import spares
from ithaca.engines.scalog.server.orderer.spares import Spares
from ithaca.model.errors import AddressInUse, NoSuchReplica, NoSuchShard
from ithaca.model.limits import LEARNER_UNASKED_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Shard
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.connection import Connection, dial
from ithaca.runtime.listener import listen
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter


class Leader:
    """A state and its spares behind a real socket."""

    def __init__(self) -> None:
        self.state = OrderingState()
        self.spares = Spares(self.state)
        self.heard = asyncio.Event()
        self.apply(Configure(CONFIGURATION), shard_entry(0, f=1))

    def apply(self, *entries: OrderingEntry) -> None:
        for entry in entries:
            self.state.apply(self.state.index + 1, entry)
        self.spares.view_changed()

    @property
    def shard(self) -> Shard:
        return self.state.shards.by_number[0]

    def on_message(self, connection: Connection, received: Received) -> None:
        assert isinstance(received.message, Enlist)
        self.spares.enlist(connection, received, received.message.address)
        self.heard.set()

    def on_lost(self, connection: Connection, error: object) -> None:
        self.spares.lost(connection)


class Spare:
    def on_message(self, connection: Connection, received: Received) -> None:
        raise AssertionError(received)

    def on_lost(self, connection: Connection, error: object) -> None:
        pass


AT, OTHER = Address("10.0.0.7", 1), Address("10.0.0.8", 1)


@asynccontextmanager
async def leading() -> AsyncIterator[tuple[Leader, Address]]:
    leader = Leader()
    listener = await listen(
        Address("127.0.0.1", 0),
        accept=lambda *_: leader,
        welcome=lambda: Welcome(VERSION_MAX, "orderer"),
        http=lambda path: None,
    )
    try:
        yield leader, listener.address
    finally:
        await listener.close()


async def enlisted(leader: Leader, where: Address, address: Address) -> "asyncio.Task[Enlisted]":
    connection = await dial(where, Hello(VERSION_MIN, VERSION_MAX, "replica"), Spare())

    async def ask() -> Enlisted:
        answer = (await connection.request(Enlist(address), timeout=20)).message
        assert isinstance(answer, Enlisted)
        return answer

    task = asyncio.create_task(ask())
    async with asyncio.timeout(20):
        await leader.heard.wait()
    leader.heard.clear()
    return task


async def test_a_spare_learns_the_shard_that_it_is_named_for_under_a_new_number() -> None:
    async with leading() as (leader, where):
        assert leader.spares.admission(0, AT) == AdmissionIs("absent")
        spare = await enlisted(leader, where, AT)
        assert leader.spares.admission(0, AT) == AdmissionIs("learning", 2)
        assert await spare == Enlisted(0, 2)
        again = await enlisted(leader, where, AT)
        assert await again == Enlisted(0, 3), "its disk was lost, and with it whatever it was"
        other = await enlisted(leader, where, OTHER)
        assert leader.spares.learn(leader.shard)
        assert await other == Enlisted(0, 4)


async def test_a_learner_in_whose_place_another_was_added_does_not_begin_again() -> None:
    async with leading() as (leader, where):
        first, second = [await enlisted(leader, where, address) for address in (AT, OTHER)]
        for address in (AT, OTHER):
            leader.spares.admission(0, address)
        assert [await first, await second] == [Enlisted(0, 2), Enlisted(0, 3)]
        leader.apply(RemoveReplica(0, 1, 0), AddReplica(0, 2, 3, OTHER))
        again = await enlisted(leader, where, AT)
        assert len(leader.spares) == 1, "it waits for another place"
        assert leader.spares.learners_of(0) == 0
        again.cancel()


async def test_a_spare_is_what_the_view_has_at_its_address() -> None:
    async with leading() as (leader, where):
        spare = await enlisted(leader, where, AT)
        leader.apply(RegisterShard(1, 0, False, ((0, AT),)))
        assert await spare == Enlisted(1, 0)
        assert await (await enlisted(leader, where, AT)) == Enlisted(1, 0)
        assert isinstance(leader.spares.admission(0, AT), AddressInUse)
        assert leader.spares.admission(1, AT) == AdmissionIs("added", 0)
        assert isinstance(leader.spares.admission(7, AT), NoSuchShard)


async def test_who_may_learn() -> None:
    async with leading() as (leader, where):
        connection = await dial(where, Hello(VERSION_MIN, VERSION_MAX, "replica"), Spare())
        assert leader.spares.joins(leader.shard, 2, AT, connection) is None
        assert isinstance(leader.spares.joins(leader.shard, 2, OTHER, connection), NoSuchReplica), "that is another"
        assert isinstance(leader.spares.joins(leader.shard, 1, OTHER, connection), NoSuchReplica), "it was used"
        assert isinstance(leader.spares.joins(leader.shard, 3, None, connection), NoSuchReplica)
        leader.apply(RemoveReplica(0, 1, 0), AddReplica(0, 2, 2, AT))
        assert leader.spares.learners_of(0) == 0
        assert leader.spares.admission(0, AT) == AdmissionIs("added", 2)


@pytest.mark.parametrize("count", [1, 2])
async def test_spares_are_taken_only_if_there_are_enough(count: int) -> None:
    async with leading() as (leader, where):
        waiting = [await enlisted(leader, where, address) for address in (AT, OTHER)[:count]]
        assert leader.spares.take(2) == ([AT, OTHER] if count == 2 else None)
        for task in waiting:
            task.cancel()


async def test_nobody_is_turned_away_before_it_is_certain_who_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was deposed does not know whom its successor has added."""
    async with orderers(cluster_file(1), tmp_path) as group:
        address = group.address(await group.leader())
        asked: asyncio.Queue[Waiter] = asyncio.Queue()
        monkeypatch.setattr(RaftDriver, "submit_read", lambda _, waiter: asked.put_nowait(waiter))
        for join in (Join(0, 7, 1), Join(0, 7, 1, address=AT), Join(0, 0, 1, address=AT)):
            async with client(address) as replica:
                answer = asyncio.create_task(replica.request(join, timeout=20))
                async with asyncio.timeout(20):
                    waiter = await asked.get()
                assert not answer.done()
                if join.replica == 7 and join.address is not None:
                    waiter.done(1)
                    assert isinstance((await answer).message, Joined)
                else:
                    waiter.done(1)
                    with pytest.raises(NoSuchReplica):
                        await answer


async def test_whom_a_former_leader_does_not_know_is_let_in_once_the_order_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with orderers(cluster_file(1), tmp_path) as group:
        number = await group.leader()
        driver = group.up[number]._driver
        assert driver is not None
        asked: asyncio.Queue[Waiter] = asyncio.Queue()
        monkeypatch.setattr(RaftDriver, "submit_read", lambda _, waiter: asked.put_nowait(waiter))
        async with client(group.address(number)) as replica:
            answer = asyncio.create_task(replica.request(Join(0, 2, 1, address=AT), timeout=20))
            async with asyncio.timeout(20):
                waiter = await asked.get()
            for entry in (RemoveReplica(0, 1, 0), AddReplica(0, 2, 2, AT)):
                applied: asyncio.Future[object] = asyncio.get_running_loop().create_future()
                driver.submit(encode_entry(entry), Waiter(applied.set_result, applied.set_exception))
                await applied
            waiter.done(1)
            joined = (await answer).message
            assert isinstance(joined, Joined)
            assert joined.lane == LaneId(0, 2, 1)


async def test_a_learner_is_let_go_only_while_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr(spares, "monotonic_s", lambda: now_s)
    async with leading() as (leader, where):
        spare = await enlisted(leader, where, AT)
        assert leader.spares.unasked_in_s() is None
        leader.spares.admission(0, AT)
        assert await spare == Enlisted(0, 2)
        assert leader.spares.unasked_in_s() == LEARNER_UNASKED_S
        now_s += LEARNER_UNASKED_S - 1
        leader.spares.admission(0, AT)
        now_s += LEARNER_UNASKED_S - 1
        assert not leader.spares.unasked()
        now_s += 1
        ((address, learner),) = leader.spares.unasked()
        leader.spares.wanted(0)
        leader.spares.let_go(address, learner)
        assert leader.spares.learners_of(0) == 1, "it was wanted by then"
        now_s += LEARNER_UNASKED_S
        leader.spares.let_go(address, learner)
        assert leader.spares.learners_of(0) == 0
