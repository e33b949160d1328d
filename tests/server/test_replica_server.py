"""The storage server from outside, over real sockets and files, with a client that speaks only the protocol."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.raw_client import RawClient, batch_of

from ithaca.engines.scalog.messages.appending import GetNextSeq, GetSessionTail, NextSeqIs, SessionTailReply
from ithaca.engines.scalog.messages.copying import GetRuns, RunsReply
from ithaca.engines.scalog.messages.reading import (
    Behind,
    Deliver,
    Elsewhere,
    Found,
    Read,
    SeekTime,
    Subscribe,
    TimeIs,
)
from ithaca.engines.scalog.ordering.entries import TrimTo
from ithaca.engines.scalog.server.replica.server import ReplicaServer
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.model.cut import LaneRun
from ithaca.model.errors import (
    InvalidInput,
    SequenceGap,
    SessionFenced,
    StorageFull,
    Trimmed,
    Unavailable,
    WrongLane,
)
from ithaca.model.positions import LaneId
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Failure, Finished
from ithaca.storage.disk import OsDisk
from ithaca.testing import Cluster
from ithaca.wire.batch import lane_seed, parse
from ithaca.wire.build import noops

LANE = LaneId(0, 0, 1)


class Parts:
    """A cluster of one shard, and connections to its servers."""

    def __init__(self, cluster: Cluster, orderer: RawClient, replicas: list[RawClient]) -> None:
        self.cluster = cluster
        self.orderer = orderer
        self.replicas = replicas

    async def stream(self, request: Subscribe, replica: int = 0) -> RawClient:
        address = self.cluster.file.replica(0, replica).address
        client = await RawClient.connect(address)
        client.connection.send(request, correlation=client.connection.next_correlation())
        return client


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    with Cluster(tmp_path) as cluster:
        orderer = await RawClient.connect(cluster.file.orderers[0].address)
        replicas = [await RawClient.connect(place.address) for place in cluster.file.shards[0].replicas]
        yield Parts(cluster, orderer, replicas)
        for client in (orderer, *replicas):
            client.connection.abort()


async def delivered(client: RawClient, count: int) -> list[tuple[int, bytes]]:
    """The next records of a stream."""
    records: list[tuple[int, bytes]] = []
    while len(records) < count:
        received = await asyncio.wait_for(client.unasked.get(), 10)
        assert isinstance(received.message, Deliver), received.message
        records += records_of(received.message, received.payload)
    return records


def records_of(message: Deliver, payload: Any) -> list[tuple[int, bytes]]:
    records: list[tuple[int, bytes]] = []
    offset = 0
    for item in message.items:
        batch = parse(payload, offset)
        offset += batch.total_bytes
        rows: Any = range(item.low, item.high)
        if item.rows is not None:
            rows = range(batch.count)
            positions = [
                item.position + int.from_bytes(item.rows[at : at + 4], "little") for at in range(0, len(item.rows), 4)
            ]
        else:
            assert batch.belongs_to(lane_seed(item.lane))
            positions = [item.position + row for row in rows]
        values = [record.value for record in batch.records(1, 0)]
        records += [(position, values[row]) for position, row in zip(positions, rows, strict=True)]
    return records


async def test_a_batch_is_acknowledged_with_its_position_once_both_replicas_have_it(parts: Parts) -> None:
    first = await parts.replicas[0].append(LANE, batch_of(b"a", b"b"))
    second = await parts.replicas[1].append(LaneId(0, 1, 1), batch_of(b"c"))
    assert (first, second) == (1, 3)
    assert (await parts.orderer.tail()).tail == 4
    for replica in (0, 1):
        stream = await parts.stream(Subscribe(1), replica)
        assert await delivered(stream, 3) == [(1, b"a"), (2, b"b"), (3, b"c")]
        stream.connection.abort()


async def test_a_stream_ends_at_its_stop_and_goes_on_with_what_is_appended(parts: Parts) -> None:
    live = await parts.stream(Subscribe(1), replica=1)
    for value in (b"a", b"b", b"c"):
        await parts.replicas[0].append(LANE, batch_of(value))
    assert await delivered(live, 3) == [(1, b"a"), (2, b"b"), (3, b"c")]
    ending = await parts.stream(Subscribe(2, stop=3))
    assert await delivered(ending, 1) == [(2, b"b")]
    assert isinstance((await asyncio.wait_for(ending.unasked.get(), 10)).message, Finished)
    for client in (live, ending):
        client.connection.abort()


async def test_a_filter_is_applied_in_the_server(parts: Parts) -> None:
    keys: list[bytes | None] = [b"x-1", None, b"y-1", b"x-2"]
    await parts.replicas[0].append(LANE, batch_of(b"a", b"b", b"c", b"d", keys=keys))
    await parts.replicas[0].append(LANE, batch_of(b"e", b"f"))
    stream = await parts.stream(Subscribe(1, stop=7, where=Filter("prefix", b"x-")))
    found, up_to = [], 0
    while up_to < 7:
        received = await asyncio.wait_for(stream.unasked.get(), 10)
        assert isinstance(received.message, Deliver)
        assert sum(item.high - item.low for item in received.message.items) <= 2, "what does not match stays there"
        found += records_of(received.message, received.payload)
        up_to = received.message.up_to
    assert found == [(1, b"a"), (4, b"d")]
    stream.connection.abort()


async def test_one_record_is_found_at_any_replica(parts: Parts) -> None:
    await parts.replicas[0].append(LANE, batch_of(b"a", b"b", b"c"))
    for replica in parts.replicas:
        received = await replica.connection.request(Read(2, wait_ms=5000))
        assert received.message == Found(LANE, 1)
        assert parse(received.payload).records(1, 0)[1].value == b"b"
        assert await replica.ask(Read(4)) == Behind(4)


async def test_sessions_are_deduplicated_and_fenced(parts: Parts) -> None:
    session = await parts.orderer.open_session("s", LANE)
    replica = parts.replicas[0]
    who = (session.producer_id, session.epoch)
    assert await replica.ask(GetNextSeq(LANE, *who)) == NextSeqIs(1)
    first = batch_of(b"a", b"b", producer=(*who, 1))
    one, other = replica.append(LANE, first), replica.append(LANE, batch_of(b"a", b"b", producer=(*who, 1)))
    assert (await one, await other) == (1, 1)
    assert await replica.append(LANE, batch_of(b"a", b"b", producer=(*who, 1))) == 1
    with pytest.raises(SequenceGap):
        await replica.append(LANE, batch_of(b"z", producer=(*who, 9)))
    with pytest.raises(WrongLane):
        await parts.replicas[1].append(LaneId(0, 1, 1), batch_of(b"c", producer=(*who, 3)))
    again = await parts.orderer.open_session("s", LANE)
    assert again.epoch == session.epoch + 1
    assert await replica.append(LANE, batch_of(b"c", producer=(again.producer_id, again.epoch, 3))) == 3
    with pytest.raises(SessionFenced):
        await replica.append(LANE, batch_of(b"d", producer=(*who, 4)))


async def test_what_is_no_batch_or_in_no_lane_is_refused_and_the_connection_lives(parts: Parts) -> None:
    replica = parts.replicas[0]
    broken = batch_of(b"a")
    broken.head = broken.head[:4] + b"\0\0\0\0" + broken.head[8:]
    with pytest.raises(InvalidInput, match="checksum"):
        await replica.append(LANE, broken)
    with pytest.raises(WrongLane, match="9-9-9"):
        await replica.append(LaneId(9, 9, 9), batch_of(b"a"))
    assert await replica.append(LANE, batch_of(b"a")) == 1


async def read_for_ever(replica: RawClient, position: int) -> None:
    """Until it is refused: the news of a trim takes a moment."""
    while True:
        await replica.ask(Read(position))


async def test_trimmed_positions_are_refused_by_name(parts: Parts) -> None:
    for value in (b"a", b"b", b"c"):
        await parts.replicas[0].append(LANE, batch_of(value))
    await parts.orderer.propose(TrimTo(3))
    for replica in parts.replicas:
        with pytest.raises(Trimmed) as refused:
            await read_for_ever(replica, 2)
        assert refused.value.first == 3
        assert isinstance(await replica.ask(Read(3)), Found)
    stream = await parts.stream(Subscribe(1))
    refusal = (await asyncio.wait_for(stream.unasked.get(), 10)).message
    assert isinstance(refusal, Failure)
    assert (refusal.name, refusal.detail) == ("Trimmed", {"first": 3})
    stream.connection.abort()


async def test_a_time_is_found_by_the_orders_own_clock(parts: Parts) -> None:
    await parts.replicas[0].append(LANE, batch_of(b"a"))
    between_us = (await parts.orderer.tail()).time_us + 1
    await parts.replicas[0].append(LANE, batch_of(b"b"))
    assert await parts.replicas[1].ask(SeekTime(between_us, 3)) == TimeIs(2)
    assert await parts.replicas[1].ask(SeekTime(0, 3)) == TimeIs(1)
    assert await parts.replicas[1].ask(SeekTime(1 << 60, 3)) == TimeIs(None)


async def test_a_killed_replica_comes_back_with_everything_and_a_new_lane(parts: Parts) -> None:
    for value in (b"a", b"b"):
        await parts.replicas[1].append(LaneId(0, 1, 1), batch_of(value))
    await asyncio.to_thread(parts.cluster.kill_replica, 0, 1)
    pending = parts.replicas[0].append(LANE, batch_of(b"c"))
    await asyncio.to_thread(parts.cluster.start_server, "shard-0-replica-1")
    assert await asyncio.wait_for(pending, 10) == 3
    await asyncio.to_thread(parts.cluster.wait_healthy)
    back = await RawClient.connect(parts.cluster.file.replica(0, 1).address)
    with pytest.raises(WrongLane):
        await back.append(LaneId(0, 1, 1), batch_of(b"x"))
    assert await back.append(LaneId(0, 1, 2), batch_of(b"d")) == 4
    stream = await parts.stream(Subscribe(1), replica=1)
    assert await delivered(stream, 4) == [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")]
    for client in (back, stream):
        client.connection.abort()


async def restarted(parts: Parts, replica: int, change: Callable[[LaneStore], None] = lambda _: None) -> RawClient:
    """Stop a replica, do something to its disk, start it again, and connect to it."""

    def restart() -> None:
        name = f"shard-0-replica-{replica}"
        parts.cluster.stop_server(name)
        store = LaneStore(OsDisk(), str(parts.cluster.directory / name / "lanes"))
        change(store)
        store.close()
        parts.cluster.start_server(name)

    await asyncio.to_thread(restart)
    return await RawClient.connect(parts.cluster.file.replica(0, replica).address)


async def test_what_a_session_has_in_a_closed_lane(parts: Parts) -> None:
    """A replica that never had all batches of the lane does not know, and a position that was trimmed is 0."""
    session = await parts.orderer.open_session("s", LANE)
    batches = [batch_of(b"%d" % seq, producer=(session.producer_id, session.epoch, seq)) for seq in (1, 2, 3)]
    assert [await parts.replicas[0].append(LANE, batch) for batch in batches] == [1, 2, 3]
    await parts.orderer.propose(TrimTo(3))

    def make_a_hole(store: LaneStore) -> None:
        store.drop(LANE)
        held = store.create(LANE)
        held.lane.commit(held.lane.prepare([noops(2, timestamp_us=0), batches[2]]))
        store.note((LaneRun(LANE, 0, 1, 3),), 1)

    def forget_a_run(store: LaneStore) -> None:
        runs = store.lanes[LANE].runs
        runs.truncate(0)
        runs.skip_to(1)
        store.note((LaneRun(LANE, 1, 2, 2),), 1)

    with_hole, forgetful = await restarted(parts, 1, make_a_hole), await restarted(parts, 0, forget_a_run)
    await asyncio.to_thread(parts.cluster.wait_healthy)
    question = GetSessionTail(LANE, session.producer_id)
    with pytest.raises(Unavailable, match="not closed and complete"):
        await with_hole.ask(question)
    assert await forgetful.ask(question) == SessionTailReply(((1, 1, 0), (2, 1, 2), (3, 1, 3)))
    assert await forgetful.ask(GetSessionTail(LANE, session.producer_id + 1)) == SessionTailReply(())
    first_left = RunsReply(((1, 2, 2, 1),))
    assert await forgetful.ask(GetRuns(LANE, 0, 3)) == first_left, "what is before it was trimmed"
    assert await forgetful.ask(GetRuns(LANE, 0, 1)) == RunsReply(((1, 2, 1, 1),)), "even if nothing else was asked for"
    for client in (with_hole, forgetful):
        client.connection.abort()


async def test_a_record_of_another_shard_is_elsewhere(tmp_path: Path) -> None:
    with Cluster(tmp_path, shards=2) as cluster:
        here = await RawClient.connect(cluster.file.replica(0, 0).address)
        there = await RawClient.connect(cluster.file.replica(1, 0).address)
        assert await there.append(LaneId(1, 0, 1), batch_of(b"a")) == 1
        assert await here.ask(Read(1, wait_ms=5000)) == Elsewhere()
        for client in (here, there):
            client.connection.abort()


async def test_a_replica_whose_disk_was_wiped_gets_everything_from_its_peer_and_a_new_lane(parts: Parts) -> None:
    for value in (b"a", b"b"):
        await parts.replicas[0].append(LANE, batch_of(value))
    await asyncio.to_thread(parts.cluster.kill_replica, 0, 0)
    shutil.rmtree(parts.cluster.directory / "shard-0-replica-0")
    await asyncio.to_thread(parts.cluster.start_server, "shard-0-replica-0")
    await asyncio.to_thread(parts.cluster.wait_healthy)
    back = await RawClient.connect(parts.cluster.file.replica(0, 0).address)
    with pytest.raises(WrongLane):
        await back.append(LANE, batch_of(b"x"))
    assert await back.append(LaneId(0, 0, 2), batch_of(b"c")) == 3
    for replica in (0, 1):
        stream = await parts.stream(Subscribe(1), replica)
        assert await delivered(stream, 3) == [(1, b"a"), (2, b"b"), (3, b"c")]
        stream.connection.abort()
    back.connection.abort()


async def test_an_effect_that_fails_ends_the_server_and_nothing_is_read_there_any_more(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageFull("no space is left")

    names = ("shard-0-replica-0", "shard-0-replica-1")
    servers = [parts.cluster._running[name].server for name in names]
    monkeypatch.setattr(LaneStore, "note", fail)
    assert await parts.replicas[0].append(LANE, batch_of(b"a")) == 1, "it is ordered"
    async with asyncio.timeout(20):
        while any(name in parts.cluster._running for name in names):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)
    for server in servers:
        assert isinstance(server, ReplicaServer)
        with pytest.raises(Unavailable, match="ends"):
            server.read_view.readable.check_open()
