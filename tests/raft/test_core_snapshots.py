"""Snapshots of the core of Raft: sent, installed and kept behind, and members that come and go."""

import msgspec
import pytest
from tests.raft.cluster import SETTINGS, Cluster
from tests.raft.scenarios import append, entry, granted, replies, started

from ithaca.model.errors import InvalidInput
from ithaca.model.view import Address
from ithaca.raft import limits
from ithaca.raft.events import (
    ChangeMembership,
    Effect,
    Propose,
    Receive,
    RefusedRequest,
    Restore,
    SnapshotTaken,
    Tick,
    Unreachable,
)
from ithaca.raft.messages import (
    AppendEntries,
    AppendReply,
    Configuration,
    DurableState,
    InstallSnapshot,
    RequestVote,
    Snapshot,
    configuration_entry,
)

# Snapshots.


def test_a_snapshot_replaces_a_log_that_ends_before_it() -> None:
    """§7"""
    cluster = started(1, 1)
    snapshot = Snapshot(9, 2, Configuration((1, 2)), b"state")
    cluster.step(1, Receive(InstallSnapshot(2, 2, snapshot)))
    assert cluster.applied[1] == [snapshot]
    assert [reply.index for reply in replies(cluster)] == [9]
    cluster.restart(1)
    node = cluster.cores[1].node
    assert (node.snapshot, node.log.last_index, node.commit_index) == (snapshot, 9, 9)


def test_a_snapshot_keeps_a_log_that_agrees_with_it() -> None:
    """§7: if an entry has the snapshot's index and term, what follows is kept."""
    cluster = started(1, 1, 1)
    cluster.step(1, Receive(InstallSnapshot(2, 2, Snapshot(2, 1, Configuration((1, 2, 3))))))
    assert cluster.log(1) == [(1, 1), (2, 1), (3, 1)]
    assert cluster.cores[1].commit_index == 2
    assert not any(isinstance(each, Snapshot) for each in cluster.applied[1])


def test_a_snapshot_has_the_members_of_its_entry_and_not_those_of_a_change_under_way() -> None:
    """§4.1: another leader may take the change back, and what the snapshot says stays."""
    cluster = started(1)
    members = cluster.cores[1].node.membership
    cluster.step(1, append(2, (1, 1), configuration_entry(2, 2, Configuration((1, 2))), commit=1))
    assert members.current == Configuration((1, 2))
    cluster.step(1, SnapshotTaken(1, b"state"))
    cluster.restart(1)
    node = cluster.cores[1].node
    assert (node.snapshot.index, node.snapshot.configuration) == (1, Configuration((1, 2, 3)))
    cluster.step(1, append(3, (1, 1), entry(2, 3)))
    assert node.membership.current == Configuration((1, 2, 3))


def test_nothing_is_applied_between_a_snapshot_and_its_sync() -> None:
    cluster = started(1)
    cluster.slow_disks.add(1)
    cluster.step(1, Receive(InstallSnapshot(2, 2, Snapshot(9, 2, Configuration((1, 2))))))
    cluster.step(1, append(2, (9, 2), entry(10, 2), commit=10))
    cluster.step(1, SnapshotTaken(0, b"an old one, asked for before"))
    assert cluster.applied[1] == []
    cluster.sync(1)
    cluster.sync(1)
    assert [each.index for each in cluster.applied[1]] == [9, 10]


def test_some_entries_stay_behind_a_snapshot_for_followers_that_are_a_little_behind() -> None:
    cluster = Cluster(1, 2, settings=msgspec.structs.replace(SETTINGS, trailing_entries=2))
    cluster.elect(1)
    for number in range(4):
        cluster.step(1, Propose(number, (b"x",)))
    cluster.settle()
    cluster.step(1, SnapshotTaken(4, b""))
    assert [index for index, _ in cluster.log(1)] == [3, 4, 5]
    cluster.step(1, SnapshotTaken(5, b""))
    assert [index for index, _ in cluster.log(1)] == [4, 5]


def test_a_snapshot_that_is_too_large_is_refused() -> None:
    cluster = started(1)
    with pytest.raises(InvalidInput, match="over the limit"):
        cluster.step(1, SnapshotTaken(0, bytes(limits.RAFT_SNAPSHOT_BYTES_MAX + 1)))


def test_a_loss_is_noticed_even_when_the_entries_were_compacted_meanwhile() -> None:
    settings = msgspec.structs.replace(SETTINGS, inflight_appends_max=1, trailing_entries=0)
    cluster = Cluster(1, 2, 3, settings=settings)
    cluster.elect(1)
    cluster.step(1, Propose(1, (b"a",)))
    cluster.take(to=3)
    cluster.settle()
    cluster.step(1, Propose(2, (b"b",)))
    cluster.settle()
    cluster.step(1, SnapshotTaken(3, b""))
    cluster.tick(1, 20)
    cluster.settle()
    assert [type(effect) for server, effect in cluster.story if server == 3][-3:].count(Restore) == 1
    assert cluster.cores[3].commit_index == 3


def test_a_lost_snapshot_is_sent_again() -> None:
    cluster = Cluster(1, 2, settings=msgspec.structs.replace(SETTINGS, trailing_entries=0))
    cluster.elect(1)
    cluster.step(1, SnapshotTaken(1, b""))
    cluster.add(3, DurableState())
    cluster.step(1, ChangeMembership(1, "add learner", 3))
    lost = 0
    for _ in range(12):
        cluster.tick(1, 20)
        while cluster.network:
            for _, to, message in cluster.take():
                if isinstance(message, InstallSnapshot) and not lost:
                    lost += 1
                else:
                    cluster.step(to, Receive(message))
    assert lost == 1
    assert cluster.cores[3].commit_index == 2


def test_a_snapshot_that_is_on_its_way_is_not_sent_with_every_heartbeat() -> None:
    cluster = Cluster(1, 2, settings=msgspec.structs.replace(SETTINGS, trailing_entries=0))
    cluster.elect(1)
    cluster.step(1, SnapshotTaken(1, b""))
    cluster.add(3, DurableState())
    cluster.step(1, ChangeMembership(1, "add learner", 3))
    while not any(isinstance(message, InstallSnapshot) for _, _, message in cluster.take(to=3)):
        cluster.tick(1, SETTINGS.heartbeat_ms)
        cluster.deliver()  # the learner is probed, and says that it has nothing
        cluster.deliver(to=1)
    for passed_ms in range(SETTINGS.heartbeat_ms, SETTINGS.election_timeout_ms, SETTINGS.heartbeat_ms):
        cluster.step(1, Propose(passed_ms, (b"more",)))
        cluster.tick(1, SETTINGS.heartbeat_ms)
        cluster.deliver(to=2)
        cluster.deliver(to=1)
        assert [type(message) for _, _, message in cluster.take(to=3)] == [AppendEntries], "a heartbeat alone"


def test_unreachable_followers_and_strangers_are_no_trouble() -> None:
    cluster = Cluster(1, 2)
    cluster.elect(1)
    assert cluster.step(1, Unreachable(9)) == []
    assert cluster.step(2, Unreachable(9)) == []
    assert cluster.step(1, Receive(AppendReply(9, 1, True, 1))) == []


def test_time_never_runs_backwards() -> None:
    cluster = Cluster(1, 2)
    cluster.elect(1)
    before = cluster.cores[1].node.now_ms
    cluster.step(1, Tick(before - 50))
    assert cluster.cores[1].node.now_ms == before


# Members that come and go.


def refusals(effects: list[Effect]) -> list[str]:
    return [effect.reason for effect in effects if isinstance(effect, RefusedRequest)]


def test_a_server_that_waits_to_be_added_votes_for_nobody() -> None:
    """It may be one that lost its disk, and with it the vote that it gave before."""
    cluster = Cluster(checked=False)
    cluster.add(1, DurableState())
    for forced in (False, True):
        assert granted(cluster, RequestVote(2, 5, 9, 4, forced=forced)) is None
    assert granted(cluster, RequestVote(2, 5, 9, 4, pre=True)) is None
    assert (cluster.cores[1].term, cluster.cores[1].node.vote) == (0, None)
    cluster.step(1, append(5, (0, 0), configuration_entry(1, 5, Configuration((2, 3), (1,)))))
    cluster.take()
    cluster.tick(1, 1000)
    assert granted(cluster, RequestVote(2, 6, 9, 5)), "now it was added"


def test_no_change_after_which_most_voters_would_be_silent() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)
    for _ in range(4):
        cluster.tick(1, 40)
        for _, to, message in cluster.take():
            if to == 2:
                cluster.step(2, Receive(message))
        cluster.deliver(2, 1)
    assert refusals(cluster.step(1, ChangeMembership(1, "remove", 2))) == ["no majority would be alive"]
    assert refusals(cluster.step(1, ChangeMembership(2, "remove", 3))) == []
    assert cluster.cores[1].leadership is not None
    assert cluster.cores[1].leadership.successor == 2


def test_a_learner_is_promoted_once_it_knows_that_it_was_added() -> None:
    cluster = Cluster(1)
    cluster.elect(1)
    cluster.add(2, DurableState())
    at = Address("127.0.0.1", 7)
    assert refusals(cluster.step(1, ChangeMembership(1, "add learner", 2, at))) == []
    assert refusals(cluster.step(1, ChangeMembership(2, "promote", 2))) == ["learner is behind"]
    cluster.settle()
    cluster.tick(1, 20)
    cluster.settle()
    assert refusals(cluster.step(1, ChangeMembership(3, "promote", 2))) == []
    cluster.settle()
    assert cluster.cores[2].node.membership.current == Configuration((1, 2), (), ((2, at),))
    assert refusals(cluster.step(1, ChangeMembership(4, "remove", 2))) == []
    cluster.settle()
    after = cluster.cores[1].node.membership.current
    assert after == Configuration((1,), removed_last=2)
    assert [after.was_removed(server) for server in (1, 2, 3)] == [False, True, False]
