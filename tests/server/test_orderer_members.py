"""Orderers come and go: what is let in, what is let go, and what nobody forgets meanwhile."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.orderer_changes import added, changed, with_spares
from tests.server.orderers import (
    FakeReplica,
    Orderers,
    ask,
    client,
    cluster_file,
    joined,
    orderers,
    redirected,
    tail,
    until,
    view,
)

from ithaca.engines.scalog.messages.order import GetTail
from ithaca.model.errors import AddressInUse, InvalidInput, IthacaError, LastOrderer, NoSuchOrderer, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.protocol.members import AddOrderer, GetMembers, MembersAre, OrderersAre, RaftMessage, RemoveOrderer
from ithaca.raft.events import Settings, TransferLeadership
from ithaca.raft.messages import RequestVote
from ithaca.runtime.raft.ports import Waiter


def states(group: Orderers) -> dict[int, str]:
    return {number: server.status()["state"] for number, server in group.up.items()}


async def test_a_group_grows_from_one_to_three_and_shrinks_to_the_new_ones(tmp_path: Path) -> None:
    file = with_spares(cluster_file(orderers=1, replicas=1), 2)
    async with orderers(file, tmp_path, Settings(300, 50, snapshot_entries=5, trailing_entries=0)) as group:
        await group.leader()
        assert states(group) == {1: "leader", 2: "waiting", 3: "waiting"}
        replica = FakeReplica(0, 0)
        async with joined(group.address(1), [replica]):
            for length in range(1, 20):
                replica.report({replica.lane: length})
                await replica.hear_cut(length)
            await added(group, 2)
            members = await added(group, 3)
            assert [(each.server, each.votes) for each in members.members] == [(1, True), (2, True), (3, True)]
            assert members.last == 3
        members = await changed(group, RemoveOrderer(1))
        assert [each.server for each in members.members] == [2, 3]
        await until(lambda: states(group)[1] == "removed")
        again = await changed(group, RemoveOrderer(1))
        assert again.members == members.members
        leader = await group.leader()
        assert await tail(group.address(leader)) == 20
        assert (await view(group.address(leader))).orderers == (group.address(2), group.address(3))
        known = {address for number in (1, 2, 3) for address in (await view(group.address(number))).orderers}
        assert {group.address(2), group.address(3)} <= known


async def test_an_orderer_that_waits_votes_for_nobody_and_leads_nobody(tmp_path: Path) -> None:
    file = with_spares(cluster_file(orderers=1), 1)
    alone = Orderers(file, tmp_path)
    await alone.start(2)
    try:
        async with client(alone.address(2), "orderer", "1") as other:
            other.send(RaftMessage(RequestVote(1, 7, 99, 7)))
            await asyncio.sleep(4 * alone.settings.election_timeout_ms / 1000)
        said = alone.up[2].status()
        assert (said["state"], said["term"], said["log"]) == ("waiting", 0, None)
        assert await redirected(alone.address(2), GetTail()) is None
        await alone.stop(2)
        await alone.start(2)
        assert states(alone) == {2: "waiting"}
    finally:
        await alone.stop()


async def test_what_was_agreed_counts_after_a_restart_and_not_the_file(tmp_path: Path) -> None:
    file = with_spares(cluster_file(orderers=1), 2)
    async with orderers(file, tmp_path) as group:
        await added(group, 2)
        await added(group, 3)
        await changed(group, RemoveOrderer(1))
        await group.stop()
        group.file = replace(file, orderers=tuple(place for place in file.orderers if place.server != 1))
        await group.start(2, 3)
        leader = await group.leader()
        members = await ask(group.address(leader), GetMembers(), MembersAre)
        assert [(each.server, each.address) for each in members.members] == [
            (2, group.address(2)),
            (3, group.address(3)),
        ]


async def test_an_orderer_that_is_gone_is_replaced_and_told_when_it_comes_back(tmp_path: Path) -> None:
    file = with_spares(cluster_file(orderers=3), 1)
    async with orderers(file, tmp_path) as group:
        leader = await group.leader()
        gone = next(number for number in (1, 2, 3) if number != leader)
        await group.stop(gone)
        await changed(group, RemoveOrderer(gone))
        members = await added(group, 4)
        assert [each.server for each in members.members] == sorted({1, 2, 3, 4} - {gone})
        await group.start(gone)
        await until(lambda: states(group)[gone] == "removed")
        with pytest.raises(InvalidInput, match=f"orderer {gone} cannot be added: numbers up to 4 were used"):
            await changed(group, AddOrderer(gone, group.address(gone)))
        voters = [number for number in (1, 2, 3, 4) if number != gone]
        await group.stop(await group.leader())
        assert await group.leader() in voters


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (RemoveOrderer(9), NoSuchOrderer),
        (RemoveOrderer(1), LastOrderer),
        (AddOrderer(1, Address("127.0.0.1", 9)), InvalidInput),
    ],
)
async def test_what_cannot_be_is_refused(tmp_path: Path, message: Message, error: type[IthacaError]) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        with pytest.raises(error):
            await changed(group, message)
        with pytest.raises(AddressInUse):
            await changed(group, AddOrderer(2, group.address(1)))
        members = await ask(group.address(1), GetMembers(), MembersAre)
        assert [each.server for each in members.members] == [1]


async def test_a_change_after_which_most_would_be_silent_is_refused(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = await group.leader()
        gone, other = (number for number in (1, 2, 3) if number != leader)
        await group.stop(gone)
        await asyncio.sleep(2 * group.settings.election_timeout_ms / 1000)
        leader = await group.leader()
        other = next(number for number in (1, 2, 3) if number not in (gone, leader))
        with pytest.raises(Unavailable, match="most orderers would be silent"):
            await ask(group.address(leader), RemoveOrderer(other), MembersAre)
        await changed(group, RemoveOrderer(gone))
        assert [each.server for each in (await changed(group, GetMembers())).members] == sorted((leader, other))


async def test_replicas_are_told_where_the_orderers_are_now(tmp_path: Path) -> None:
    file = with_spares(cluster_file(orderers=1), 1)
    async with orderers(file, tmp_path) as group:
        await group.leader()
        replica = FakeReplica(0, 0)
        async with joined(group.address(1), [replica]):
            assert replica.joined.orderers.addresses == (group.address(1),)
            await added(group, 2)
            assert replica.mailbox is not None
            told = [each for each in replica.mailbox.messages if isinstance(each, OrderersAre)]
            await until(lambda: any(isinstance(each, OrderersAre) for each in replica.mailbox.messages))  # type: ignore[union-attr]
            told = [each for each in replica.mailbox.messages if isinstance(each, OrderersAre)]
            assert told[-1].orderers.addresses == (group.address(1), group.address(2))


async def test_another_orderer_at_the_place_of_the_new_one_is_not_taken_for_it(tmp_path: Path) -> None:
    """The leader says in its log that the wrong one is there, and the new one never votes."""
    file = with_spares(cluster_file(orderers=1), 2)
    async with orderers(file, tmp_path) as group:
        await changed(group, AddOrderer(2, group.address(3)))
        await asyncio.sleep(0.5)
        members = await changed(group, GetMembers())
        assert [(each.server, each.votes) for each in members.members] == [(1, True), (2, False)]
        assert states(group)[3] == "waiting"
        await changed(group, RemoveOrderer(2))
        assert await group.leader() == 1


async def test_a_leader_whose_cuts_are_refused_tries_again_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """While it hands over to one that is silent, every proposal is refused at once."""
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = await group.leader()
        gone = next(number for number in (1, 2, 3) if number != leader)
        replicas = [FakeReplica(0, 0), FakeReplica(0, 1)]
        async with joined(group.address(leader), replicas):
            await group.stop(gone)
            driver = group.up[leader]._driver
            assert driver is not None
            begun: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            driver.step(TransferLeadership(driver._request(Waiter(begun.set_result, begun.set_exception)), gone))
            await begun
            lengths = {each.lane: 1 for each in replicas}
            for each in replicas:
                each.report(lengths)
            await replicas[0].hear_cut(1)
    assert caplog.text.count("a cut was not taken") < 100
