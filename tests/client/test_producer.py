"""Exactly once through lost connections, refusals, closed lanes and moves (the package's numbers 1 to 4)."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.client.fake_cluster import FakeCluster, home_of, until

from ithaca.client.appending import coalescing
from ithaca.engines.scalog.client.replicas import Replicas
from ithaca.engines.scalog.ordering.entries import ExpireSession
from ithaca.model.errors import (
    DeadlineExceeded,
    NoSuchShard,
    Overloaded,
    SequenceGap,
    SessionExpired,
    SessionFenced,
    StorageFull,
    Unavailable,
)
from ithaca.model.limits import COALESCED_BATCHES_INFLIGHT, SESSION_BATCHES_MAX


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with FakeCluster() as cluster:
        yield cluster


async def test_a_lost_answer_is_not_a_second_record(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.losing_acks = 3
    receipts = [await log.append(b"%d" % n) for n in range(5)]
    assert [receipt.position for receipt in receipts] == [2, 3, 4, 5, 6]
    assert cluster.values() == [b"first", b"0", b"1", b"2", b"3", b"4"]
    assert len(replica.appended) == 1 + 5 + 3
    assert replica.dialled == 4


async def test_a_retry_is_the_same_bytes(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.losing_acks = 1
    await log.append(b"again")
    sent, repeated = replica.appended[-2:]
    assert (sent.body_crc, sent.first_seq) == (repeated.body_crc, repeated.first_seq)


async def test_connections_that_end_all_the_time_lose_and_repeat_nothing(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    expected = [b"first"]
    for n in range(30):
        pendings = [await log.submit_many([b"%d.%d" % (n, m), b"x"]) for m in range(10)]
        expected += [value for m in range(10) for value in (b"%d.%d" % (n, m), b"x")]
        await asyncio.sleep(0)
        replica.drop_connections()
        await asyncio.gather(*(pending.result() for pending in pendings))
    assert cluster.values() == expected


async def test_an_orderer_without_space_fails_appends_and_not_the_handle(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    assert cluster.leader is not None
    cluster.leader.refusals.append(StorageFull("the ordering layer has no space"))
    with pytest.raises(StorageFull):
        await log.append(b"refused")
    await log.append(b"there is space again")
    assert cluster.values() == [b"there is space again"]


async def test_what_was_sent_beside_a_refused_batch_may_have_happened(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    before = await log.submit_many([b"before"])
    await until(lambda: len(replica.appended) == 2)
    replica.refusals.append(StorageFull("no space"))
    refused, behind = [await log.submit_many([value]) for value in (b"refused", b"behind")]
    outcomes = await asyncio.gather(*(each.result() for each in (before, refused, behind)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StorageFull] * 3
    assert [outcome.outcome_unknown for outcome in outcomes if isinstance(outcome, StorageFull)] == [True, False, True]
    with pytest.raises(StorageFull):
        await log.flush()
    cluster.release()


async def test_no_more_batches_in_flight_than_a_session_remembers(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    pendings = [await log.submit_many([b"%d" % n]) for n in range(50)]
    await until(lambda: len(replica.appended) == 1 + SESSION_BATCHES_MAX)
    await log.read(1)  # a round trip: nothing else was on its way
    assert len(replica.appended) == 1 + SESSION_BATCHES_MAX
    cluster.release()
    receipts = [await pending for pending in pendings]
    assert [receipt.position for receipt in receipts] == list(range(2, 52))


async def test_single_records_are_gathered_while_others_are_in_flight(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    pendings = []
    for n in range(100):
        pendings.append(await log.submit(b"%d" % n, key=b"k" if n % 2 else None))
        await asyncio.sleep(0)
    await until(lambda: len(replica.appended) >= 2)
    cluster.release()
    receipts = [await pending for pending in pendings]
    assert [receipt.position for receipt in receipts] == list(range(2, 102))
    assert len(replica.appended) <= 6
    records = [record async for record in log.read_range(2)]
    assert [record.key for record in records] == [None, b"k"] * 50


async def test_what_a_lane_cannot_take_now_is_sent_again(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.refusals += [Overloaded("too much"), Unavailable("not now")]
    pendings = [await log.submit_many([b"%d" % n]) for n in range(6)]
    assert [(await pending).position for pending in pendings] == [2, 3, 4, 5, 6, 7]
    assert cluster.values()[1:] == [b"%d" % n for n in range(6)]


async def test_a_full_disk_is_said_at_once_and_another_lane_is_tried_next(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    replica.refusals += [StorageFull("no space")] * 3
    with pytest.raises(StorageFull):
        await log.append(b"refused")
    assert (await log.append(b"elsewhere")).position == 2
    assert cluster.values() == [b"first", b"elsewhere"]


async def test_an_append_that_is_late_may_still_happen(cluster: FakeCluster) -> None:
    log = await cluster.connect(timeout=0.3)
    await home_of(cluster, log)
    cluster.is_holding = True
    for timeout in (0.05, None):
        with pytest.raises(DeadlineExceeded) as caught:
            await log.append(b"late", timeout=timeout)
        assert caught.value.outcome_unknown
    cluster.release()
    assert (await log.append(b"next")).position == 4
    assert cluster.values() == [b"first", b"late", b"late", b"next"]


async def test_submitting_waits_for_bytes_in_flight_and_gives_up_in_time(cluster: FakeCluster) -> None:
    log = await cluster.connect(timeout=0.5, inflight_bytes_max=1000)
    await home_of(cluster, log)
    cluster.is_holding = True
    submitted = [await log.submit(bytes(800)) for _ in range(2)]
    with pytest.raises(Overloaded, match="1000"):
        await log.submit(b"too much")
    waiting = asyncio.ensure_future(log.submit(b"patient"))
    await asyncio.sleep(0)
    assert not waiting.done()
    cluster.release()
    await (await waiting)
    assert cluster.values()[-1] == b"patient"
    assert all(pending.done() for pending in submitted)
    with pytest.raises(DeadlineExceeded):  # of the two that were held for too long
        await log.flush()


async def test_a_lost_answer_of_the_order_opens_no_second_home(cluster: FakeCluster) -> None:
    cluster.orderers[0].losing_answers = 2
    log = await cluster.connect()
    assert (await log.append(b"a")).position == 1
    session = await log.session("importer")
    assert (await session.append(b"b", seq=1)).position == 2


async def test_closing_forgets_the_sessions_of_the_handle(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await log.append(b"a")
    await log.session("kept")
    assert len(cluster.state.sessions.by_id) == 2
    await log.close()
    assert [session.name for session in cluster.state.sessions.by_id.values()] == ["kept"]


async def test_closing_waits_for_what_is_under_way_and_says_what_failed(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await home_of(cluster, log)
    pending = await log.submit(b"in time")
    await log.close()
    assert (await pending).position == 2
    log = await cluster.connect(timeout=0.3)
    await home_of(cluster, log)
    cluster.is_holding = True
    appending = asyncio.ensure_future(log.append(b"appended"))
    pending = await log.submit(b"late")
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await log.close()
    for late in (pending.result(), appending):
        with pytest.raises(DeadlineExceeded):
            await late
    cluster.is_holding = False


async def test_closing_does_not_wait_for_what_its_caller_gave_up(cluster: FakeCluster) -> None:
    log = await cluster.connect(timeout=600)
    await home_of(cluster, log)
    session = await log.session("importer")
    cluster.is_holding = True
    for append in (log.append, session.append):
        with pytest.raises(DeadlineExceeded):
            await append(b"late", timeout=0.05)
    async with asyncio.timeout(60):
        await log.close()
    cluster.is_holding = False


async def test_what_an_expired_session_never_appended_goes_again_under_another(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    await home_of(cluster, log)
    (session,) = cluster.state.sessions.by_id.values()
    cluster.apply(ExpireSession(session.producer_id, session.epoch))
    assert (await log.append(b"goes on")).position == 2
    assert session.producer_id not in cluster.state.sessions.by_id


async def test_a_lane_that_is_the_only_one_gets_another_session(cluster: FakeCluster) -> None:
    async with FakeCluster(replicas=1) as small:
        log = await small.connect()
        await home_of(small, log)
        (session,) = small.state.sessions.by_id.values()
        small.apply(ExpireSession(session.producer_id, session.epoch))
        assert (await log.append(b"works on")).position == 2
        assert [each.producer_id for each in small.state.sessions.by_id.values()] != [session.producer_id]


async def test_records_wait_for_each_other_while_batches_are_under_way_until_they_are_many(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalescing, "COALESCE_BYTES_MAX", 100_000)
    log = await cluster.connect()
    replica = await home_of(cluster, log)
    cluster.is_holding = True
    before = len(replica.appended)
    pending = []
    for number in range(1, COALESCED_BATCHES_INFLIGHT + 1):
        pending.append(await log.submit(b"alone"))
        await until(lambda number=number: len(replica.appended) == before + number)  # type: ignore[misc]
    for _ in range(3):
        pending.append(await log.submit(bytes(20_000)))
    await log.tail()  # by then they would have come
    sent = before + COALESCED_BATCHES_INFLIGHT
    assert len(replica.appended) == sent
    for _ in range(2):
        pending.append(await log.submit(bytes(20_000)))
    await until(lambda: len(replica.appended) == sent + 1)
    assert replica.appended[-1].count == 4, "as many as fit"
    cluster.release()
    assert [(await each).position for each in pending] == list(range(2, 2 + len(pending)))


# Named sessions.


async def test_a_shard_that_goes_with_its_last_session_while_that_is_opened_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody expires it while it is asked what was ordered of it: that is said, not that there is no such shard."""
    log = await cluster.connect()
    await (await log.session("importer")).append(b"a")
    (session,) = (each for each in cluster.state.sessions.by_id.values() if each.name == "importer")
    cluster.close_lane(session.home)
    asked = 0

    async def gone(*_: object, **__: object) -> None:
        nonlocal asked
        asked += 1
        cluster.apply(ExpireSession(session.producer_id, cluster.state.sessions.by_id[session.producer_id].epoch))
        raise NoSuchShard("there is no shard 0")

    monkeypatch.setattr(Replicas, "ask", gone)
    with pytest.raises(SessionExpired):
        await log.session("importer")
    assert asked == 1


async def test_numbers_are_given_in_the_order_of_the_calls(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    session = await log.session("importer")
    receipts = await asyncio.gather(*(session.append(b"%d" % n) for n in range(20)))
    assert [receipt.position for receipt in receipts] == list(range(1, 21))
    assert session.next_seq == 21
    assert cluster.values() == [b"%d" % n for n in range(20)]


async def test_a_gap_waits_for_what_is_before_it_and_fails_alone(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    session = await log.session("importer")
    cluster.is_holding = True
    calls = [asyncio.ensure_future(session.append(b"%d" % seq, seq=seq)) for seq in (1, 9, 2)]
    await until(lambda: any(len(replica.appended) >= 3 for replica in cluster.replicas[0]))
    assert session.next_seq == 3
    cluster.release()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[1], SequenceGap)
    assert cluster.values() == [b"1", b"2"]
    assert session.next_seq == 3


async def test_a_refusal_in_the_middle_keeps_the_order(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    session = await log.session("importer")
    for replica in cluster.replicas[0]:
        replica.refusals.append(Overloaded("later"))
    receipts = await asyncio.gather(*(session.append(b"%d" % n) for n in range(6)))
    assert [receipt.position for receipt in receipts] == [1, 2, 3, 4, 5, 6]
    assert cluster.values() == [b"%d" % n for n in range(6)]


async def test_a_named_session_survives_its_lane(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    session = await log.session("importer")
    receipts = [await session.append(b"%d" % n, seq=n) for n in range(1, 4)]
    home = next(iter(cluster.state.sessions.by_id.values())).home
    cluster.replica_of(home).open_lane()
    assert (await session.append(b"4", seq=4)).position == 4
    assert [await session.append(b"%d" % n, seq=n) for n in range(1, 4)] == receipts
    cluster.close_lane(next(iter(cluster.state.sessions.by_id.values())).home)
    reopened = await log.session("importer")
    assert reopened.next_seq == 5
    assert await reopened.append(b"1", seq=1) == receipts[0]
    with pytest.raises(SessionFenced, match="importer"):
        await session.append(b"5")
    assert cluster.values() == [b"1", b"2", b"3", b"4"]


async def test_a_home_that_has_not_heard_of_the_session_yet_is_asked_again(cluster: FakeCluster) -> None:
    log = await cluster.connect()
    told = cluster._tell
    late: list[object] = []
    cluster._tell = late.append  # type: ignore[method-assign, assignment]
    opening = asyncio.ensure_future(log.session("importer"))
    await until(lambda: bool(late))
    await asyncio.sleep(0.05)
    assert not opening.done()
    cluster._tell = told  # type: ignore[method-assign]
    for outcome in late:
        told(outcome)  # type: ignore[arg-type]
    session = await opening
    assert (await session.append(b"a")).position == 1
