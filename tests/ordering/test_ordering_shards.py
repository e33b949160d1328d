"""Shards, replicas and lanes come, change and go (Scalog §4.4; design §2 "incarnation", §5 "Reconfigure")."""

import pytest
from tests.ordering.building import Driver, address, placed, shard_entry

from ithaca.engines.scalog.ordering import shards
from ithaca.engines.scalog.ordering.entries import (
    AddReplica,
    CloseLane,
    ExpireSession,
    Finalize,
    MoveSession,
    OpenLane,
    OpenSession,
    RegisterShard,
    RemoveReplica,
    TrimTo,
    goes_by_time,
)
from ithaca.engines.scalog.ordering.outcomes import (
    ExpiredSession,
    FinalizedShard,
    LaneClosed,
    LaneOpened,
    SessionMoved,
    TrimmedLog,
    ViewChanged,
)
from ithaca.engines.scalog.ordering.prepared.entries import ExpireParts
from ithaca.model import limits
from ithaca.model.positions import LaneId


def test_a_new_shard_appears_in_the_next_view_and_nobody_else_notices() -> None:
    """Invariants 3, 11 (§4.4.1)."""
    driver = Driver()
    (a,) = driver.shard(7, f=0)
    driver.cut({a: 2})
    (b,) = driver.shard(3, f=0)
    assert [shard.shard for shard in driver.state.view.shards] == [3, 7]
    assert placed([driver.cut({a: 3, b: 1})]) == [(3, b, 0), (4, a, 2)]


def test_registering_again_repeats_the_answer_and_another_shard_is_refused() -> None:
    driver = Driver()
    driver.shard(1)
    version = driver.state.view.version
    assert driver.reason(shard_entry(1)) is None
    assert driver.state.view.version == version
    assert driver.reason(shard_entry(1, masking=True)) == "another shard has this number"


def test_the_number_of_replicas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "ORDERING_REPLICAS_MAX", 3)
    driver = Driver()
    driver.shard(1)
    assert driver.reason(shard_entry(2)) == "too many replicas"
    driver.apply(Finalize(1))
    assert driver.reason(shard_entry(2)) is None


def test_each_boot_gets_one_incarnation() -> None:
    """Invariant 9: a retry gets the same lane, a late request of an earlier boot nothing."""
    driver = Driver()
    lane, _ = driver.shard(1)
    driver.cut({lane: 4})
    closed, opened, changed = driver.apply(OpenLane(1, 0, 5))
    new = lane._replace(incarnation=2)
    assert closed == LaneClosed(lane, 4)
    assert opened == LaneOpened(new, 5)
    assert isinstance(changed, ViewChanged)
    assert changed.now == driver.state.shards.by_number[1]
    assert driver.apply(OpenLane(1, 0, 5)) == [LaneOpened(new, 5)]
    assert driver.reason(OpenLane(1, 0, 4)) == "the replica has started again since"
    assert driver.reason(OpenLane(1, 9, 1)) == "no such replica"
    assert driver.reason(OpenLane(9, 0, 1)) == "no such shard"


def test_incarnations_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "PART_INCARNATION_MIN", 2)
    driver = Driver()
    driver.shard(1)
    assert driver.reason(OpenLane(1, 0, 2)) == "too many incarnations"


def test_a_closed_lane_keeps_the_length_that_was_ordered() -> None:
    """Invariant 6: the close carries no length, and later cuts pass over the lane."""
    driver = Driver()
    a, b = driver.shard(1)
    driver.cut({a: 2, b: 1})
    assert driver.apply(CloseLane(a))[0] == LaneClosed(a, 2)
    assert placed([driver.cut({a: 9, b: 2})]) == [(4, b, 1)]
    assert driver.apply(CloseLane(a)) == [LaneClosed(a, 2)]
    assert driver.reason(CloseLane(LaneId(1, 0, 2))) == "no such lane"
    assert driver.reason(OpenLane(1, 0, 1)) == "the lane is closed"
    assert driver.state.view.live_lanes() == [b]


def test_finalizing_at_once_closes_every_lane() -> None:
    """Invariant 6 (§4.4.1, emergency): the shard has the length of the latest cut before."""
    driver = Driver()
    a, b = driver.shard(1)
    driver.cut({a: 2})
    *closed, finalized, changed, trimmed = driver.apply(Finalize(1))
    assert closed == [LaneClosed(a, 2), LaneClosed(b, 0)]
    assert trimmed == TrimmedLog(1, (b,)), "nothing of it was ordered"
    assert finalized == FinalizedShard(1, 1)
    assert isinstance(changed, ViewChanged)
    assert changed.now is not None
    assert changed.now.phase == "finalized"
    assert placed([driver.cut({a: 5, b: 5})]) == []
    assert driver.apply(Finalize(1, cuts=3)) == [FinalizedShard(1, 1)]
    assert driver.reason(OpenLane(1, 0, 2)) == "the shard is finalized"
    assert driver.reason(Finalize(2)) == "no such shard"


@pytest.mark.parametrize(
    ("cuts", "until_us", "times", "last"),
    [
        (2, 0, [1, 2, 3], 2),  # the second cut from here is the last that counts
        (0, 50, [10, 49, 50, 90], 3),  # the first cut at that time
        (3, 50, [60, 60, 60, 60], 3),  # both must hold
        (1, 50, [10, 60, 70], 2),
    ],
)
def test_finalizing_with_a_grace(cuts: int, until_us: int, times: list[int], last: int) -> None:
    """Invariant 6 (§4.4.1, scheduled): after a number of cuts, or at a time, with that cut still counting."""
    driver = Driver()
    lane, _ = driver.shard(1)
    other, _ = driver.shard(2)
    driver.apply(Finalize(1, cuts, until_us))
    assert driver.state.shards.by_number[1].phase == "finalizing"
    assert driver.state.view.live_lanes() == driver.state.shards.by_number[2].open_lanes()
    assert driver.reason(Finalize(1, cuts + 1)) == "the shard is finalizing"
    for number, time_us in enumerate(times, 1):
        driver.cut({lane: number, other: number}, time_us=time_us)
    assert driver.state.lanes.ordered_length(lane) == last
    assert driver.state.lanes.ordered_length(other) == len(times)
    assert driver.state.shards.by_number[1].final_cut == last


def test_a_grace_counts_from_a_time_that_is_ordered_alone() -> None:
    """Whatever earlier time the next leader says, the order's time is near the end of the grace already."""
    driver = Driver()
    driver.shard(1)
    finalize = Finalize(1, until_us=1_050)
    assert goes_by_time(finalize)
    assert not goes_by_time(Finalize(1, cuts=9))
    assert driver.apply(ExpireParts((), 1_000)) == []
    driver.apply(finalize)
    driver.cut({}, time_us=7)
    assert driver.state.time_us == 1_000
    assert driver.state.shards.by_number[1].phase == "finalizing"


def test_an_emergency_cuts_a_grace_short() -> None:
    driver = Driver()
    lane, _ = driver.shard(1)
    driver.apply(Finalize(1, cuts=100))
    assert FinalizedShard(1, 0) in driver.apply(Finalize(1))
    assert driver.state.shards.graces == {}
    assert placed([driver.cut({lane: 1})]) == []


def test_replacing_a_replica_stops_the_shard_until_it_is_complete() -> None:
    """Invariants 4, 6 (§4.4.2, remove & replace): two entries, and nothing is ordered between them."""
    driver = Driver()
    a, b = driver.shard(1)
    driver.cut({a: 1, b: 1})
    closed, changed = driver.apply(RemoveReplica(1, 1, 0))
    assert closed == LaneClosed(a, 1)
    assert isinstance(changed, ViewChanged)
    assert changed.now is not None
    assert changed.now.epoch == 2
    assert placed([driver.cut({a: 5, b: 5})]) == []
    assert driver.reason(AddReplica(1, 1, 2, address(2))) == "the configuration has changed"
    assert driver.reason(AddReplica(1, 2, 0, address(0))) == "replica number was used"
    view_before = driver.state.view.version
    assert driver.reason(AddReplica(1, 2, 2, address(2))) is None
    assert placed([driver.cut({b: 5}, view=view_before)]) == []
    assert placed([driver.cut({b: 3})]) == [(3, b, 1), (4, b, 2)]
    assert driver.reason(AddReplica(1, 2, 2, address(2))) is None, "a retry repeats the answer"
    assert driver.reason(AddReplica(1, 3, 3, address(3))) == "the shard is complete"


def test_a_masking_shard_goes_on_without_one_replica() -> None:
    """Invariant 4 (§4.4.2, mask): only cuts proposed under the new configuration count."""
    driver = Driver()
    _, b, _ = driver.shard(1, masking=True)
    before = driver.state.view.version
    driver.apply(RemoveReplica(1, 1, 0))
    assert placed([driver.cut({b: 2}, view=before)]) == []
    assert placed([driver.cut({b: 1})]) == [(1, b, 0)]


@pytest.mark.parametrize(
    ("f", "masking", "removable"), [(0, False, 0), (1, False, 1), (2, False, 2), (1, True, 1), (2, True, 2)]
)
def test_a_copy_of_everything_remains(f: int, masking: bool, removable: int) -> None:
    """Invariant 4: records are on f+1 replicas, so at most f may be missing at a time."""
    driver = Driver()
    driver.shard(1, f=f, masking=masking)
    reasons = [driver.reason(RemoveReplica(1, replica + 1, replica)) for replica in range(removable + 1)]
    assert reasons == [None] * removable + ["too few replicas would remain"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (RemoveReplica(9, 1, 0), "no such shard"),
        (RemoveReplica(1, 1, 9), "no such replica"),
        (RemoveReplica(1, 2, 0), "the configuration has changed"),
        (AddReplica(9, 1, 5, address(5)), "no such shard"),
        (AddReplica(1, 1, 1, address(9)), "replica number was used"),
    ],
)
def test_changes_that_do_not_fit_are_refused(entry: RemoveReplica | AddReplica, reason: str) -> None:
    driver = Driver()
    driver.shard(1)
    assert driver.reason(entry) == reason


def test_a_finalized_shard_can_gain_replicas() -> None:
    """§2.1: extra replicas for reading, up to a bound."""
    driver = Driver()
    driver.shard(1)
    driver.apply(Finalize(1))
    reasons = [driver.reason(AddReplica(1, n - 1, n, address(n))) for n in range(2, limits.SHARD_REPLICAS_MAX + 1)]
    assert reasons == [None] * (limits.SHARD_REPLICAS_MAX - 2) + ["the shard is complete"]


def test_a_lane_opened_while_the_shard_is_short_orders_nothing() -> None:
    """Invariants 4, 6."""
    driver = Driver()
    driver.shard(1)
    driver.apply(RemoveReplica(1, 1, 0))
    driver.apply(OpenLane(1, 1, 2))
    new = LaneId(1, 1, 2)
    assert placed([driver.cut({new: 1})]) == []
    driver.apply(AddReplica(1, 2, 2, address(2)))
    assert placed([driver.cut({new: 1})]) == [(1, new, 0)]


def test_the_last_live_shard_is_finalized_only_if_that_is_wanted() -> None:
    driver = Driver()
    driver.shard(1)
    assert driver.reason(Finalize(1, may_be_last=False)) == "no other shard is live"
    driver.shard(2)
    assert driver.reason(Finalize(1, cuts=9, may_be_last=False)) is None
    assert driver.reason(Finalize(2, may_be_last=False)) == "no other shard is live", "the other one is leaving"
    assert driver.reason(Finalize(1, may_be_last=False)) is None
    assert driver.apply(Finalize(1, may_be_last=False)) == [FinalizedShard(1, 0)]
    assert driver.reason(Finalize(2)) is None


def test_an_address_has_one_replica() -> None:
    driver = Driver()
    driver.shard(1)
    taken = driver.state.shards.by_number[1].replicas[1].address
    other = RegisterShard(2, 1, False, ((0, address(7)), (1, taken)))
    assert driver.reason(other) == "another replica has this address"
    driver.apply(Finalize(1))
    assert driver.reason(other) == "another replica has this address", "it is still read from"
    driver.apply(TrimTo(1))
    assert driver.state.shards.was_reclaimed(1)
    assert driver.reason(other) is None


def test_a_reclaimed_shard_takes_no_room_in_the_view() -> None:
    driver = Driver()
    driver.shard(1)
    before = driver.state.shards.view_bytes
    driver.shard(2)
    assert driver.state.shards.view_bytes > before
    driver.apply(Finalize(2))
    driver.apply(TrimTo(1))
    assert driver.state.shards.was_reclaimed(2)
    assert driver.state.shards.view_bytes == before


def test_an_added_replica_has_an_address_of_its_own() -> None:
    driver = Driver()
    driver.shard(1)
    driver.apply(RemoveReplica(1, 1, 0))
    taken = driver.state.shards.by_number[1].replicas[0].address
    assert driver.reason(AddReplica(1, 2, 2, taken)) == "another replica has this address"
    assert driver.reason(AddReplica(1, 2, 2, address(9))) is None


def test_a_trimmed_lane_is_kept_for_its_session_alone() -> None:
    driver = Driver()
    a, b = driver.shard(1)
    driver.shard(2)
    for lane in (a, b):
        driver.apply(OpenSession(f"of {lane}", lane))
    driver.cut({a: 3, b: 2})
    driver.apply(Finalize(1))
    assert driver.apply(TrimTo(6)) == [TrimmedLog(6)]
    target = driver.state.shards.by_number[2].open_lanes()[0]
    moved, trimmed = driver.apply(MoveSession(1, 1, a, target))
    assert isinstance(moved, SessionMoved)
    assert trimmed == TrimmedLog(6, (a,))
    expired, trimmed, changed = driver.apply(ExpireSession(2, 1))
    assert isinstance(expired, ExpiredSession)
    assert trimmed == TrimmedLog(6, (b,))
    assert isinstance(changed, ViewChanged)
    assert changed.now is None
    assert len(driver.apply(ExpireSession(1, 1))) == 1


def test_lanes_that_close_empty_vanish_however_often_a_replica_starts() -> None:
    driver = Driver()
    first, other = driver.shard(0)
    driver.cut({first: 2})
    for boot in range(2, 50):
        outcomes = driver.apply(OpenLane(0, 0, boot))
        closed = first._replace(incarnation=boot - 1)
        assert outcomes[0] == LaneClosed(closed, 2 if boot == 2 else 0)
        gone = [outcome for outcome in outcomes if isinstance(outcome, TrimmedLog)]
        assert gone == ([] if boot == 2 else [TrimmedLog(1, (closed,))])
    newest = first._replace(incarnation=49)
    assert list(driver.state.lanes.ordered_lengths(0)) == [first, newest, other]
    assert driver.reason(CloseLane(first._replace(incarnation=7))) == "no such lane"


def test_an_empty_lane_stays_while_a_session_is_at_home_there() -> None:
    driver = Driver()
    first, other = driver.shard(0)
    for name in ("one", "two"):
        driver.apply(OpenSession(name, first))
    assert not any(isinstance(outcome, TrimmedLog) for outcome in driver.apply(OpenLane(0, 0, 2)))
    assert driver.state.lanes.ordered_length(first) == 0
    driver.apply(MoveSession(1, 1, first, other))
    assert driver.state.lanes.ordered_length(first) == 0
    outcomes = driver.apply(ExpireSession(2, 1))
    assert outcomes[-1] == TrimmedLog(1, (first,))
    assert driver.state.lanes.ordered_length(first) is None


def test_the_last_session_that_moves_takes_an_empty_home_along() -> None:
    driver = Driver()
    first, other = driver.shard(0)
    driver.apply(OpenSession("one", first))
    driver.apply(CloseLane(first))
    outcomes = driver.apply(MoveSession(1, 1, first, other))
    assert isinstance(outcomes[0], SessionMoved)
    assert outcomes[-1] == TrimmedLog(1, (first,))
