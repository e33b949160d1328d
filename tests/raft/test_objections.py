"""What no server says that follows the protocol does nothing: it stops nobody, and bricks nothing."""

import pytest
from tests.raft.cluster import Cluster

from ithaca.model import limits
from ithaca.raft.events import Receive, Role
from ithaca.raft.limits import RAFT_APPEND_ENTRIES_MAX, RAFT_ENTRY_BYTES_MAX, RAFT_TERM_LEAP_MAX
from ithaca.raft.messages import (
    AnyMessage,
    AppendEntries,
    AppendReply,
    Configuration,
    Entry,
    EntryKind,
    InstallSnapshot,
    RequestVote,
    Snapshot,
    TimeoutNow,
    VoteReply,
    configuration_entry,
)

NOOP = EntryKind.NOOP
HUGE = (1 << 64) - 1


def led() -> Cluster:
    """A group that server 1 leads in term 1."""
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)
    assert cluster.cores[1].role is Role.LEADER
    return cluster


def group(*voters: int, **more: int) -> Configuration:
    return Configuration(voters, **more)  # type: ignore[arg-type]


TO_THE_LEADER: list[AnyMessage] = [
    AppendReply(2, 1, accepted=True, index=99),
    AppendReply(2, 1, accepted=True, index=1, round=99),
    AppendReply(2, 1, accepted=False, index=-1),
    AppendReply(2, 1, accepted=False, index=1, hint_index=-5),
    AppendEntries(2, 1, 0, 0, (), 0),
    InstallSnapshot(2, 1, Snapshot(9, 1, group(1, 2, 3))),
    VoteReply(2, HUGE, granted=False),
]

TO_A_FOLLOWER: list[AnyMessage] = [
    AppendEntries(1, 1, 0, 0, (Entry(7, 1, NOOP, b""),), 0),
    AppendEntries(1, 1, 0, 0, (Entry(1, 1, NOOP, b""), Entry(1, 1, NOOP, b"")), 0),
    AppendEntries(1, 1, 0, 0, (Entry(1, 2, NOOP, b""),), 0),
    AppendEntries(1, 2, 0, 0, (Entry(1, 2, NOOP, b""), Entry(2, 1, NOOP, b"")), 0),
    AppendEntries(1, 1, -1, 0, (), 0),
    AppendEntries(1, 1, 0, 0, (), -1),
    AppendEntries(1, 1, HUGE, 0, (), 0),
    AppendEntries(1, 1, 0, 0, (Entry(1, 1, EntryKind.CONFIGURATION, b"no configuration"),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(*range(1, limits.RAFT_MEMBERS_MAX + 2))),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(0)),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(1, 1)),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(1, removed_last=1 << 40)),), 0),
    AppendEntries(1, 1, 0, 0, (Entry(1, 1, EntryKind.PAYLOAD, bytes(RAFT_ENTRY_BYTES_MAX + 1)),), 0),
    AppendEntries(1, 1, 0, 0, tuple(Entry(1 + n, 1, NOOP, b"") for n in range(RAFT_APPEND_ENTRIES_MAX + 1)), 0),
    InstallSnapshot(1, 1, Snapshot(9, 2, group(1))),
    InstallSnapshot(1, 1, Snapshot(-9, 1, group(1))),
    RequestVote(2, HUGE, 0, 0),
    RequestVote(2, 5, -1, 0),
    TimeoutNow(2, RAFT_TERM_LEAP_MAX + 2),
]


@pytest.mark.parametrize("message", TO_THE_LEADER, ids=repr)
def test_a_leader_goes_on(message: AnyMessage) -> None:
    cluster = led()
    leader = cluster.cores[1]
    assert leader.objection(message) is not None
    assert cluster.step(1, Receive(message)) == []
    assert (leader.role, leader.term) == (Role.LEADER, 1)


@pytest.mark.parametrize("message", TO_A_FOLLOWER, ids=lambda message: repr(message)[:80])
def test_a_follower_goes_on(message: AnyMessage) -> None:
    cluster = Cluster(1, 2, 3)
    follower = cluster.cores[3]
    assert follower.objection(message) is not None
    assert cluster.step(3, Receive(message)) == []
    assert (follower.term, follower.node.log.last_index) == (0, 0)


def test_a_term_may_be_ahead_as_far_as_elections_can_have_brought_it() -> None:
    cluster = Cluster(1, 2, 3)
    ahead = RAFT_TERM_LEAP_MAX
    cluster.step(3, Receive(AppendEntries(1, ahead, 0, 0, (), 0)))
    assert cluster.cores[3].term == ahead


LARGEST_GROUP = group(*range(1, limits.RAFT_MEMBERS_MAX + 1))
AT_THE_LIMIT: list[AnyMessage] = [
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, LARGEST_GROUP),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(1, limits.RAFT_NUMBER_MAX)),), 0),
    AppendEntries(1, 1, 0, 0, (configuration_entry(1, 1, group(1, removed_last=limits.RAFT_NUMBER_MAX)),), 0),
    AppendEntries(1, 1, 0, 0, (Entry(1, 1, EntryKind.PAYLOAD, bytes(RAFT_ENTRY_BYTES_MAX)),), 0),
    AppendEntries(1, 1, 0, 0, tuple(Entry(1 + n, 1, NOOP, b"") for n in range(RAFT_APPEND_ENTRIES_MAX)), 0),
    InstallSnapshot(1, 1, Snapshot(9, 1, LARGEST_GROUP)),
    RequestVote(2, 1, 0, 0),
]


@pytest.mark.parametrize("message", AT_THE_LIMIT, ids=lambda message: repr(message)[:80])
def test_what_a_server_may_just_say_is_heard(message: AnyMessage) -> None:
    assert Cluster(1, 2, 3).cores[3].objection(message) is None
