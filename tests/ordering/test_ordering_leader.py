"""When a leader proposes, and what (design §5 "Self-clocking"; invariants 4, 10 and 12)."""

from uuid import UUID

import pytest
from tests.ordering.building import Driver, address, report

from ithaca.engines.scalog.ordering import retention
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    Cut,
    Finalize,
    OpenLane,
    OrderingEntry,
    RemoveReplica,
    TrimTo,
)
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.model.positions import LaneId
from ithaca.model.view import ClusterConfiguration

INTERVAL_US = 100
PACED = ClusterConfiguration(UUID(int=7), "scalog", order_interval_us=INTERVAL_US, pipeline_cuts=2)
EAGER = ClusterConfiguration(UUID(int=7), "scalog", pipeline_cuts=2)


class Group:
    """A driver and its leader; shard 1 has one replica."""

    def __init__(self, configuration: ClusterConfiguration = EAGER) -> None:
        self.driver = Driver(configuration)
        (self.lane,) = self.driver.shard(1, f=0)
        self.leader = CutProposer(self.driver.state)

    def report(self, length: int, *, runs_cut: int = 0) -> None:
        assert self.leader.receive(report(1, 0, {self.lane: length}, runs_cut=runs_cut))

    def apply(self, entry: OrderingEntry, *, own: bool = False) -> list[Outcome]:
        outcomes = self.driver.apply(entry)
        self.leader.applied(outcomes, own=own)
        return outcomes

    def proposed(self, now_us: int = 0, time_us: int = 0) -> dict[LaneId, int] | None:
        cut = self.leader.propose(now_us, time_us)
        return None if cut is None else cut.moved.to_dict()


def test_idle_means_quiet() -> None:
    """Invariant 12."""
    group = Group()
    assert group.proposed() is None
    assert group.leader.deadline_us(0, 0) is None
    group.report(0)
    assert group.proposed() is None


def test_what_moved_is_proposed_once() -> None:
    """Invariant 12: beyond the last *proposed* cut, not the last applied."""
    group = Group()
    group.report(3)
    assert group.proposed() == {group.lane: 3}
    group.report(3)
    assert group.proposed() is None
    group.report(5)
    assert group.proposed() == {group.lane: 5}


def test_the_pipeline_is_bounded() -> None:
    """Invariant 12."""
    group = Group()
    cuts: list[Cut | None] = []
    for length in (1, 2, 3):
        group.report(length)
        cuts.append(group.leader.propose(length, length))
    first, second, third = cuts
    assert first is not None
    assert second is not None
    assert third is None
    assert group.leader.deadline_us(3, 3) is None
    group.apply(first, own=True)
    assert group.leader.deadline_us(3, 3) == 3
    assert group.proposed(3) == {group.lane: 3}


def test_cuts_of_an_earlier_leader_do_not_count_against_the_pipeline() -> None:
    group = Group()
    late = group.driver.cut_entry({group.lane: 1})
    for length in (2, 3):
        group.report(length)
        assert group.proposed() == {group.lane: length}
    group.apply(late, own=False)
    group.report(4)
    assert group.proposed() is None


def test_the_interval_bounds_the_rate() -> None:
    """Invariant 12: the first cut goes at once, the next when the interval has passed."""
    group = Group(PACED)
    group.report(1)
    assert group.proposed(1000) == {group.lane: 1}
    group.report(2)
    assert group.proposed(1000 + INTERVAL_US - 1) is None
    assert group.leader.deadline_us(1050, 0) == 1000 + INTERVAL_US
    assert group.proposed(1000 + INTERVAL_US) == {group.lane: 2}


def test_a_new_leader_starts_from_what_is_committed() -> None:
    """Invariant 5: it proposes again what was in flight, and nothing that is ordered."""
    group = Group()
    group.report(3)
    cut = group.leader.propose(0, 0)
    assert cut is not None
    group.leader = CutProposer(group.driver.state)
    assert group.proposed() is None
    group.report(3)
    assert group.proposed() == {group.lane: 3}
    group.apply(cut, own=False)
    group.leader = CutProposer(group.driver.state)
    group.report(3)
    assert group.proposed() is None


def test_a_cut_carries_the_time_and_the_view_of_its_leader() -> None:
    group = Group()
    group.report(1)
    cut = group.leader.propose(5, 77)
    assert cut is not None
    assert (cut.time_us, cut.view) == (77, group.driver.state.view.version)


def test_a_refused_cut_is_proposed_again() -> None:
    group = Group()
    group.report(1)
    assert group.proposed() == {group.lane: 1}
    group.leader.refused()
    assert group.proposed() == {group.lane: 1}


def test_what_was_durable_in_an_earlier_configuration_is_not_proposed() -> None:
    """Invariant 4: reports of the new epoch decide, also about what was waiting to be proposed."""
    group = Group()
    lanes = group.driver.shard(2, masking=True)
    b = lanes[1]
    for replica in (0, 1):
        assert group.leader.receive(report(2, replica, {b: 5}))
    group.apply(RemoveReplica(2, 1, 0))
    assert group.proposed() is None
    for replica in (1, 2):
        assert group.leader.receive(report(2, replica, {b: 5 - replica}, epoch=2))
    assert group.proposed() == {b: 3}


def test_a_cut_that_a_new_configuration_passed_over_is_proposed_again() -> None:
    """Invariants 4, 12: in flight when the replica was removed, so it ordered nothing of the shard."""
    group = Group()
    _, b, _ = group.driver.shard(2, masking=True)
    for replica in (1, 2):
        group.leader.receive(report(2, replica, {b: 5}))
    cut = group.leader.propose(0, 0)
    assert cut is not None
    group.apply(RemoveReplica(2, 1, 0))
    group.apply(cut, own=True)
    assert group.driver.state.tail == 1
    for replica in (1, 2):
        group.leader.receive(report(2, replica, {b: 5}, epoch=2))
    assert group.proposed() == {b: 5}


def test_closed_lanes_and_short_shards_are_not_proposed() -> None:
    """Invariant 6."""
    group = Group()
    a, b = group.driver.shard(2)
    for replica in (0, 1):
        group.leader.receive(report(2, replica, {a: 5, b: 5}))
    group.apply(CloseLane(a))
    assert group.proposed() == {b: 5}
    group.apply(RemoveReplica(2, 1, 0))
    assert not group.leader.has_caught_up(2, 2)
    group.leader.receive(report(2, 2, {a: 0, b: 0}, epoch=2))
    group.leader.receive(report(2, 1, {b: 6}, epoch=2))
    assert group.leader.has_caught_up(2, 2)
    assert group.proposed() is None
    group.apply(AddReplica(2, 2, 2, address(2)))
    for replica in (1, 2):
        group.leader.receive(report(2, replica, {b: 6}, epoch=3))
    assert group.proposed() == {b: 6}


def test_a_report_that_was_early_counts_when_its_lane_is_opened() -> None:
    group = Group()
    new = group.lane._replace(incarnation=2)
    assert group.leader.receive(report(1, 0, {new: 2}, boot=2))
    assert group.proposed() is None
    group.apply(OpenLane(1, 0, 2))
    assert group.proposed() == {new: 2}


def test_empty_cuts_finish_a_grace() -> None:
    """§4.4.1: a finalizing shard waits for cuts, or for a time, though nothing moves."""
    group = Group(PACED)
    group.apply(Finalize(1, cuts=2))
    for now in (0, INTERVAL_US):
        assert group.leader.deadline_us(now, 0) == now
        cut = group.leader.propose(now, 0)
        assert cut is not None
        group.apply(cut, own=True)
    assert group.driver.state.shards.by_number[1].phase == "finalized"
    assert group.leader.deadline_us(5 * INTERVAL_US, 0) is None


def test_a_grace_of_time_needs_one_cut_when_it_is_over() -> None:
    group = Group()
    group.apply(Finalize(1, until_us=500))
    assert group.proposed(10, 400) is None
    assert group.leader.deadline_us(10, 400) == 110
    cut = group.leader.propose(110, 500)
    assert cut is not None
    group.apply(cut, own=True)
    assert group.driver.state.shards.by_number[1].phase == "finalized"


def test_cuts_are_forgotten_when_their_runs_are_synced() -> None:
    """Invariant 10: with the next cut, as an ordered fact."""
    group = Group()
    for length in (1, 2, 3):
        group.report(length)
        cut = group.leader.propose(length, length)
        assert cut is not None
        assert cut.forget == ()
        group.apply(cut, own=True)
    group.report(4, runs_cut=2)
    cut = group.leader.propose(4, 4)
    assert cut is not None
    assert cut.forget == (1, 2)
    assert list(group.driver.state.kept) == [1, 2, 3]
    group.apply(cut, own=True)
    assert list(group.driver.state.kept) == [3, 4]


def test_a_shard_that_does_not_sync_its_runs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 10 with a bound: others go on, and it comes back when it has caught up."""
    monkeypatch.setattr(retention, "ORDERING_CUTS_UNSYNCED_MAX", 3)
    group = Group()
    (slow,) = group.driver.shard(2, f=0)
    for length in range(1, 12):
        group.report(length, runs_cut=group.driver.state.cut_number)
        group.leader.receive(report(2, 0, {slow: length}))
        cut = group.leader.propose(length, 0)
        assert cut is not None
        group.apply(cut, own=True)
    assert group.driver.state.lanes.ordered_length(group.lane) == 11
    assert group.driver.state.lanes.ordered_length(slow) == 4
    assert len(group.driver.state.kept) <= 6
    assert group.leader.deadline_us(20, 0) is None, "what is left out makes no cut due"
    group.leader.receive(report(2, 0, {slow: 11}, runs_cut=11))
    assert group.proposed(20) == {slow: 11}


def test_reclaiming_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 10: nobody waits for runs of what is gone."""
    monkeypatch.setattr(retention, "ORDERING_CUTS_UNSYNCED_MAX", 1)
    group = Group()
    (gone,) = group.driver.shard(0, f=0)
    group.apply(group.driver.cut_entry({gone: 1}))
    group.apply(group.driver.cut_entry({gone: 2, group.lane: 1}))
    group.apply(group.driver.cut_entry({group.lane: 2}))
    group.report(3)
    assert group.proposed() is None, "its shard holds back an old cut"
    group.apply(Finalize(0))
    group.apply(TrimTo(3))
    assert list(group.driver.state.kept) == [1, 2, 3]
    assert group.driver.state.shards.by_number.keys() == {1}
    group.report(3, runs_cut=2)
    cut = group.leader.propose(0, 0)
    assert cut is not None
    assert cut.moved.to_dict() == {group.lane: 3}
    assert cut.forget == (1, 2)


def test_a_new_leader_does_not_wait_for_a_shard_that_is_gone() -> None:
    """Invariant 10."""
    group = Group()
    (gone,) = group.driver.shard(0, f=0)
    group.apply(group.driver.cut_entry({gone: 1}))
    group.apply(Finalize(0))
    group.apply(TrimTo(2))
    successor = CutProposer(group.driver.state)
    group.leader = successor
    group.report(1)
    cut = successor.propose(0, 0)
    assert cut is not None
    assert cut.forget == (1,)
