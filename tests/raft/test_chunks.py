"""Snapshots that travel in chunks: lost, repeated and foreign chunks, restarts, what the leader keeps meanwhile."""

import msgspec
import pytest
from tests.raft.cluster import SETTINGS, Cluster

from ithaca.raft.events import ChangeMembership, Propose, Receive, SnapshotTaken
from ithaca.raft.messages import (
    AppendReply,
    ChunkReply,
    Configuration,
    DurableState,
    Snapshot,
    SnapshotChunk,
)

STATE = b"0123456789"
SMALL = msgspec.structs.replace(SETTINGS, trailing_entries=0, snapshot_chunk_bytes=3)


def behind() -> Cluster:
    """A leader whose learner, server 3, needs its snapshot, of which the first chunk is under way."""
    cluster = Cluster(1, 2, settings=SMALL)
    cluster.elect(1)
    cluster.step(1, SnapshotTaken(1, STATE))
    cluster.add(3, DurableState())
    cluster.step(1, ChangeMembership(1, "add learner", 3))
    for _ in range(3):
        cluster.tick(1, 20)
        while not chunks(cluster) and cluster.deliver():
            pass
    assert [chunk.offset for chunk in chunks(cluster)] == [0]
    return cluster


def chunks(cluster: Cluster) -> list[SnapshotChunk]:
    return [message for _, _, message in cluster.network if isinstance(message, SnapshotChunk)]


def restored(cluster: Cluster) -> list[bytes]:
    return [each.data for each in cluster.applied[3] if isinstance(each, Snapshot)]


def chunk(data: bytes, offset: int, *, term: int = 5, sender: int = 2, index: int = 9) -> Receive:
    group = Configuration((1, 2, 3))
    return Receive(SnapshotChunk(sender, term, index, 4, group, len(STATE), offset, data))


def held(cluster: Cluster) -> list[int]:
    return [message.held for _, _, message in cluster.take() if isinstance(message, ChunkReply)]


def test_a_snapshot_comes_in_chunks_one_after_the_other() -> None:
    cluster = behind()
    offsets: list[int] = []
    while cluster.network:
        sent = chunks(cluster)
        assert len(sent) <= 1
        offsets += [each.offset for each in sent]
        cluster.deliver()
    assert offsets == [0, 3, 6, 9]
    assert restored(cluster) == [STATE]
    assert cluster.cores[3].commit_index == cluster.cores[1].commit_index
    assert cluster.cores[3].node.incoming is None


@pytest.mark.parametrize("lost", [SnapshotChunk, ChunkReply])
@pytest.mark.parametrize("which", range(4))
def test_what_is_lost_is_sent_again(lost: type, which: int) -> None:
    cluster = behind()
    seen = 0
    for _ in range(30):
        while cluster.network:
            for _, to, message in cluster.take():
                if isinstance(message, lost):
                    seen += 1
                    if seen == which + 1:
                        continue
                if to in cluster.cores:
                    cluster.step(to, Receive(message))
        cluster.tick(1, 20)
    assert seen > which or lost is ChunkReply
    assert restored(cluster) == [STATE]


def test_what_comes_twice_counts_once_and_is_not_answered_by_more_than_one_chunk() -> None:
    cluster = behind()
    most = 0
    for _ in range(60):
        under_way = cluster.take()
        most = max(most, sum(isinstance(message, SnapshotChunk) for _, _, message in under_way))
        for _, to, message in under_way:
            for _ in range(2):
                cluster.step(to, Receive(message))
    assert restored(cluster) == [STATE]
    assert most == 1


def test_a_restart_in_the_middle_begins_again() -> None:
    cluster = behind()
    for _ in range(3):
        cluster.deliver()
    assert cluster.cores[3].node.incoming is not None
    cluster.restart(3)
    for _ in range(30):
        cluster.settle()
        cluster.tick(1, 20)
    assert restored(cluster) == [STATE]


def test_chunks_of_another_leader_or_snapshot_are_not_joined() -> None:
    cluster = Cluster(1, 2, 3, checked=False)
    for more in ({"term": 6, "sender": 1}, {"index": 10}, {}):
        cluster.step(3, chunk(STATE[:4], 0, term=5))
        assert held(cluster) == [4]
        if more:
            cluster.step(3, chunk(b"other", 4, **({"term": 5} | more)))
            assert held(cluster) == [0]
            cluster = Cluster(1, 2, 3, checked=False)
    cluster.step(3, chunk(STATE[4:], 4, term=5))
    assert restored(cluster) == [STATE]
    assert [type(message) for _, _, message in cluster.network] == [AppendReply]


def test_a_gap_and_a_repeat_are_answered_with_what_is_there() -> None:
    cluster = Cluster(1, 2, 3, checked=False)
    cluster.step(3, chunk(b"345", 3))
    cluster.step(3, chunk(b"012", 0))
    cluster.step(3, chunk(b"678", 6))
    cluster.step(3, chunk(b"0123", 0))
    assert held(cluster) == [0, 3, 3, 3]
    assert cluster.applied[3] == []


def test_a_higher_term_lets_go_of_what_has_come() -> None:
    cluster = Cluster(1, 2, 3, checked=False)
    cluster.step(3, chunk(b"012", 0))
    assert cluster.cores[3].node.incoming is not None
    cluster.step(3, Receive(AppendReply(1, 9, accepted=False, index=0)))
    assert cluster.cores[3].node.incoming is None


def test_the_leader_keeps_what_follows_a_snapshot_that_it_sends_whatever_comes_after() -> None:
    cluster = behind()
    for number in range(2, 40):
        cluster.step(1, Propose(number, (b"more",)))
        cluster.deliver(1, 2)
        cluster.deliver(2, 1)
        index = cluster.cores[1].commit_index
        cluster.step(1, SnapshotTaken(index, STATE))
        if number % 5 == 0:
            cluster.deliver()
    cluster.settle()
    cluster.tick(1, 20)
    cluster.settle()
    assert restored(cluster) == [STATE]
    assert cluster.cores[3].commit_index == cluster.cores[1].commit_index
    assert cluster.cores[1].leadership is not None
    assert cluster.cores[1].leadership.needed_after is None


def test_nothing_is_kept_for_one_that_is_silent() -> None:
    cluster = behind()
    for number in range(2, 20):
        cluster.step(1, Propose(number, (b"more",)))
        cluster.take(to=3)
        cluster.settle()
        cluster.tick(1, 20)
        cluster.take(to=3)
        cluster.settle()
        cluster.step(1, SnapshotTaken(cluster.cores[1].commit_index, STATE))
    assert cluster.cores[1].node.log.first_index > cluster.cores[1].commit_index
