"""Peers with a valid hello that say what nobody says who follows the protocol: they stop nobody, and brick nothing."""

import asyncio
from pathlib import Path

import pytest
from tests.server.orderers import FakeReplica, ask, client, cluster_file, joined, orderers, speaking, tail

from ithaca.engines.scalog.messages.reporting import BootIsKnown, Enlist, Join, Joined
from ithaca.engines.scalog.ordering import reports
from ithaca.engines.scalog.ordering.decisions import spares
from ithaca.engines.scalog.ordering.entries import AddReplica, encode_entry
from ithaca.model import limits
from ithaca.model.errors import InvalidInput, NoSuchReplica, Overloaded, ProtocolError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.members import AddOrderer, RaftMessage
from ithaca.raft.messages import AppendReply

HERE = Address("127.0.0.1", 9)


async def test_a_reply_beyond_the_log_ends_the_connection_and_not_the_leader(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        number = await group.leader()
        term = group.up[number].status()["term"]
        other = number % 3 + 1
        async with speaking(group.address(number), "orderer", str(other)) as (connection, mailbox):
            connection.send(RaftMessage(AppendReply(other, term, accepted=True, index=1 << 40)))
            error = await asyncio.wait_for(asyncio.shield(mailbox.lost), 20)
        assert isinstance(error, ProtocolError)
        assert "is accepted" in str(error)
        assert group.leading() == [number]
        assert await tail(group.address(number)) == 1


async def test_a_boot_that_leaves_none_for_later_is_not_taken(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        with pytest.raises(ProtocolError):
            await ask(leader, Join(0, 0, (1 << 63) - 1), Joined)
        with pytest.raises(InvalidInput, match="too far ahead"):
            await ask(leader, Join(0, 0, limits.BOOT_MAX), Joined)
        async with joined(leader, [FakeReplica(0, 0, boot=7)]):
            pass
        ahead = 7 + limits.BOOT_LEAP_MAX
        assert (await ask(leader, Join(0, 0, ahead), Joined)).lane == LaneId(0, 0, 2)
        assert (await ask(leader, Join(0, 0, 8), BootIsKnown)).boot == ahead


async def test_lanes_that_are_not_there_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "REPORT_LANES_MAX", 3)
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        number = await group.leader()
        replica = FakeReplica(0, 0)
        async with joined(group.address(number), [replica]):
            for each in range(5):
                replica.report({LaneId(0, 0, 100 + each): 1} | {replica.lane: each + 1})
                await replica.hear_cut(each + 1)  # else they come together, and are one cut
            leading = group.up[number]._leading
            assert leading is not None
            assert leading._leader is not None
            [held] = leading._leader._reports._groups[0].held.values()
            assert list(held.lengths) == [LaneId(0, 0, 100), replica.lane, LaneId(0, 0, 101)]


async def test_spares_and_learners_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "SPARES_MAX", 2)
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        async with client(leader) as connection:
            for port in (1, 2):
                connection.send(Enlist(Address("127.0.0.1", port)), correlation=connection.next_correlation())
            with pytest.raises(Overloaded, match="2 spares wait"):
                await connection.request(Enlist(Address("127.0.0.1", 3)))
            for port in (4, 5):
                await connection.request(Join(0, port, 1, address=Address("127.0.0.1", port)))
            with pytest.raises(Overloaded, match="2 learners"):
                await connection.request(Join(0, 6, 1, address=Address("127.0.0.1", 6)))


async def test_a_learner_does_not_use_up_the_numbers_of_replicas(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        with pytest.raises(NoSuchReplica):
            await ask(leader, Join(0, limits.REPLICA_NUMBER_MAX, 1, address=HERE), Joined)
        with pytest.raises(ProtocolError):
            await ask(leader, Join(0, limits.REPLICA_NUMBER_MAX + 1, 1, address=HERE), Joined)
        assert await tail(leader) == 1


async def test_an_orderer_does_not_use_up_the_numbers_of_orderers(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        with pytest.raises(InvalidInput, match="cannot be used later"):
            await ask(leader, AddOrderer(limits.RAFT_NUMBER_MAX, HERE), Joined)


def test_an_entry_that_nobody_could_read_is_not_proposed() -> None:
    with pytest.raises(ProtocolError, match="add-replica"):
        encode_entry(AddReplica(0, 1, limits.REPLICA_NUMBER_MAX + 1, HERE))
