"""The handle of a cluster: what it costs, how it ends, what a fork does to it, and how the cluster is."""

import asyncio
import os
from typing import Any

import pytest
from tests.client.fake_cluster import FakeCluster

from ithaca.engines.scalog.client.admin.names import _idle_s
from ithaca.engines.scalog.client.admin.status import judged
from ithaca.engines.scalog.client.links import Link
from ithaca.engines.scalog.messages.appending import GetNextSeq
from ithaca.engines.scalog.messages.order import GetView
from ithaca.model.errors import ForkedHandle, InvalidInput, LogClosed, NotWritten
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.protocol.codec import Message, Received
from ithaca.users.names import ANONYMOUS


async def test_a_record_reads_back() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        receipt = await log.append(b"hello", key=b"k")
        record = await log.read(receipt.position)
        assert (record.value, record.key, record.position) == (b"hello", b"k", 1)
        assert await log.tail() == 2
        with pytest.raises(NotWritten):
            await log.read(2)


async def test_records_of_one_turn_travel_together_without_a_task_each() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        await log.append(b"first")
        before = len(asyncio.all_tasks())
        pendings = [await log.submit(b"%d" % n) for n in range(1000)]
        assert len(asyncio.all_tasks()) == before
        assert [(await pending).position for pending in pendings] == list(range(2, 1002))
        batches = [batch for shard in cluster.replicas for replica in shard for batch in replica.appended]
        assert len(batches) == 2


@pytest.mark.parametrize("policy", ["sticky", "round_robin", "key_hash", "nearest"])
async def test_every_policy_appends(policy: str) -> None:
    async with FakeCluster(shards=3) as cluster:
        log = await cluster.connect()
        log.set_shard_policy(policy)  # type: ignore[arg-type]
        receipts = [await log.append(b"%d" % n, key=b"k%d" % n) for n in range(12)]
        assert [receipt.position for receipt in receipts] == list(range(1, 13))
        if policy == "round_robin":
            assert {receipt.shard for receipt in receipts} == {0, 1, 2}
        if policy == "key_hash":
            again = [await log.append(b"again", key=b"k%d" % n) for n in range(12)]
            assert [receipt.shard for receipt in again] == [receipt.shard for receipt in receipts]


async def test_a_policy_that_fails_fails_its_call_only() -> None:
    def fail(key: bytes | None, shards: object) -> int:
        if key is None:
            raise ZeroDivisionError
        return 0

    async with FakeCluster() as cluster:
        log = await cluster.connect(shard_policy=fail)
        with pytest.raises(ZeroDivisionError):
            await log.append(b"a")
        assert (await log.append(b"b", key=b"k")).position == 1


async def test_a_cluster_without_lanes_is_waited_for() -> None:
    async with FakeCluster(replicas=1) as cluster:
        cluster.close_lane(cluster.replicas[0][0].lane)
        log = await cluster.connect()
        appending = asyncio.ensure_future(log.append(b"a"))
        opening = asyncio.ensure_future(log.session("importer"))
        await asyncio.sleep(0.05)
        assert not appending.done()
        cluster.replicas[0][0].open_lane()
        assert (await appending).position == 1
        assert (await opening).next_seq == 1


async def test_a_handle_that_was_closed_says_so_to_whoever_waits() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        await log.append(b"a")
        subscription = log.subscribe(2)
        waiting = [
            asyncio.ensure_future(log.read(9, wait=60)),
            asyncio.ensure_future(subscription.poll(timeout=60)),
            asyncio.ensure_future(anext(log.subscribe("latest"))),
        ]
        await asyncio.sleep(0.05)
        await log.close()
        for each in waiting:
            with pytest.raises(LogClosed):
                await asyncio.wait_for(each, 10)


async def test_a_handle_that_was_closed_asks_the_leader_for_nothing() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        await log.close()
        asked = len(cluster.orderers[0].asked)
        with pytest.raises(LogClosed):
            await log.ask_leader(GetView(), 10)
        assert len(cluster.orderers[0].asked) == asked


async def test_closing_does_not_wait_for_orderers_that_are_gone() -> None:
    """What would be told to them is for tidiness alone: they forget sessions without a name by themselves."""
    async with FakeCluster() as cluster:
        log = await cluster.connect(timeout=600)
        await log.append(b"opens a session")
        await cluster.orderers[0].stop()
        async with asyncio.timeout(60):
            await log.close()


async def test_a_session_has_a_name_that_users_may_give() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        for name in ("", f"{ANONYMOUS}x"):
            with pytest.raises(InvalidInput):
                await log.session(name)
        assert not cluster.state.sessions.by_id


async def test_a_home_that_is_asked_what_continues_a_session_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float] = []
    request = Link.request

    async def asked(link: Link, message: Message, timeout_s: float = 600, *more: Any) -> Received:
        if isinstance(message, GetNextSeq):
            given.append(timeout_s)
        return await request(link, message, timeout_s, *more)

    monkeypatch.setattr(Link, "request", asked)
    async with FakeCluster() as cluster:
        await (await cluster.connect(timeout=600)).session("importer")
    assert given == [ATTEMPT_TIMEOUT_S], "then another replica is asked"


async def test_a_beat_is_a_beat() -> None:
    wrong: Any = "beat"
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        with pytest.raises(InvalidInput, match="a GroupBeat"):
            await log.beat_group(wrong)


def test_how_long_a_session_was_idle_goes_by_the_time_of_the_order() -> None:
    assert _idle_s(3_000_000, 5_500_000) == 2.5
    assert _idle_s(5_500_000, 3_000_000) == 0
    assert _idle_s(0, 5_500_000) is None, "nobody knows"


async def test_nothing_is_left_running_after_close() -> None:
    async with FakeCluster(shards=2) as cluster:
        before = asyncio.all_tasks()
        log = await cluster.connect(shard_policy="round_robin")
        subscription = log.subscribe("earliest")
        for n in range(4):
            await log.append(b"%d" % n)
        assert len(await subscription.poll(timeout=10, max_records=2)) == 2
        await log.session("importer")
        await log.close()
        for server in (*cluster.orderers, *(each for shard in cluster.replicas for each in shard)):
            await server.stop()
        await asyncio.sleep(0)
        assert {task for task in asyncio.all_tasks() - before if "Server.run" not in repr(task)} == set()


async def test_a_forked_child_may_not_use_the_handle() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        await log.append(b"a")
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                log.subscribe("latest")
            except ForkedHandle:
                code = 0
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert (await log.append(b"b")).position == 2


# Status.


async def test_a_healthy_cluster_has_no_problems() -> None:
    async with FakeCluster(shards=2, orderers=3) as cluster:
        log = await cluster.connect()
        await log.append(b"a")
        status = await log.status()
        assert status.problems == ()
        assert (status.healthy, status.tail, status.first) == (True, 2, 1)
        assert len(status.servers) == 3 + 4
        assert status.lanes == tuple((f"{shard}-{replica}-1", 1, 1) for shard in range(2) for replica in range(2))


async def test_what_is_wrong_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.engines.scalog.client.admin.status.STATUS_TIMEOUT_S", 0.3)
    async with FakeCluster(shards=2, orderers=3) as cluster:
        log = await cluster.connect()
        await cluster.replicas[1][0].stop()
        await cluster.orderers[2].stop()
        cluster.leader = None
        status = await log.status()
        text = "\n".join(status.problems)
        assert not status.healthy
        for part in (
            "shard-1-replica-0",
            "does not answer",
            str(cluster.orderers[2].address),
            "leads",
            "shard 1 orders nothing",
        ):
            assert part in text
        down = [said for said in status.servers if said["state"] == "unreachable"]
        assert {said["role"] for said in down} == {"orderer", "replica"}
        assert all(said["error"] for said in down)


def test_of_servers_that_say_nothing_the_log_is_empty() -> None:
    nothing = judged([])
    assert (nothing.first, nothing.tail, nothing.servers) == (1, 1, ())
    assert not nothing.healthy


async def test_what_is_no_beat_of_a_member_is_refused_before_anybody_is_asked() -> None:
    async with FakeCluster() as cluster:
        log = await cluster.connect()
        cluster.leader = None
        for wrong in ("me", None):
            with pytest.raises(InvalidInput, match="a GroupBeat"):
                await log.beat_group(wrong, timeout=0.1)  # type: ignore[arg-type]
