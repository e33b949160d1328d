"""Snapshots that refer to data outside of them: it is fetched first, and what is in its way goes before that."""

import msgspec
from tests.raft.cluster import SETTINGS, Cluster

from ithaca.raft.events import FetchSnapshot, Persist, Propose, Receive, SnapshotFetched, SnapshotTaken
from ithaca.raft.messages import AppendEntries, AppendReply, Entry, EntryKind, Snapshot

FETCHING = msgspec.structs.replace(SETTINGS, trailing_entries=0, fetches=True)


def diverged() -> Cluster:
    """Server 3 led, and has an entry that nobody else got; server 1 leads, and has compacted beyond it."""
    cluster = Cluster(1, 2, 3, settings=FETCHING)
    cluster.elect(3)
    cluster.step(3, Propose(1, (b"lost",)))
    cluster.take()
    cluster.tick(2, 2 * SETTINGS.election_timeout_ms)
    cluster.take()
    cluster.tick(1, 2 * SETTINGS.election_timeout_ms)
    cluster.take(to=3)
    while cluster.deliver():
        cluster.take(to=3)
    assert cluster.cores[1].leadership is not None
    for number in range(5):
        cluster.step(1, Propose(10 + number, (b"%d" % number,)))
        cluster.take(to=3)
        while cluster.deliver():
            cluster.take(to=3)
    cluster.step(1, SnapshotTaken(cluster.cores[1].commit_index, b"state"))
    return cluster


def offered(cluster: Cluster) -> FetchSnapshot:
    for _ in range(10):
        cluster.tick(1, 20)
        cluster.settle()
        found = [each for server, each in cluster.story if isinstance(each, FetchSnapshot) and server == 3]
        if found:
            return found[-1]
    raise AssertionError("no snapshot came")


def test_entries_that_contradict_are_gone_from_the_disk_before_anything_is_fetched() -> None:
    cluster = diverged()
    assert cluster.cores[3].node.log.last_index == 2
    cluster.slow_disks.add(3)
    for _ in range(10):
        cluster.tick(1, 20)
        cluster.settle()
        while cluster._persists[3]:
            effect, behind = cluster._persists[3][0]
            if effect.cut_from is not None:
                assert effect.cut_from == cluster.cores[3].commit_index + 1
                assert [type(each) for each in behind] == [FetchSnapshot]
                assert not [each for server, each in cluster.story if server == 3 and isinstance(each, FetchSnapshot)]
                cluster.sync_all(3)
                assert cluster._durable[3].last_index == cluster.cores[3].commit_index
                return
            cluster.sync(3)
    raise AssertionError("nothing was cut")


def test_it_is_installed_and_answered_once_everything_is_here() -> None:
    cluster = diverged()
    snapshot = offered(cluster).snapshot
    cluster.take()
    assert cluster.cores[3].commit_index < snapshot.index
    cluster.step(3, SnapshotFetched(snapshot.index + 1, snapshot.term))
    assert cluster.cores[3].commit_index < snapshot.index
    cluster.step(3, SnapshotFetched(snapshot.index, snapshot.term))
    assert cluster.applied[3][-1] == snapshot
    replies = [message for _, _, message in cluster.take(sender=3) if isinstance(message, AppendReply)]
    assert replies[-1].accepted
    assert replies[-1].index == snapshot.index
    cluster.step(3, SnapshotFetched(snapshot.index, snapshot.term))
    assert [each for each in cluster.applied[3] if isinstance(each, Snapshot)] == [snapshot]


def test_it_is_offered_again_while_it_is_missing() -> None:
    cluster = diverged()
    first = offered(cluster)
    cluster.story.clear()
    for _ in range(8):
        cluster.tick(1, 20)
        cluster.tick(2, 0)
        cluster.settle()
    assert first in [each for server, each in cluster.story if server == 3]


def test_entries_that_come_meanwhile_end_it() -> None:
    """Another leader has them still: what is fetched would be in the way of what belongs to them."""
    cluster = diverged()
    snapshot = offered(cluster).snapshot
    node = cluster.cores[3].node
    cluster.take()
    entry = Entry(node.log.last_index + 1, node.term, EntryKind.PAYLOAD, b"of another leader")
    lost = cluster.cores[3]
    lost.step(
        Receive(AppendEntries(1, node.term, node.log.last_index, node.log.last_term, (entry,), node.commit_index))
    )
    effects = lost.step(SnapshotFetched(snapshot.index, snapshot.term))
    assert not [each for each in effects if isinstance(each, Persist) and each.snapshot is not None]
