"""Rules of Raft, each cited, on groups moved by hand."""

import msgspec
import pytest
from tests.raft.cluster import SETTINGS, Cluster
from tests.raft.scenarios import append, entry, granted, replies, started

from ithaca.raft import limits
from ithaca.raft.events import (
    Apply,
    ChangeMembership,
    Persist,
    Propose,
    Proposed,
    ReadIndex,
    Receive,
    RefusedRequest,
    Role,
    Send,
)
from ithaca.raft.log import ENTRY_OVERHEAD_BYTES
from ithaca.raft.messages import (
    Configuration,
    DurableState,
    Entry,
    HardState,
    RequestVote,
    Snapshot,
    VoteReply,
    configuration_entry,
)

# Votes.


def test_one_vote_per_term_first_come_first_served() -> None:
    """§5.2"""
    cluster = started()
    assert granted(cluster, RequestVote(2, 1, 0, 0))
    assert not granted(cluster, RequestVote(3, 1, 0, 0))
    assert granted(cluster, RequestVote(2, 1, 0, 0)), "the same candidate again: its reply was lost"
    assert granted(cluster, RequestVote(3, 2, 0, 0))


def test_a_vote_survives_a_restart() -> None:
    """Figure 2: votedFor is persistent; else one server elects two leaders in a term."""
    cluster = started()
    assert granted(cluster, RequestVote(2, 1, 0, 0))
    cluster.restart(1)
    assert not granted(cluster, RequestVote(3, 1, 0, 0))


def test_a_vote_leaves_only_when_it_is_synced() -> None:
    """§5.1, figure 2: respond after updating stable storage."""
    cluster = started()
    cluster.slow_disks.add(1)
    assert granted(cluster, RequestVote(2, 1, 0, 0)) is None
    cluster.sync(1)
    assert [message for _, _, message in cluster.take()] == [VoteReply(1, 1, True)]


@pytest.mark.parametrize(
    ("last", "expected"),
    [((3, 2), True), ((4, 2), True), ((1, 3), True), ((2, 2), False), ((9, 1), False)],
)
def test_votes_go_to_logs_that_are_at_least_as_up_to_date(last: tuple[int, int], expected: bool) -> None:
    """§5.4.1: the later last term wins, then the longer log; for pre-votes too."""
    assert granted(started(1, 1, 2), RequestVote(2, 5, *last)) is expected
    assert granted(started(1, 1, 2), RequestVote(2, 5, *last, pre=True)) is expected


def test_a_pre_vote_moves_no_term() -> None:
    """Thesis §9.6"""
    cluster = started(term=3)
    assert granted(cluster, RequestVote(2, 4, 0, 0, pre=True))
    assert granted(cluster, RequestVote(3, 4, 0, 0, pre=True)), "it is no vote: others may have it as well"
    assert cluster.cores[1].term == 3
    assert not granted(cluster, RequestVote(2, 3, 0, 0, pre=True)), "that term is taken already"


def test_the_own_vote_counts_once_it_is_durable() -> None:
    """A lone voter that led before its term was synced could lead the same term twice."""
    cluster = started(voters=(1,))
    cluster.slow_disks.add(1)
    cluster.tick(1, 200)
    assert cluster.role(1) is Role.CANDIDATE
    cluster.sync(1)
    assert cluster.role(1) is Role.LEADER
    assert cluster.cores[1].commit_index == 0
    cluster.sync(1)
    assert cluster.cores[1].commit_index == 1


def test_whoever_hears_a_leader_helps_nobody_to_replace_it_unless_the_leader_asked() -> None:
    """Thesis §4.2.3 and §3.10"""
    cluster = started(1, 1)
    cluster.step(1, append(1, (2, 1)))
    cluster.take()
    assert granted(cluster, RequestVote(3, 9, 9, 9)) is None
    assert cluster.cores[1].term == 1
    assert granted(cluster, RequestVote(3, 9, 9, 9, forced=True))


def test_an_election_time_out_is_between_one_and_two_times_the_setting() -> None:
    """§5.2: randomised, so that split votes are rare."""
    deadlines = set()
    cluster = started()
    for _ in range(50):
        cluster.step(1, append(1, (0, 0)))
        deadlines.add(cluster.cores[1].deadline_ms)
    low, high = SETTINGS.election_timeout_ms, 2 * SETTINGS.election_timeout_ms
    assert all(low <= deadline < high for deadline in deadlines)
    assert len(deadlines) > 20


def test_learners_and_strangers_never_stand_for_election() -> None:
    for configuration in (Configuration((2, 3), (1,)), Configuration()):
        cluster = Cluster()
        cluster.add(1, DurableState(snapshot=Snapshot(configuration=configuration)))
        cluster.tick(1, 1000)
        assert cluster.role(1) is Role.FOLLOWER
        assert not cluster.network


def test_a_server_stands_for_election_until_its_removal_is_committed() -> None:
    """Thesis §4.2.2: only server 1 has the entry that removes it, and server 3 cannot win without its vote."""
    cluster = Cluster(1, 3)
    cluster.elect(1)
    cluster.step(1, ChangeMembership(1, "remove", 1))
    cluster.take()
    cluster.tick(1, 100)
    cluster.tick(1, 100)
    cluster.tick(3, 300)
    cluster.settle()
    assert cluster.role(3) is not Role.LEADER
    cluster.tick(1, 300)
    cluster.settle()
    assert cluster.cores[3].node.membership.current == Configuration((3,))
    assert cluster.role(1) is Role.FOLLOWER
    cluster.tick(3, 300)
    assert cluster.role(3) is Role.LEADER


# Appends.


def test_an_append_needs_the_entry_before_it() -> None:
    """§5.3, the consistency check; the hint names the last place that might agree."""
    cluster = started(1, 1, 2, 2, 2, term=5)
    cluster.step(1, append(5, (9, 4), entry(10, 5)))
    cluster.step(1, append(5, (4, 1), entry(5, 5)))
    far, other = replies(cluster)
    assert (far.accepted, far.index, far.hint_index, far.hint_term) == (False, 9, 5, 2)
    assert (other.accepted, other.index, other.hint_index, other.hint_term) == (False, 4, 2, 1)
    assert cluster.log(1) == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)]


def test_a_contradiction_cuts_the_log() -> None:
    """§5.3: conflicting entries are deleted with all that follow them, on the disk too."""
    cluster = started(1, 1, 2, 2)
    cluster.step(1, append(3, (2, 1), entry(3, 3)))
    assert cluster.log(1) == [(1, 1), (2, 1), (3, 3)]
    cluster.restart(1)
    assert cluster.log(1) == [(1, 1), (2, 1), (3, 3)]


def test_a_late_append_cuts_nothing() -> None:
    """§5.3 and figure 2, step 3: only an existing entry that conflicts; appends may be reordered."""
    cluster = started(1)
    cluster.step(1, append(1, (1, 1), entry(2, 1), entry(3, 1)))
    cluster.step(1, append(1, (1, 1), entry(2, 1)))
    cluster.step(1, append(1, (0, 0)))
    assert cluster.log(1) == [(1, 1), (2, 1), (3, 1)]
    assert [reply.index for reply in replies(cluster)] == [3, 2, 0]


def test_the_commit_index_never_passes_what_was_checked() -> None:
    """Figure 2, step 5: min(leaderCommit, index of last new entry): beyond it the logs may differ."""
    cluster = started(1, 1, 1)
    cluster.step(1, append(2, (1, 1), commit=3))
    assert cluster.cores[1].commit_index == 1
    assert [each.index for each in cluster.applied[1] if isinstance(each, Entry)] == [1]


def test_committed_entries_need_no_check_and_are_answered_as_agreed() -> None:
    cluster = started(1, 1, 1)
    cluster.step(1, append(2, (3, 1), commit=3))
    cluster.step(1, append(2, (1, 1), entry(2, 1), entry(3, 1), entry(4, 2)))
    assert [reply.index for reply in replies(cluster)] == [3, 4]


def test_a_stale_leader_is_told_the_term() -> None:
    """§5.1"""
    cluster = started(term=7)
    cluster.step(1, append(3, (0, 0), entry(1, 3)))
    (reply,) = replies(cluster)
    assert (reply.term, reply.accepted) == (7, False)
    assert cluster.log(1) == []


def test_answers_that_wait_for_the_disk_together_are_one() -> None:
    """A follower whose disk hangs must not gather an answer for each heartbeat."""
    cluster = started(1)
    cluster.slow_disks.add(1)
    for index in range(2, 40):
        cluster.step(1, append(1, (index - 1, 1), entry(index, 1)))
    assert len(cluster.cores[1].node.persistence.later) == 1
    for _ in range(3):
        cluster.sync(1)
    assert [reply.index for reply in replies(cluster)] == [2, 3, 39]


# Commitment.


def test_entries_of_earlier_terms_are_not_committed_by_counting() -> None:
    """§5.4.2, figure 8: (c) entry 2 of term 2 is on a majority and not committed; (d) it is overwritten."""
    settings = msgspec.structs.replace(SETTINGS, append_entries_max=1)
    cluster = Cluster(settings=settings)
    snapshot = Snapshot(configuration=Configuration((1, 2, 3, 4, 5)))
    for server, terms in {1: (1, 2), 2: (1, 2), 3: (1,), 4: (1,), 5: (1, 3)}.items():
        entries = tuple(entry(index, term) for index, term in enumerate(terms, 1))
        cluster.add(server, DurableState(HardState(3), snapshot, entries))
    for server in (2, 3, 4):
        cluster.tick(server, 100)
    cluster.tick(1, 200)
    for _ in range(4):
        cluster.deliver(sender=1)
        cluster.take(sender=5)
        cluster.deliver(to=1)
    assert cluster.log(3)[:2] == [(1, 1), (2, 2)]
    leader = cluster.cores[1]
    assert (cluster.role(1), leader.term) == (Role.LEADER, 4)
    assert leader.leadership is not None
    held = [leader.leadership.progress[server].match_index for server in (2, 3)]
    assert min(held) >= 2, "entry 2 is on servers 1, 2 and 3: a majority"
    assert leader.commit_index in (0, 3), "but only entry 3, of term 4, can be counted"
    cluster.settle()
    assert leader.commit_index == 3


def test_a_leader_counts_itself_when_its_own_disk_is_done() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)
    cluster.slow_disks.add(1)
    cluster.step(1, Propose(1, (b"a",)))
    cluster.take(to=3)
    cluster.settle()
    assert cluster.cores[1].commit_index == 1
    cluster.sync(1)
    assert cluster.cores[1].commit_index == 2


def test_appends_leave_before_the_persist_and_promises_after() -> None:
    """Thesis §10.2.1: the leader's disk writes overlap with replication."""
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)
    kinds = [type(effect) for effect in cluster.step(1, Propose(1, (b"a",)))]
    assert kinds == [Send, Send, Proposed, Persist]
    message = cluster.take(1, 2)[0][2]
    assert [type(effect) for effect in cluster.step(2, Receive(message))] == [Apply, Persist, Send]


def test_no_entry_is_applied_twice_or_before_it_is_durable() -> None:
    cluster = started(1)
    cluster.slow_disks.add(1)
    cluster.step(1, append(1, (1, 1), entry(2, 1), commit=2))
    assert [each.index for each in cluster.applied[1] if isinstance(each, Entry)] == [1]
    cluster.sync(1)
    cluster.step(1, append(1, (2, 1), commit=2))
    assert [each.index for each in cluster.applied[1] if isinstance(each, Entry)] == [1, 2]


def test_applies_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.raft.node.RAFT_APPLY_ENTRIES_MAX", 2)
    cluster = started(1, 1, 1, 1, 1)
    effects = cluster.step(1, append(2, (5, 1), commit=5))
    assert [len(effect.entries) for effect in effects if isinstance(effect, Apply)] == [2, 2, 1]


# Requests.


def test_only_the_leader_takes_requests() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.elect(1)
    assert cluster.step(2, Propose(7, (b"a",))) == [RefusedRequest(7, "not leader", 1)]
    assert cluster.step(2, ReadIndex(8)) == [RefusedRequest(8, "not leader", 1)]


def test_proposals_are_bounded() -> None:
    settings = msgspec.structs.replace(SETTINGS, uncommitted_entries_max=3, uncommitted_bytes_max=1000)
    cluster = Cluster(1, 2, settings=settings)
    cluster.elect(1)
    big = b"x" * (limits.RAFT_ENTRY_BYTES_MAX + 1)
    assert cluster.step(1, Propose(1, (big,))) == [RefusedRequest(1, "too large", 1)]
    assert cluster.step(1, Propose(2, ())) == [RefusedRequest(2, "too large", 1)]
    many = (b"",) * (limits.RAFT_PROPOSAL_ENTRIES_MAX + 1)
    assert cluster.step(1, Propose(3, many)) == [RefusedRequest(3, "too large", 1)]
    cluster.step(1, Propose(4, (b"", b"", b"")))
    assert cluster.step(1, Propose(5, (b"",))) == [RefusedRequest(5, "overloaded", 1)]
    cluster.settle()
    cluster.step(1, Propose(6, (b"y" * 1000,)))
    assert cluster.step(1, Propose(7, (b"",))) == [RefusedRequest(7, "overloaded", 1)]
    cluster.settle()
    cluster.step(1, Propose(9, (b"y" * (1000 - ENTRY_OVERHEAD_BYTES),)))
    assert cluster.step(1, Propose(10, (b"",))) == [RefusedRequest(10, "overloaded", 1)], "the bound itself is too much"
    cluster.settle()
    assert isinstance(cluster.step(1, Propose(8, (b"",)))[-2], Proposed)


def test_a_leader_counts_the_bytes_that_it_has_committed() -> None:
    """By which it goes that feeds somebody no faster than others write."""
    cluster = Cluster(1, 2)
    cluster.elect(1)
    cluster.settle()
    leadership = cluster.cores[1].leadership
    assert leadership is not None
    before = leadership.committed_bytes
    for number in range(1, 4):
        cluster.step(1, Propose(number, (b"y" * 100, b"")))
        assert leadership.committed_bytes == before + (number - 1) * (100 + 2 * ENTRY_OVERHEAD_BYTES)
        cluster.settle()
    assert leadership.committed_bytes == before + 3 * (100 + 2 * ENTRY_OVERHEAD_BYTES)


def test_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ithaca.raft.reads.RAFT_READS_MAX", 1)
    cluster = Cluster(1, 2)
    cluster.elect(1)
    cluster.step(1, ReadIndex(1))
    assert cluster.step(1, ReadIndex(2)) == [RefusedRequest(2, "overloaded", 1)]


def test_a_membership_change_waits_for_a_commit_of_the_term() -> None:
    """Thesis §4.1 with the correction of 2015: else two leaders' changes need not overlap."""
    cluster = Cluster(1, 2)
    cluster.tick(1, 200)
    while cluster.role(1) is not Role.LEADER:
        cluster.deliver()
    refused = cluster.step(1, ChangeMembership(1, "remove", 2))
    assert refused == [RefusedRequest(1, "no entry of this term committed", 1)]
    cluster.settle()
    assert Proposed(2, 1, 2) in cluster.step(1, ChangeMembership(2, "remove", 2))


def test_a_truncated_configuration_is_taken_back() -> None:
    """Thesis §4.1: the latest in the log counts, committed or not, so truncation falls back."""
    cluster = started(1)
    cluster.step(1, append(1, (1, 1), configuration_entry(2, 1, Configuration((1, 2)))))
    assert cluster.cores[1].node.membership.current == Configuration((1, 2))
    cluster.step(1, append(2, (1, 1), entry(2, 2)))
    assert cluster.cores[1].node.membership.current == Configuration((1, 2, 3))
