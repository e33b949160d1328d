"""Learners at a leader that may not lead any more (`tests/ordering/decisions` has what is decided about them)."""

import asyncio
from pathlib import Path

import pytest
from tests.server.orderers import client, cluster_file, orderers

from ithaca.engines.scalog.messages.reporting import Join, Joined
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    RemoveReplica,
    encode_entry,
)
from ithaca.model.errors import NoSuchReplica
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.runtime.raft.driver import RaftDriver
from ithaca.runtime.raft.ports import Waiter

AT = Address("10.0.0.7", 1)


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
