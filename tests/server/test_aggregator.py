"""Aggregators between replicas and orderers, on real sockets: joining, reports, news, what happens when one goes."""

import asyncio
from pathlib import Path

import pytest
from tests.server.above import Above
from tests.server.aggregators import aggregating, carried
from tests.server.orderers import (
    DEADLINE_S,
    FakeReplica,
    Mailbox,
    ask,
    client,
    cluster_file,
    joined,
    orderers,
    propose,
    speaking,
    until,
)

from ithaca.engines.scalog.messages.aggregation import Alive, Assigned, Attach, Attached, Left, Probe, ReportsAre
from ithaca.engines.scalog.messages.order import GetTail, GetView
from ithaca.engines.scalog.messages.reporting import Join, Joined, ReportIs, SignOfLife
from ithaca.engines.scalog.ordering.assignment import chosen
from ithaca.engines.scalog.ordering.decisions import reporting as orderer_aggregators
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.ordering.outcomes import TrimmedLog
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.aggregator.server import AggregatorServer
from ithaca.engines.scalog.server.orderer.leading import LeaderService
from ithaca.model.cut import ShardCut
from ithaca.model.errors import ConfigError, ProtocolError, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import encode_message
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello
from ithaca.runtime.dialling import dial

# Placing


async def test_a_replica_is_sent_to_the_aggregator_of_its_shard(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, 1, shards=4) as (_group, leader, servers):
        for shard in range(4):
            number = chosen(shard, [1, 2])
            assert number is not None
            for replica in (0, 1):
                assert (await ask(leader, Join(shard, replica, 1), Assigned)).to == servers[number].address


async def test_who_suspects_an_aggregator_gets_another_and_at_last_joins_directly(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, 1) as (_group, leader, servers):
        first, second = (servers[number].address for number in (2, 1))
        assert (await ask(leader, Join(0, 0, 1), Assigned)).to == first
        assert (await ask(leader, Join(0, 0, 1, (first,)), Assigned)).to == second
        await ask(leader, Join(0, 0, 1, (first, second)), Joined)


async def test_a_new_leader_waits_a_moment_for_aggregators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderer_aggregators, "AGGREGATORS_AWAITED_S", DEADLINE_S)
    async with orderers(cluster_file(1, aggregators=[1]), tmp_path / "one") as group:
        leader = group.address(await group.leader())
        with pytest.raises(Unavailable, match="aggregators have not found it yet"):
            await ask(leader, Join(0, 0, 1), Joined)
    monkeypatch.setattr(orderer_aggregators, "AGGREGATORS_AWAITED_S", 0.0)
    async with orderers(cluster_file(1, aggregators=[1]), tmp_path / "two") as group:
        await ask(group.address(await group.leader()), Join(0, 0, 1), Joined)


async def test_replicas_move_when_their_aggregator_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orderer_aggregators, "AGGREGATORS_AWAITED_S", 0.0)
    file = cluster_file(1, aggregators=[1])
    async with orderers(file, tmp_path) as group:
        leader = group.address(await group.leader())
        replicas = [FakeReplica(0, 0), FakeReplica(0, 1)]
        server = AggregatorServer(file, 1)
        async with joined(leader, replicas):
            await server.start()
            try:
                for replica in replicas:
                    assert replica.mailbox is not None
                    while not isinstance(message := await replica.mailbox.next(object), Assigned):  # type: ignore[type-var]
                        pass
                    assert message.to == server.address
            finally:
                await server.stop()


async def test_an_aggregator_sends_a_replica_on_whose_own_has_come_back(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, 1) as (group, _, servers):
        await servers[2].stop()  # which has this shard
        await until(lambda: [each["aggregator"] for each in group.up[1].status()["aggregators"]] == [1])
        replica = FakeReplica(0, 0)
        async with joined(servers[1].address, [replica]):
            assert replica.mailbox is not None
            messages = replica.mailbox.messages
            servers[2] = AggregatorServer(group.file, 2)
            await servers[2].start()
            await until(lambda: Assigned(servers[2].address) in messages)


# Passing on


async def test_reports_go_up_and_cuts_come_down(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, shards=2) as (group, _leader, servers):
        replicas = [FakeReplica(shard, replica) for shard in (0, 1) for replica in (0, 1)]
        async with joined(servers[1].address, replicas):
            lengths = {replicas[0].lane: 5, replicas[1].lane: 3}
            for replica in replicas[:2]:
                replica.report(lengths)
            cuts: dict[int, dict[int, ShardCut]] = {0: {}, 1: {}}
            while sum(len(cut.runs) for cut in cuts[0].values()) < 2:
                for shard, replica in ((0, replicas[0]), (1, replicas[2])):
                    cut = await replica.hear_cut(len(cuts[shard]) + 1)
                    cuts[shard][cut.number] = cut
            runs = [run for cut in cuts[0].values() for run in cut.runs]
            assert {run.lane: run.lsn + run.count for run in runs} == lengths
            assert all(not cut.runs for cut in cuts[1].values()), "the other shard hears of the cut alone"
            assert {number: cut.tail for number, cut in cuts[0].items()} == {
                number: cut.tail for number, cut in cuts[1].items()
            }
            said = group.up[1].status()
            assert [each["joined"] for shard in said["shards"] for each in shard["replicas"]] == [True] * 4
            assert said["aggregators"][0] | {"address": ""} == {
                "aggregator": 1,
                "address": "",
                "level": 1,
                "direct": True,
                "replicas": 4,
            }


async def test_news_for_all_reach_every_replica(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, shards=2) as (_group, leader, servers):
        replicas = [FakeReplica(0, 0), FakeReplica(1, 1)]
        async with joined(servers[1].address, replicas):
            await propose(leader, TrimTo(1))
            for replica in replicas:
                assert (await replica.hear(TrimmedLog)).first == 1


async def test_of_the_reports_of_one_turn_the_newest_of_each_replica_goes_up(tmp_path: Path) -> None:
    """An aggregator adds nothing up: what it passes on are the replicas' own reports."""
    file = cluster_file(1, aggregators=[1])
    above = Above()
    listener = await above.listen(file.orderers[0].address)
    server = AggregatorServer(file, 1)
    await server.start()
    try:
        up = await above.attached()
        async with speaking(server.address, "replica") as (below, mailbox):
            for replica in (0, 1):
                below.send(Join(0, replica, 1), correlation=below.next_correlation())
            asked = [await above.next(Join), await above.next(Join)]
            assert [each.message for each in asked] == [Join(0, 0, 1, via=1), Join(0, 1, 1, via=1)]
            for request in asked:
                up.answer(request, above.joined)
            await mailbox.next(Joined)
            await mailbox.next(Joined)
            reports = [Report(0, 1, replica, 1, number, ()) for number in range(1, 6) for replica in (0, 1)]
            below._transport.writelines(  # type: ignore[union-attr]  # so that they come in one piece
                [part for report in reports for part in encoded(ReportIs(report))]
            )
            newest: dict[int, int] = {}
            messages = 0
            while newest != {0: 5, 1: 5}:
                message = (await above.next(ReportsAre)).message
                assert isinstance(message, ReportsAre)
                assert set(message.reports) <= set(reports)
                newest |= {report.replica: report.runs_cut for report in message.reports}
                messages += 1
            assert messages < len(reports)
            below.abort()
            assert (await above.next(Left)).message == Left(0, 0)
            assert (await above.next(Left)).message == Left(0, 1)
    finally:
        await server.stop()
        await listener.close()


async def test_signs_of_life_go_up_through_aggregators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []

    def note(self: LeaderService, shard: int, replica: int, is_complete: bool) -> None:
        heard.append((shard, replica, is_complete))

    monkeypatch.setattr(LeaderService, "heard", note)
    async with (
        aggregating(tmp_path, 1, 2) as (_group, _leader, servers),
        speaking(servers[1].address, "replica") as (below, _mailbox),
    ):
        for replica in (0, 1):
            assert isinstance((await below.request(Join(0, replica, 1))).message, Joined)
        assert heard == [(0, 0, False), (0, 1, False)], "to join is a sign of life"
        below.send(SignOfLife(True))
        await until(lambda: heard[2:] == [(0, 0, True), (0, 1, True)])
        below.send(SignOfLife(False))
        await until(lambda: heard[4:] == [(0, 0, False), (0, 1, False)])


async def test_a_learner_joins_at_the_leader_itself(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (_group, leader, servers):
        learner = Join(0, 2, 1, address=Address("127.0.0.1", 30))
        assert (await ask(leader, learner, Joined)).lane is None
        with pytest.raises(Unavailable, match="joins at the leader itself"):
            await ask(servers[1].address, learner, Joined)


async def test_a_replica_that_is_back_before_its_loss_is_noticed_stays(tmp_path: Path) -> None:
    """Whoever is above would take `Left` to be of the newer connection."""
    file = cluster_file(1, aggregators=[1])
    above = Above()
    listener = await above.listen(file.orderers[0].address)
    server = AggregatorServer(file, 1)
    await server.start()
    try:
        up = await above.attached()
        async with (
            speaking(server.address, "replica") as (former, heard),
            speaking(server.address, "replica") as (now, _),
        ):
            former.send(Join(0, 0, 1), correlation=1)
            up.answer(await above.next(Join), above.joined)
            await heard.next(Joined)
            now.send(Join(0, 0, 1), correlation=1)
            request = await above.next(Join)
            former.abort()
            await until(lambda: carried(server) == 0)
            up.answer(request, above.joined)
            await until(lambda: carried(server) == 1)
            now.abort()
            assert (await above.next(Left)).message == Left(0, 0), "the only one"
    finally:
        await server.stop()
        await listener.close()


async def test_an_aggregator_below_that_is_gone_is_told_of(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (group, _, servers):
        numbers = [each["aggregator"] for each in group.up[1].status()["aggregators"]]
        assert numbers == [1]
        async with client(servers[1].address, "aggregator", "7") as child:
            answer = (await child.request(Attach(7, Address("127.0.0.1", 1)))).message
            assert isinstance(answer, Attached)
            assert servers[1].status()["aggregators"] == [7]
            assert [each["direct"] for each in group.up[1].status()["aggregators"]] == [True, False]
        await until(lambda: [each["aggregator"] for each in group.up[1].status()["aggregators"]] == [1])


def encoded(message: ReportIs) -> list[bytes]:
    return [bytes(part) for part in encode_message(message)]


async def test_aggregators_of_aggregators(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, 2) as (group, leader, servers):
        await until(lambda: servers[2].status()["aggregators"] == [1])
        replicas = [FakeReplica(0, 0), FakeReplica(0, 1)]
        assert (await ask(leader, Join(0, 0, 1), Assigned)).to == servers[1].address
        async with joined(servers[1].address, replicas):
            lengths = {replica.lane: 7 for replica in replicas}
            for replica in replicas:
                replica.report(lengths)
            runs = (await replicas[1].hear_cut(1)).runs
            assert {run.lane: run.count for run in runs} == lengths
            said = group.up[1].status()["aggregators"]
            assert [(each["aggregator"], each["direct"], each["replicas"]) for each in said] == [
                (1, False, 2),
                (2, True, 0),
            ]
            assert (carried(servers[1]), carried(servers[2])) == (2, 2)
            await servers[2].stop()  # then the lower one goes to the leader
            await until(lambda: servers[1].status()["attached_to"] == str(leader))


# Leaving


async def test_a_replica_that_is_gone_is_gone_for_the_leader(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (group, _leader, servers):
        stays, goes = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(servers[1].address, [stays, goes]):
            await goes.leave()

            def states() -> list[bool]:
                (shard,) = group.up[1].status()["shards"]
                return [each["joined"] for each in shard["replicas"]]

            await until(lambda: states() == [True, False])
            await goes.join(servers[1].address)
            assert states() == [True, True]


async def test_one_that_joins_elsewhere_leaves_the_others_where_they_are(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (_group, leader, servers):
        stays, goes, again = FakeReplica(0, 0), FakeReplica(0, 1), FakeReplica(0, 1)
        async with joined(servers[1].address, [stays, goes]):
            mailbox = Mailbox()
            direct = await dial(leader, Hello(VERSION_MIN, VERSION_MAX, "replica", "0/1"), mailbox)
            direct.send(Join(0, 1, 1, (servers[1].address,)), correlation=1)
            again.joined = await mailbox.next(Joined)
            assert goes.mailbox is not None
            error = await asyncio.wait_for(asyncio.shield(goes.mailbox.lost), DEADLINE_S)
            assert error is None or "again" in str(error)
            stays.report({})  # it is still let in
            await until(lambda: carried(servers[1]) == 1)
            assert stays.connection.is_open
            direct.abort()


async def test_who_is_below_must_join_again_when_the_leader_is_gone(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1, orderer_count=3) as (group, leader, servers):
        replica = FakeReplica(0, 0)
        async with joined(servers[1].address, [replica]):
            former = next(number for number in group.up if group.address(number) == leader)
            await group.stop(former)
            assert replica.mailbox is not None
            await asyncio.wait_for(asyncio.shield(replica.mailbox.lost), DEADLINE_S)
            new = await group.leader()
            await until(lambda: servers[1].status()["attached_to"] == str(group.address(new)))
            await replica.join(servers[1].address)


async def test_an_aggregator_without_a_leader_says_so(tmp_path: Path) -> None:
    file = cluster_file(1, aggregators=[1])
    server = AggregatorServer(file, 1)
    await server.start()
    try:
        assert server.status()["state"] == "looking for the leader"
        with pytest.raises(Unavailable, match="aggregator 1 has not found the ordering leader"):
            await ask(server.address, Join(0, 0, 1), Joined)
        await ask(server.address, Probe(), Alive)
    finally:
        await server.stop()


def test_an_aggregator_that_the_file_does_not_have() -> None:
    async def make() -> None:
        AggregatorServer(cluster_file(1, aggregators=[1]), 3)

    with pytest.raises(ConfigError, match=r"no aggregator 3 in the cluster's file, only \[1\]"):
        asyncio.run(make())


# What is refused


@pytest.mark.parametrize("message", [GetTail(), GetView()])
async def test_what_is_for_orderers_is_refused(tmp_path: Path, message: GetTail | GetView) -> None:
    async with aggregating(tmp_path, 1) as (_group, _leader, servers):
        with pytest.raises((ProtocolError, Unavailable), match="an aggregator takes no"):
            await ask(servers[1].address, message, Joined)


async def test_a_report_of_who_has_not_joined_is_refused(tmp_path: Path) -> None:
    async with aggregating(tmp_path, 1) as (_group, leader, servers):
        async with client(servers[1].address, "replica") as stranger:
            stranger.send(ReportIs(Report(0, 1, 0, 1, 0, ())))
            await asyncio.wait_for(stranger.wait_lost(), DEADLINE_S)
        async with client(leader, "aggregator", "9") as other:  # from an aggregator it may have been on its way
            other.send(ReportsAre((Report(0, 1, 0, 1, 0, ()),)))
            assert isinstance((await other.request(Probe())).message, Alive)
