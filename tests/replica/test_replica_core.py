"""Each invariant of `ithaca.engines.scalog.replica` by itself; the numbers are those of the package's docstring."""

import pytest
from tests.replica.driving import SHARD, Driven, joined, one, only, placed

from ithaca.engines.scalog.ordering.entries import CloseLane, Finalize, RemoveReplica, TrimTo
from ithaca.engines.scalog.replica import appends
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    Advanced,
    Appended,
    Created,
    CreateLane,
    DiskFull,
    DropLane,
    Follow,
    NoteRuns,
    OrderLost,
    Refuse,
    Rejoin,
    ReplicaRemoved,
    Request,
    SendReport,
    ShardReclaimed,
    Synced,
    Truncate,
    Truncated,
    Unfollow,
    Write,
)
from ithaca.model.errors import Overloaded, StorageFull, Unavailable, WrongLane
from ithaca.model.limits import APPEND_REPEATS_MAX
from ithaca.model.positions import LaneId

# 1. Nothing is accepted before the lane is there.


def test_nothing_is_accepted_before_this_boots_lane_is_on_the_disk() -> None:
    driven = Driven()
    lane = LaneId(SHARD, 0, 1)
    assert driven.core.state == "joining"
    early = driven.step(Appended(Request("client", 1), lane, placed(lane, 0, 1)))
    assert isinstance(one(Refuse, early).error, WrongLane)
    effects = driven.joined(creates=False)
    assert CreateLane(lane) in effects
    assert isinstance(one(Refuse, driven.append()).error, Unavailable)
    driven.step(Created(lane))
    assert one(Write, driven.append()).lane == lane


def test_batches_get_consecutive_places_of_the_own_lane() -> None:
    driven = joined()
    writes = [one(Write, driven.append(count=count)) for count in (2, 1, 3)]
    assert [write.batch.base_lsn for write in writes] == [0, 2, 3]
    assert driven.core.received(driven.own) == 6


def test_a_full_disk_refuses_until_there_is_room() -> None:
    driven = joined()
    driven.step(DiskFull(True))
    assert driven.core.state == "full"
    assert isinstance(one(Refuse, driven.append()).error, StorageFull)
    driven.step(DiskFull(False))
    assert only(Write, driven.append())


def test_what_waits_for_the_order_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = joined()
    one_batch = one(Write, driven.append()).batch.total_bytes
    monkeypatch.setattr(appends, "LANE_PENDING_BYTES_MAX", 2 * one_batch)
    assert only(Write, driven.append())
    assert isinstance(one(Refuse, driven.append()).error, Overloaded)
    driven.step(Synced(driven.own, 2))
    driven.cut({driven.own: 1})
    assert driven.core.pending_bytes == one_batch
    assert only(Write, driven.append())


def test_repeats_that_wait_for_one_answer_are_bounded() -> None:
    driven = joined()
    session = driven.session()
    for _ in range(APPEND_REPEATS_MAX):
        assert not only(Refuse, driven.append(session, 1))
    assert isinstance(one(Refuse, driven.append(session, 1)).error, Overloaded)


# 2. Acknowledged is what a cut covers.


def test_acknowledgements_come_with_the_cut_at_its_positions() -> None:
    driven = joined()
    driven.append(count=2)
    driven.append(count=3)
    assert not only(Acknowledge, driven.step(Synced(driven.own, 5)))
    effects = driven.cut({driven.own: 2, driven.peer: 4})
    assert [(ack.request.correlation, ack.position) for ack in only(Acknowledge, effects)] == [(1, 1)]
    assert one(Acknowledge, driven.cut({driven.own: 5})).position == 7


def test_runs_are_noted_before_anything_follows_from_them() -> None:
    driven = joined()
    driven.append()
    kinds = [type(effect) for effect in driven.cut({driven.own: 1})]
    assert kinds.index(NoteRuns) < kinds.index(Advanced)


def test_a_cut_that_is_missed_is_seen_and_the_order_joined_again() -> None:
    driven = joined()
    driven.append()
    driven.append()
    driven.order.cut({driven.own: 1})
    effects = driven.cut({driven.own: 2})
    assert one(Rejoin, effects).reason == "cut 2 came after cut 0"
    assert not only(Acknowledge, effects)
    assert driven.cut({driven.peer: 1}) == [], "nothing counts until it is joined again"
    assert [ack.position for ack in only(Acknowledge, driven.joined())] == [1, 2]
    assert driven.core.tail == 4


def test_a_trim_beyond_the_known_order_shows_that_cuts_were_missed() -> None:
    driven = joined()
    driven.order.cut({driven.peer: 2})
    effects = driven.apply(TrimTo(3))
    assert only(Rejoin, effects)
    assert driven.core.first == 1


def test_a_new_leader_acknowledges_what_was_ordered_meanwhile() -> None:
    driven = joined()
    driven.append()
    driven.append()
    driven.step(OrderLost())
    driven.order.cut({driven.own: 1})
    assert only(Write, driven.append()), "lanes go on without the order"
    assert [ack.position for ack in only(Acknowledge, driven.joined())] == [1]
    assert one(Acknowledge, driven.cut({driven.own: 2})).position == 2


# 3. Reports.


def test_a_report_says_what_is_synced_and_nothing_more() -> None:
    driven = joined()
    driven.append(count=3)
    driven.receive(driven.peer, 0, 2)
    report = one(SendReport, driven.step(Synced(driven.own, 3))).report
    assert report.lengths == ((driven.own, 3), (driven.peer, 0))
    assert (report.boot, report.epoch) == (1, 1)


def test_a_new_configuration_is_reported_to_at_once() -> None:
    driven = joined(f=1, masking=True)
    driven.written(2)
    report = one(SendReport, driven.apply(RemoveReplica(SHARD, 1, 2))).report
    assert (report.epoch, dict(report.lengths)[driven.own]) == (2, 2)


def test_a_replica_that_was_removed_is_silent() -> None:
    driven = joined(f=1, masking=True)
    driven.written()
    driven.apply(RemoveReplica(SHARD, 1, 0))
    driven.receive(driven.peer, 0, 1)
    assert not only(SendReport, driven.step(Synced(driven.peer, 1)))
    assert driven.core.deadline_us is None


def test_nothing_is_copied_for_a_replica_that_was_removed() -> None:
    driven = joined(f=1, masking=True)
    driven.written()
    driven.apply(RemoveReplica(SHARD, 1, 0))
    followed = {effect.lane for effect in only(Unfollow, driven.step(ReplicaRemoved()))}
    assert driven.peer in followed
    assert driven.own not in followed
    assert not only(Write, driven.receive(driven.peer, 0, 1))
    assert not only(Follow, driven.step(Created(driven.peer)))


# 5. What is refused because its lane closed was not ordered.


def test_closing_the_own_lane_refuses_what_is_beyond_and_nothing_else() -> None:
    driven = joined()
    driven.append(count=2)
    driven.append()
    assert one(Acknowledge, driven.cut({driven.own: 2})).position == 1
    effects = driven.apply(CloseLane(driven.own))
    refused = one(Refuse, effects)
    assert (refused.request.correlation, type(refused.error)) == (2, WrongLane)
    assert isinstance(one(Refuse, driven.append()).error, WrongLane)


def test_a_lane_that_was_closed_while_away_answers_from_the_cuts_first() -> None:
    driven = joined()
    driven.append()
    driven.append()
    driven.step(OrderLost())
    driven.order.cut({driven.own: 1})
    driven.order.apply(CloseLane(driven.own))
    effects = driven.joined()
    assert one(Acknowledge, effects).position == 1
    assert one(Refuse, effects).request.correlation == 2


def test_a_finalized_shard_serves_what_it_has() -> None:
    driven = joined()
    driven.written(2)
    driven.cut({driven.own: 2})
    driven.append()
    effects = driven.apply(Finalize(SHARD))
    assert isinstance(one(Refuse, effects).error, WrongLane)
    states = [driven.core.state]
    assert driven.core.leaving_view == driven.core.view_version
    assert one(Truncate, driven.step(Synced(driven.own, 3))).length == 2
    driven.step(Truncated(driven.own))
    assert [*states, driven.core.state] == ["catching up", "finalized"]
    assert driven.core.readable == 3


def test_a_shard_that_was_reclaimed_while_away_is_not_deleted_on_somebodys_word() -> None:
    driven = joined()
    driven.written(2)
    driven.cut({driven.own: 2})
    driven.append()
    driven.step(OrderLost())
    effects = driven.step(ShardReclaimed())
    assert not only(DropLane, effects)
    assert one(Refuse, effects).error.outcome_unknown
    assert driven.core.state == "reclaimed"
    assert isinstance(one(Refuse, driven.append()).error, WrongLane)
    assert {lane for lane, *_ in driven.core.lanes()} == {driven.own, driven.peer}
