"""Orderers as servers: they elect, configure, order what replicas report, and survive the loss of a leader."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop
from tests.server.orderers import (
    SETTINGS,
    FakeReplica,
    ask,
    client,
    cluster_file,
    joined,
    orderers,
    redirected,
    speaking,
    tail,
    until,
    view,
)

from ithaca.engines.scalog.messages.order import GetTail
from ithaca.engines.scalog.messages.reporting import Join, Joined
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.model.cut import LaneRun
from ithaca.model.errors import (
    AuthenticationFailed,
    ConfigError,
    Corrupt,
    Fenced,
    LogInUse,
    NoSuchReplica,
    ProtocolError,
)
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.protocol.members import RaftMessage
from ithaca.raft.events import Settings
from ithaca.raft.messages import TimeoutNow
from ithaca.server.options import ServerOptions
from ithaca.sim.disk import SimDisk


async def append_once(directory: Path) -> None:
    file = cluster_file(orderers=1)
    async with orderers(file, directory) as group:
        leader = group.address(await group.leader())
        one, other = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(leader, [one, other]):
            assert (one.lane, other.lane) == (LaneId(0, 0, 1), LaneId(0, 1, 1))
            one.report({one.lane: 5, other.lane: 0})
            other.report({one.lane: 3, other.lane: 0})
            cut = await one.hear_cut(1)
            assert cut.runs == (LaneRun(one.lane, 0, 1, 3),)
            assert (await other.hear_cut(1)).tail == 4
            assert await tail(leader) == 4


async def test_another_server_under_the_number_of_a_replica_is_refused(tmp_path: Path) -> None:
    """Two leaders may have given one number to two learners; a later boot must not push out the one that was added."""
    file = cluster_file(orderers=1)
    async with orderers(file, tmp_path) as group:
        leader = group.address(await group.leader())
        place = file.replica(0, 0).address
        with pytest.raises(NoSuchReplica, match=f"is the server at {place}, and not the one that enlisted as 10.9.8.7"):
            await ask(leader, Join(0, 0, 9, address=Address("10.9.8.7", 7600)), Joined)
        assert (await ask(leader, Join(0, 0, 1, address=place), Joined)).lane == LaneId(0, 0, 1)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_record_is_ordered_on_either_loop(new_loop: Callable[[], Any], tmp_path: Path) -> None:
    async def run() -> None:
        await append_once(tmp_path)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a stopped server leaves no task"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


async def test_three_orderers_agree_on_one_log_and_its_shards(tmp_path: Path) -> None:
    file = cluster_file(orderers=3, shards=2)
    async with orderers(file, tmp_path) as group:
        leader = await group.leader()
        version = (await view(group.address(leader))).view.version
        views = [await view(group.address(number), at_least=version) for number in (1, 2, 3)]
        assert len({(each.view, each.configuration) for each in views}) == 1
        assert [shard.shard for shard in views[0].view.shards] == [0, 1]
        assert views[0].configuration.engine == "scalog"
        assert views[0].orderers == tuple(place.address for place in file.orderers)
        assert group.leading() == [leader]
        for number in {1, 2, 3} - {leader}:
            assert await redirected(group.address(number), GetTail()) == group.address(leader)
            assert await redirected(group.address(number), Join(0, 0, 1)) == group.address(leader)


async def test_cuts_order_what_all_replicas_of_a_shard_hold(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3, shards=2), tmp_path) as group:
        leader = group.address(await group.leader())
        near, peer, far, farther = (FakeReplica(0, 0), FakeReplica(0, 1), FakeReplica(1, 0), FakeReplica(1, 1))
        async with joined(leader, [near, peer, far, farther]):
            near.report({near.lane: 10, peer.lane: 4})
            peer.report({near.lane: 8, peer.lane: 4})
            first = await near.hear_cut(1)
            assert first.runs == (LaneRun(near.lane, 0, 1, 8), LaneRun(peer.lane, 0, 9, 4))
            elsewhere = await far.hear_cut(1)
            assert (elsewhere.tail, elsewhere.runs) == (13, ())
            far.report({far.lane: 2})
            farther.report({far.lane: 7})
            second = await farther.hear_cut(2)
            assert second.runs == (LaneRun(far.lane, 0, 13, 2),)
            peer.report({near.lane: 10, peer.lane: 4})
            third = await near.hear_cut(3)
            assert third.runs == (LaneRun(near.lane, 8, 15, 2),)
            assert first.time_us <= second.time_us <= third.time_us
            assert await tail(leader) == 17


async def test_a_new_leader_goes_on_where_the_old_one_was_stopped(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        old = await group.leader()
        one, other = FakeReplica(0, 0, boot=3), FakeReplica(0, 1, boot=1)
        async with joined(group.address(old), [one, other]):
            one.report({one.lane: 5})
            other.report({one.lane: 5})
            cut = await one.hear_cut(1)
            lane = one.lane
            await group.stop(old)
            assert one.mailbox is not None
            await one.mailbox.lost
            assert one.mailbox.lost.done(), "replicas are cut off by a server that stops"
        new = await group.leader()
        assert new != old
        one, other = FakeReplica(0, 0, boot=3), FakeReplica(0, 1, boot=1)
        async with joined(group.address(new), [one, other]):
            assert one.lane == lane, "the same boot has the same lane"
            assert one.joined.cuts == (cut,)
            assert one.joined.summary.cut.tail == 6
            one.report({lane: 7})
            other.report({lane: 7})
            assert (await other.hear_cut(cut.number + 1)).runs == (LaneRun(lane, 5, 6, 2),)
        await group.start(old)
        await until(lambda: group.up[old].status()["tail"] == 8)


async def test_a_leader_that_loses_its_peers_lets_its_replicas_go(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = await group.leader()
        replica = FakeReplica(0, 0)
        async with joined(group.address(leader), [replica]):
            await group.stop(*({1, 2, 3} - {leader}))
            assert replica.mailbox is not None
            await replica.mailbox.lost
            assert await redirected(group.address(leader), GetTail()) is None


async def test_everything_is_found_again_after_all_were_stopped(tmp_path: Path) -> None:
    settings = Settings(election_timeout_ms=300, heartbeat_ms=50, snapshot_entries=8, trailing_entries=4)
    async with orderers(cluster_file(orderers=3), tmp_path, settings) as group:
        leader = group.address(await group.leader())
        one, other = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(leader, [one, other]):
            for length in range(1, 21):
                one.report({one.lane: length})
                other.report({one.lane: length})
                await one.hear_cut(length)
        before = await view(leader)
        await group.stop()
        await group.start()
        leader = group.address(await group.leader())
        assert await tail(leader) == 21
        after = await view(leader)
        assert (after.view, after.configuration) == (before.view, before.configuration)
        again = FakeReplica(0, 0, boot=2)
        async with joined(leader, [again]):
            assert again.lane == LaneId(0, 0, 2)
            assert dict(again.joined.summary.lengths)[LaneId(0, 0, 1)] == 20


async def test_a_changed_interval_in_the_file_is_followed(tmp_path: Path) -> None:
    file = cluster_file(orderers=1, order_interval_us=0)
    async with orderers(file, tmp_path) as group:
        before = (await view(group.address(await group.leader()))).configuration
        await group.stop()
        group.file = type(file)("test", "fsync", 2000, file.segment_bytes, file.orderers, file.shards)
        await group.start()
        after = (await view(group.address(await group.leader()))).configuration
        assert (after.log, before.order_interval_us, after.order_interval_us) == (before.log, 0, 2000)


async def test_cuts_keep_the_interval_and_miss_nothing(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, replicas=1, order_interval_us=20_000), tmp_path) as group:
        replica = FakeReplica(0, 0)
        async with joined(group.address(await group.leader()), [replica]):
            replica.report({replica.lane: 1})
            first = await replica.hear_cut(1)
            for length in range(2, 6):
                replica.report({replica.lane: length})
            second = await replica.hear_cut(2)
            assert (first.tail, second.tail) == (2, 6), "what comes within the interval goes into one cut"
            assert second.time_us - first.time_us >= 19_000


# Who may speak


async def test_only_orderers_of_the_log_may_speak_for_raft(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=3), tmp_path) as group:
        leader = await group.leader()
        for name in ("4", str(leader), "", "one"):
            with pytest.raises(AuthenticationFailed):
                async with client(group.address(leader), "orderer", name):
                    pass
        other, third = {1, 2, 3} - {leader}
        async with speaking(group.address(leader), "orderer", str(other)) as (connection, mailbox):
            connection.send(RaftMessage(TimeoutNow(third, 1)))
            assert isinstance(await mailbox.lost, ProtocolError)
        async with speaking(group.address(leader)) as (connection, mailbox):
            connection.send(RaftMessage(TimeoutNow(other, 1)))
            assert isinstance(await mailbox.lost, ProtocolError)
        assert await group.leader() == leader


async def test_a_report_counts_only_for_whoever_joined(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        replica = FakeReplica(0, 0)
        async with joined(leader, [replica]):
            impostor = FakeReplica(0, 1)
            impostor.connection = replica.connection
            impostor.report({replica.lane: 5})
            assert replica.mailbox is not None
            assert isinstance(await replica.mailbox.lost, ProtocolError)
        assert await tail(leader) == 1


async def test_what_is_reported_together_is_ordered_by_one_cut_up_to_whoever_has_not_joined(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1, shards=2, replicas=1), tmp_path) as group:
        leader = group.address(await group.leader())
        replica, other = FakeReplica(0, 0), FakeReplica(1, 0)
        async with joined(leader, [replica, other]):
            assert replica.mailbox is not None
            impostor = FakeReplica(1, 0)
            impostor.connection = replica.connection
            for length in range(1, 5):
                replica.report({replica.lane: length})
            impostor.report({other.lane: 5})
            replica.report({replica.lane: 9})
            cut = await other.hear_cut(1)
            assert isinstance(await replica.mailbox.lost, ProtocolError)
            assert (cut.tail, await tail(leader)) == (5, 5)


async def test_a_replica_that_joins_again_replaces_its_old_connection(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        leader = group.address(await group.leader())
        old, new = FakeReplica(0, 0), FakeReplica(0, 0)
        async with joined(leader, [old, new]):
            assert old.mailbox is not None
            await old.mailbox.lost
            assert new.lane == old.lane
            assert group.up[1].status()["shards"][0]["replicas"][0]["joined"]


# What people see


async def test_status_health_and_metrics(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        address = group.address(await group.leader())
        one, other = FakeReplica(0, 0), FakeReplica(0, 1)
        async with joined(address, [one, other]):
            one.report({one.lane: 2})
            other.report({one.lane: 2})
            await one.hear_cut(1)
            status = json.loads((await ask(address, GetStatus(), StatusIs)).json)
            health = json.loads(await http_get(address.port, "/health"))
            metrics = await http_get(address.port, "/metrics")
        # How much is used differs with who asks, and with what the disk holds at that moment.
        assert status.pop("limits").keys() == health.pop("limits").keys()
        assert status == health
        assert (status["role"], status["state"], status["server"], status["leader"]) == ("orderer", "leader", 1, 1)
        assert (status["cut"], status["tail"], status["first"], status["configured"]) == (1, 3, 1, True)
        assert status["shards"][0]["replicas"][1] == {
            "replica": 1,
            "address": "127.0.0.1:21",
            "lane": "0-1-1",
            "open": True,
            "joined": True,
        }
        assert status["shards"][0]["lanes"][0] == {"lane": "0-0-1", "ordered": 2}
        assert "ithaca_orderer_cuts_total 1.0" in metrics
        assert "ithaca_orderer_is_leader 1.0" in metrics
        assert "ithaca_orderer_joined 2.0" in metrics


async def http_get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    return body.decode()


# The directory


async def test_a_directory_has_one_server(tmp_path: Path) -> None:
    file = cluster_file(orderers=3)
    first = OrdererServer(file, 1, str(tmp_path), ServerOptions(settings=SETTINGS))
    await first.start()
    try:
        with pytest.raises(LogInUse):
            await OrdererServer(file, 1, str(tmp_path), ServerOptions(settings=SETTINGS)).start()
    finally:
        await first.stop()
    await first.wait()
    with pytest.raises(ConfigError, match="belongs to orderer 1"):
        await OrdererServer(file, 2, str(tmp_path), ServerOptions(settings=SETTINGS)).start()


async def test_a_lost_raft_log_is_never_made_again(tmp_path: Path) -> None:
    async with orderers(cluster_file(orderers=1), tmp_path) as group:
        await group.leader()
        await group.stop()
        (tmp_path / "1" / "raft.log").unlink()
        with pytest.raises(Corrupt, match="took part"):
            await group.start()


async def test_a_failed_sync_ends_the_server(tmp_path: Path) -> None:
    disk = SimDisk()
    server = OrdererServer(cluster_file(orderers=1), 1, "/orderer", ServerOptions(disk, SETTINGS))
    await server.start()
    try:
        await until(lambda: bool(server.status()["shards"]))
        replica = FakeReplica(0, 0)
        async with joined(server.address, [replica]):
            disk.fail_next_sync()
            again = FakeReplica(0, 1)
            with pytest.raises(AssertionError, match="has failed"):
                await again.join(server.address)
            await again.leave()
            with pytest.raises(Fenced):
                await server.wait()
            assert server.status()["state"] == "follower"
    finally:
        await server.stop()


async def test_a_server_that_is_not_in_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no orderer 9"):
        OrdererServer(cluster_file(), 9, str(tmp_path))


async def test_a_message_that_orderers_do_not_take_ends_the_connection(tmp_path: Path) -> None:
    file = cluster_file(orderers=1)
    async with orderers(file, tmp_path), speaking(file.orderers[0].address) as (connection, mailbox):
        connection.send(StatusIs(b"{}"))
        assert isinstance(await mailbox.lost, ProtocolError)
