"""What reports add up to, in whatever order and number they come (Scalog §4.1; invariants 4 and 5)."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ordering.building import Driver, placed, report

from ithaca.engines.scalog.ordering.entries import CloseLane, Finalize, OpenLane, RemoveReplica, TrimTo
from ithaca.engines.scalog.ordering.leader import CutProposer
from ithaca.engines.scalog.ordering.reports import Report, Reports
from ithaca.model.cut import lane_key
from ithaca.model.errors import InvalidInput
from ithaca.model.limits import SHARD_REPLICAS_MAX
from ithaca.model.positions import LaneId


def durable(reports: Reports, shard: int = 1) -> list[int]:
    return [length for _, length in reports.durable(shard)]


def test_the_minimum_of_the_papers_example() -> None:
    """§4.1: of v1 = <3, 3> and v2 = <2, 4>, <2, 3> is durable."""
    driver = Driver()
    a, b = driver.shard(1)
    reports = Reports(driver.state)
    assert reports.receive(report(1, 0, {a: 3, b: 3}))
    assert durable(reports) == [0, 0]
    assert reports.receive(report(1, 1, {a: 2, b: 4}))
    assert durable(reports) == [2, 3]


def test_masking_takes_what_f_plus_one_have() -> None:
    """Invariant 4 (§4.4.2): with 2f+1 replicas, the (f+1)-th largest."""
    driver = Driver()
    lanes = driver.shard(1, f=2, masking=True)
    reports = Reports(driver.state)
    for replica, length in enumerate([9, 1, 7, 5]):
        reports.receive(report(1, replica, dict.fromkeys(lanes, length)))
    assert durable(reports) == [5] * 5
    reports.receive(report(1, 4, dict.fromkeys(lanes, 8)))
    assert durable(reports) == [7] * 5


def test_what_a_replica_reported_before_it_was_started_again_counts_no_more() -> None:
    """It may have lost a lane: only what it has found on its disk counts."""
    driver = Driver()
    a, b = driver.shard(1)
    reports = Reports(driver.state)
    for replica in (0, 1):
        reports.receive(report(1, replica, {a: 5, b: 5}, runs_cut=7))
    assert (durable(reports), reports.runs_cut(1)) == ([5, 5], 7)
    driver.apply(OpenLane(1, 1, 4))
    assert (durable(reports), reports.runs_cut(1)) == ([0, 0], 0)
    reports.receive(report(1, 1, {a: 2}, boot=4, runs_cut=3))
    assert (durable(reports), reports.runs_cut(1)) == ([2, 0], 3)


def test_a_report_of_another_epoch_boot_or_place_is_dropped() -> None:
    """Invariants 4, 5."""
    driver = Driver()
    a, _ = driver.shard(1)
    driver.apply(OpenLane(1, 1, 4))
    reports = Reports(driver.state)
    assert reports.receive(report(1, 0, {a: 5}, boot=2))
    dropped = {
        "unknown shard": report(9, 0, {}),
        "newer epoch": report(1, 0, {a: 9}, boot=2, epoch=2),
        "earlier boot than one that reported": report(1, 0, {a: 9}, boot=1),
        "earlier boot than one that opened a lane": report(1, 1, {a: 9}, boot=3),
    }
    assert [what for what, each in dropped.items() if reports.receive(each)] == []
    assert reports.receive(report(1, 1, {a: 9}, boot=4))
    assert durable(reports) == [5, 0]


def test_maxima_are_kept_per_boot() -> None:
    """Invariant 5: a later boot speaks for itself, even when it has less."""
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    reports = Reports(driver.state)
    for length, boot, expected in [(5, 1, 5), (3, 1, 5), (4, 2, 4), (9, 1, 4), (6, 2, 6)]:
        reports.receive(report(1, 0, {lane: length}, boot=boot))
        assert durable(reports) == [expected]


def test_a_new_configuration_starts_without_reports() -> None:
    """Invariant 4: what an earlier configuration had synced may not be durable in this one."""
    driver = Driver()
    _, b, _ = driver.shard(1, masking=True)
    reports = Reports(driver.state)
    for replica in range(3):
        reports.receive(report(1, replica, {b: 5}))
    driver.apply(RemoveReplica(1, 1, 0))
    assert durable(reports) == [0, 0]
    assert not reports.receive(report(1, 1, {b: 5}))
    for replica in (1, 2):
        assert reports.receive(report(1, replica, {b: 4 + replica}, epoch=2))
    assert durable(reports) == [5, 0]
    assert not reports.receive(report(1, 0, {b: 9}, epoch=2)), "it was removed"


def test_a_learner_has_caught_up_when_it_holds_every_ordered_length() -> None:
    """Invariant 4 (§4.4.2): closed lanes count too; a learner's report orders nothing."""
    driver = Driver()
    a, b = driver.shard(1)
    driver.cut({a: 3, b: 2})
    driver.apply(CloseLane(a))
    driver.apply(RemoveReplica(1, 1, 0))
    reports = Reports(driver.state)
    held = {a: 3, b: 1}
    assert not reports.has_caught_up(1, 2)
    assert reports.receive(report(1, 2, held, epoch=2))
    assert not reports.has_caught_up(1, 2)
    reports.receive(report(1, 1, {b: 9}, epoch=2))
    reports.receive(report(1, 2, {b: 2}, epoch=2))
    assert not reports.has_caught_up(1, 2), "it does not know the positions yet"
    reports.receive(report(1, 2, {}, epoch=2, runs_cut=1))
    assert reports.has_caught_up(1, 2)
    assert durable(reports) == [0]
    assert not reports.has_caught_up(7, 2)


def test_a_learner_has_caught_up_when_it_has_the_runs_of_the_last_cut_of_its_shard() -> None:
    """Invariant 10: cuts of other shards are not waited for, those of its own are."""
    driver = Driver()
    (a,) = driver.shard(1, f=0)
    (b,) = driver.shard(2, f=0)
    reports = Reports(driver.state)
    reports.ordered(driver.cut({a: 3}))
    reports.ordered(driver.cut({b: 1}))
    reports.receive(report(1, 2, {a: 3}))
    assert not reports.has_caught_up(1, 2)
    reports.receive(report(1, 2, {}, runs_cut=1))
    assert reports.has_caught_up(1, 2)
    reports.ordered(driver.cut({a: 4}))
    reports.receive(report(1, 2, {a: 4}, runs_cut=2))
    assert not reports.has_caught_up(1, 2)
    reports.receive(report(1, 2, {}, runs_cut=3))
    assert reports.has_caught_up(1, 2)
    assert not Reports(driver.state).has_caught_up(1, 2), "another leader knows nothing"


def test_learners_are_bounded() -> None:
    driver = Driver()
    driver.shard(1)
    reports = Reports(driver.state)
    accepted = [reports.receive(report(1, replica, {})) for replica in range(2, 100)]
    assert sum(accepted) == 2 * SHARD_REPLICAS_MAX


def test_a_reclaimed_shard_is_forgotten() -> None:
    driver = Driver()
    (lane,) = driver.shard(1, f=0)
    reports = Reports(driver.state)
    reports.receive(report(1, 0, {lane: 1}))
    driver.apply(Finalize(1))
    driver.apply(TrimTo(1))
    assert durable(reports) == []
    assert reports.runs_cut(1) == 0
    assert reports.shards() == []


def test_the_runs_that_f_plus_one_have_synced() -> None:
    """Invariant 10."""
    driver = Driver()
    driver.shard(1)
    reports = Reports(driver.state)
    seen = []
    for replica, cut in [(0, 5), (1, 3), (1, 2), (0, 9), (1, 9)]:
        reports.receive(report(1, replica, {}, runs_cut=cut))
        seen.append(reports.runs_cut(1))
    assert seen == [0, 3, 3, 3, 9]


def test_reports_travel_and_are_checked() -> None:
    sent = report(1, 0, {LaneId(1, 0, 1): 5}, runs_cut=3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Report) == sent
    with pytest.raises(InvalidInput, match="of another"):
        report(1, 0, {LaneId(2, 0, 1): 5})


class Naive:
    """Keeps every report, and works out what they add up to each time that it is asked."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.accepted: list[Report] = []

    def restarted(self, replica: int, boot: int) -> None:
        """What it said before counts no more."""
        its = [each for each in self.accepted if each.replica == replica]
        if max([each.boot for each in its], default=boot) < boot:
            self.accepted = [each for each in self.accepted if each.replica != replica]

    def counting(self) -> list[list[Report]]:
        """Of each member that counts the reports of its newest boot."""
        shard = self.driver.state.shards.by_number[1]
        newest: list[list[Report]] = []
        for member in shard.replicas:
            its = [each for each in self.accepted if (each.epoch, each.replica) == (shard.epoch, member.replica)]
            boot = max([each.boot for each in its], default=0)
            if its and boot >= member.boot:
                newest.append([each for each in its if each.boot == boot])
        return newest

    def synced(self) -> tuple[list[tuple[int, int]], int]:
        shard, counting = self.driver.state.shards.by_number[1], self.counting()

        def ranked(values: list[int]) -> int:
            return sorted(values, reverse=True)[shard.f] if len(values) > shard.f else 0

        lengths = {
            lane: ranked([max(dict(each.lengths).get(lane, 0) for each in its) for its in counting])
            for lane in shard.open_lanes()
        }
        runs_cut = ranked([max(each.runs_cut for each in its) for its in counting])
        return [(lane_key(lane), length) for lane, length in lengths.items()], runs_cut


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["report"] * 9 + ["restart", "open", "remove"]),
        st.integers(0, 4),
        st.sampled_from([1, 1, 1, 2, 3]),
        st.integers(0, 9),
        st.lists(st.integers(0, 20), min_size=5, max_size=5),
    ),
    min_size=6,
    max_size=25,
)


@given(st.sampled_from([(0, False), (1, False), (2, False), (1, True), (2, True)]), STEPS)
def test_what_is_durable_is_what_all_reports_say(kind: tuple[int, bool], steps: list[Any]) -> None:
    """Of one, two and more copies, with masking and without, as replicas start again and are removed."""
    driver = Driver()
    lanes = driver.shard(1, f=kind[0], masking=kind[1])
    reports, naive = Reports(driver.state), Naive(driver)
    for what, chosen, boot, cut, lengths in steps:
        replica = lanes[chosen % len(lanes)].replica
        if what == "restart":
            naive.restarted(replica, boot)
            reports.restarted(1, replica, boot)
        elif what == "open":
            driver.apply(OpenLane(1, replica, boot))
        elif what == "remove":
            driver.apply(RemoveReplica(1, driver.state.shards.by_number[1].epoch, replica))
        else:
            said = {lane: length for lane, length in zip(lanes, lengths, strict=False) if length}
            epoch = driver.state.shards.by_number[1].epoch
            if reports.receive(each := report(1, replica, said, boot=boot, epoch=epoch, runs_cut=cut)):
                naive.accepted.append(each)
        assert reports.synced(1) == naive.synced() == (reports.durable(1), reports.runs_cut(1))


LENGTHS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 20)), max_size=25)


@given(LENGTHS, st.randoms(use_true_random=False))
def test_repeated_reordered_and_stale_reports_change_nothing(
    growth: list[tuple[int, int, int]], rng: random.Random
) -> None:
    """Invariant 5 (§3): a leader that gets every report once and in order, and one that gets them shuffled,
    several times and between others of earlier boots and epochs, order the same records in the end."""
    driver, other = Driver(), Driver()
    a, b = driver.shard(1)
    other.shard(1)
    synced = [{a: 0, b: 0}, {a: 0, b: 0}]
    sent: list[Report] = []
    for replica, which, length in growth:
        synced[replica][(a, b)[which]] += length
        sent.append(report(1, replica, dict(synced[replica]), boot=2))
    stale = [report(1, n % 2, {a: 500, b: 500}, boot=1 + n % 2, epoch=1 + n % 2 * 8) for n in range(6)]
    first_boot = [report(1, replica, {a: 0, b: 0}, boot=2) for replica in (0, 1)]
    noisy = [*sent, *sent, *stale]
    rng.shuffle(noisy)
    ends = [run(driver, [*first_boot, *sent]), run(other, [*first_boot, *noisy])]
    assert ends[0] == ends[1] == {lane: min(each[lane] for each in synced) for lane in (a, b)}
    for each in (driver, other):
        records = [record for outcomes in each.outcomes for record in placed(outcomes)]
        assert [position for position, _, _ in records] == list(range(1, len(records) + 1))
        for lane in (a, b):
            assert [lsn for _, at, lsn in records if at == lane] == list(range(ends[0][lane]))


def run(driver: Driver, reports: list[Report]) -> dict[LaneId, int]:
    """Feed a leader, applying each cut at once; lengths never fall on the way."""
    leader = CutProposer(driver.state)
    lengths = driver.state.lanes.ordered_lengths(1)
    for now, each in enumerate(reports):
        leader.receive(each)
        proposed = leader.propose(now, now)
        if proposed is not None:
            leader.applied(driver.apply(proposed), own=True)
        before, lengths = lengths, driver.state.lanes.ordered_lengths(1)
        assert all(lengths[lane] >= before[lane] for lane in before)
    return lengths
