"""Each invariant of `ithaca.engines.scalog.replica` by itself; the numbers are those of the package's docstring."""

import pytest
from tests.ordering.building import CONFIGURATION
from tests.replica.driving import SHARD, Driven, held, one, only, placed

from ithaca.engines.scalog.ordering.entries import CloseLane, DeclareLost, Finalize, OpenLane, RemoveReplica, TrimTo
from ithaca.engines.scalog.replica import appends
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    Advanced,
    Appended,
    Created,
    CreateLane,
    DiskFull,
    DropLane,
    Effect,
    Fetch,
    FetchRuns,
    Follow,
    Held,
    NoteRuns,
    OrderJoined,
    OrderLost,
    Refuse,
    Rejoin,
    ReplicaRemoved,
    Replicated,
    Request,
    RunsFetched,
    SendReport,
    ShardReclaimed,
    SkipRuns,
    SourcesExhausted,
    Synced,
    Truncate,
    Truncated,
    Unfollow,
    Write,
)
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Overloaded, StorageFull, Unavailable, WrongLane
from ithaca.model.limits import APPEND_REPEATS_MAX
from ithaca.model.positions import LaneId
from ithaca.wire.batch import NOOPS, SNAPSHOT, Batch, lane_seed
from ithaca.wire.build import bookkeeping, noops


def joined(*, f: int = 1, masking: bool = False) -> Driven:
    driven = Driven(f=f, masking=masking)
    driven.joined()
    return driven


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


# 4. The ordered length is authoritative.


def test_nothing_is_cut_or_dropped_before_the_order_said_so() -> None:
    driven = Driven()
    old = LaneId(SHARD, 0, 1)
    driven.order.apply(OpenLane(SHARD, 0, 1))
    driven.order.cut({old: 2})
    driven.boot = 2
    driven.start({old: held(5)})
    assert driven.core.lanes() == [(old, False, 5, 0)]
    effects = driven.joined()
    assert one(Truncate, effects) == Truncate(old, 2)
    assert not driven.core.is_settled(old)
    assert driven.core.state == "catching up"
    driven.step(Truncated(old))
    assert driven.core.is_settled(old)
    assert driven.core.ordered_length(old) == 2


def test_a_shorter_copy_is_completed_from_any_peer() -> None:
    driven = Driven(masking=True)
    old = LaneId(SHARD, 0, 1)
    driven.order.apply(OpenLane(SHARD, 0, 1))
    driven.order.cut({old: 4})
    driven.boot = 2
    driven.start({old: held(1)})
    fetch = one(Fetch, driven.joined())
    assert (fetch.lane, fetch.stop, len(fetch.peers)) == (old, 4, 2)
    assert one(Write, driven.receive(old, 1, 3)).batch.end_lsn == 4
    assert not driven.core.is_settled(old)
    driven.step(Synced(old, 4))
    assert driven.core.is_settled(old)


def test_a_copy_is_completed_from_the_peers_that_are_left() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 4})
    first = one(Fetch, driven.apply(OpenLane(SHARD, 1, 2)))
    assert len(first.peers) == 2
    effects = driven.apply(RemoveReplica(SHARD, 1, 2))
    assert Unfollow(driven.peer) in effects
    assert one(Fetch, effects).peers == first.peers[:1]


def test_what_a_peer_has_not_cut_yet_is_not_taken() -> None:
    driven = joined()
    driven.receive(driven.peer, 0, 2)
    driven.cut({driven.peer: 1})
    effects = driven.apply(OpenLane(SHARD, 1, 2))
    assert Unfollow(driven.peer) in effects
    driven.start({})
    assert only(Fetch, driven.joined())
    assert driven.receive(driven.peer, 1, 1) == []


def test_a_closed_lane_is_cut_only_when_nothing_is_being_written_to_it() -> None:
    driven = joined()
    driven.receive(driven.peer, 0, 3)
    driven.step(Synced(driven.peer, 3))
    driven.cut({driven.peer: 1})
    driven.receive(driven.peer, 3, 2)
    assert not only(Truncate, driven.apply(OpenLane(SHARD, 1, 2)))
    assert one(Truncate, driven.step(Synced(driven.peer, 5))) == Truncate(driven.peer, 1)
    assert driven.receive(driven.peer, 5, 1) == []


def test_a_lane_that_closes_empty_is_dropped_whatever_was_written_to_it() -> None:
    driven = joined()
    driven.receive(driven.peer, 0, 3)
    effects = driven.apply(OpenLane(SHARD, 1, 2))
    assert one(DropLane, effects) == DropLane(driven.peer)
    assert Unfollow(driven.peer) in effects
    assert not only(Truncate, effects)
    assert driven.step(Synced(driven.peer, 3)) == []
    assert driven.core.ordered_length(driven.peer) is None


def test_lanes_that_are_not_listed_were_trimmed() -> None:
    driven = Driven()
    gone = LaneId(SHARD, 1, 1)
    driven.order.cut({gone: 2})
    driven.order.apply(OpenLane(SHARD, 1, 2))
    driven.order.apply(TrimTo(3))
    driven.start({gone: held(2)})
    effects = driven.joined()
    assert one(DropLane, effects) == DropLane(gone)
    assert driven.core.first == driven.core.readable == 3


def test_a_trim_drops_lanes_and_moves_the_first_position() -> None:
    driven = joined()
    driven.receive(driven.peer, 0, 2)
    driven.step(Synced(driven.peer, 2))
    driven.cut({driven.peer: 2})
    driven.apply(OpenLane(SHARD, 1, 2))
    effects = driven.apply(TrimTo(3))
    assert one(DropLane, effects) == DropLane(driven.peer)
    assert one(Advanced, effects).first == 3


def test_open_lanes_of_peers_are_made_and_followed() -> None:
    driven = Driven()
    effects = driven.joined()
    follow = one(Follow, effects)
    assert (follow.lane, follow.primary.port) == (driven.peer, 7601)
    newer = driven.peer._replace(incarnation=2)
    effects = driven.apply(OpenLane(SHARD, 1, 2))
    assert CreateLane(newer) in effects
    assert one(Follow, driven.step(Created(newer))).lane == newer


def test_a_stream_with_a_hole_starts_again() -> None:
    driven = joined()
    assert only(Write, driven.receive(driven.peer, 0, 2))
    assert driven.receive(driven.peer, 0, 2) == [], "known already"
    effects = driven.receive(driven.peer, 3, 1)
    assert [type(effect) for effect in effects] == [Follow]
    assert driven.core.received(driven.peer) == 2


def test_trimmed_batches_that_no_peer_has_are_filled() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 4})
    driven.cut({driven.peer: 6})
    driven.apply(TrimTo(5))
    first, second = only(Write, driven.receive(driven.peer, 4, 2))
    assert (first.batch.kind, first.batch.base_lsn, first.batch.count) == (NOOPS, 0, 4)
    assert second.batch.base_lsn == 4
    driven.step(Synced(driven.peer, 6))
    driven.apply(OpenLane(SHARD, 1, 2))
    assert driven.core.state == "catching up", "until the new lane is there"
    assert driven.core.is_settled(driven.peer)
    assert not driven.core.has_every_batch(driven.peer), "it cannot say what was in the hole"


def snapshot(lane: LaneId, lsn: int) -> Batch:
    return bookkeeping(SNAPSHOT, b"{}").placed(lsn, lane_seed(lane))


def test_a_snapshot_makes_up_for_trimmed_batches_that_no_peer_has() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 4})
    driven.cut({driven.peer: 6})
    driven.apply(TrimTo(5))
    known = snapshot(driven.peer, 4)
    filled, told = only(Write, driven.step(Replicated(driven.peer, known)))
    assert (filled.batch.kind, filled.batch.base_lsn, filled.batch.count) == (NOOPS, 0, 4)
    assert told.batch is known
    assert driven.step(Replicated(driven.peer, known)) == [], "nothing is missing any more"
    assert one(Write, driven.receive(driven.peer, 4, 2)).batch.base_lsn == 4
    driven.step(Synced(driven.peer, 6))
    driven.apply(OpenLane(SHARD, 1, 2))
    assert driven.core.has_every_batch(driven.peer)


def test_no_ops_of_a_peer_are_holes_here_too_unless_it_knows_what_was_there() -> None:
    for is_known in (False, True):
        driven = joined(masking=True)
        driven.cut({driven.peer: 6})
        driven.step(Replicated(driven.peer, noops(4, timestamp_us=0).placed(0, lane_seed(driven.peer))))
        if is_known:
            assert one(Write, driven.step(Replicated(driven.peer, snapshot(driven.peer, 4))))
        driven.receive(driven.peer, 4, 2)
        driven.step(Synced(driven.peer, 6))
        driven.apply(OpenLane(SHARD, 1, 2))
        assert driven.core.is_settled(driven.peer)
        assert driven.core.has_every_batch(driven.peer) == is_known


def test_a_snapshot_beyond_what_is_known_to_be_trimmed_has_the_stream_start_again() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 6})
    effects = driven.step(Replicated(driven.peer, snapshot(driven.peer, 4)))
    assert [type(effect) for effect in effects] == [Follow]


def test_a_stream_that_starts_again_does_not_end_the_search_for_positions() -> None:
    """They may be what says that the beginning of the stream was trimmed; meanwhile it starts again many times."""
    driven, runs = behind_a_trim(4, 6)
    driven.order.apply(TrimTo(7))
    assert one(FetchRuns, driven.joined())[1:3] == (0, 4)
    for _ in range(3):
        effects = driven.step(Replicated(driven.peer, snapshot(driven.peer, 6)))
        assert [type(effect) for effect in effects] == [Follow]
    driven.step(RunsFetched(driven.peer, (runs[0],), 5))
    filled, told = only(Write, driven.step(Replicated(driven.peer, snapshot(driven.peer, 6))))
    assert (filled.batch.kind, filled.batch.count, told.batch.kind) == (NOOPS, 6, SNAPSHOT)


def trimmed_whole() -> Driven:
    driven = joined(masking=True)
    driven.session(lane=driven.peer)  # keeps the lane from being forgotten
    driven.cut({driven.peer: 4})
    driven.apply(OpenLane(SHARD, 1, 2))
    assert not only(Write, driven.apply(TrimTo(5))), "a peer may know what was there"
    return driven


def test_a_rest_that_was_trimmed_whole_is_filled_when_nobody_has_it() -> None:
    """Peers may have given up the last of it, so that nobody would send a batch behind it."""
    driven = trimmed_whole()
    effects = driven.step(SourcesExhausted(driven.peer))
    assert (one(Write, effects).batch.kind, one(Write, effects).batch.count) == (NOOPS, 4)
    assert driven.step(SourcesExhausted(driven.peer)) == []
    assert only(Unfollow, driven.step(Synced(driven.peer, 4)))
    assert driven.core.is_settled(driven.peer)
    assert not driven.core.has_every_batch(driven.peer)


def test_a_replica_without_peers_fills_what_was_trimmed_whole_at_once() -> None:
    driven = joined(f=0)
    driven.session()  # keeps the lane from being forgotten
    driven.written(4)
    driven.cut({driven.own: 4})
    lost = driven.own
    driven.apply(TrimTo(5))
    driven.boot = 2
    driven.start({})
    effects = driven.joined()
    assert [(each.batch.kind, each.batch.count) for each in only(Write, effects) if each.lane == lost] == [(NOOPS, 4)]
    driven.step(Synced(lost, 4))
    assert driven.core.is_settled(lost)


def test_a_snapshot_makes_up_for_a_lane_that_was_trimmed_whole() -> None:
    for sent_no_ops in (False, True):
        driven = trimmed_whole()
        known = snapshot(driven.peer, 4)
        effects: list[Effect] = []
        if sent_no_ops:
            effects += driven.step(Replicated(driven.peer, noops(4, timestamp_us=0).placed(0, lane_seed(driven.peer))))
        effects += driven.step(Replicated(driven.peer, known))
        filled, told = only(Write, effects)
        assert (filled.batch.kind, filled.batch.count) == (NOOPS, 4)
        assert told.batch is known
        driven.step(Synced(driven.peer, 4))
        assert driven.core.has_every_batch(driven.peer)


def test_nothing_is_written_behind_a_copy_that_is_settled() -> None:
    driven = trimmed_whole()
    driven.step(SourcesExhausted(driven.peer))
    driven.step(Synced(driven.peer, 4))
    assert driven.step(Replicated(driven.peer, snapshot(driven.peer, 4))) == []
    assert not driven.core.has_every_batch(driven.peer)


def test_what_nobody_has_and_somebody_may_read_is_waited_for() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 4})
    driven.apply(OpenLane(SHARD, 1, 2))
    driven.apply(TrimTo(4))
    assert driven.step(SourcesExhausted(driven.peer)) == []
    assert one(Write, driven.receive(driven.peer, 0, 4)).batch.count == 4


def test_lost_records_are_filled_and_hold_nothing_back() -> None:
    driven = joined(masking=True)
    driven.cut({driven.peer: 4})
    driven.apply(OpenLane(SHARD, 1, 2))
    assert driven.core.readable == 1
    effects = driven.apply(DeclareLost(driven.peer, 0, 4))
    assert driven.core.lost(driven.peer) == ((0, 4),)
    assert driven.core.readable == 5
    assert one(Write, effects).batch.count == 4


def test_holes_are_remembered_through_a_restart() -> None:
    driven = Driven()
    driven.order.cut({driven.peer: 2})
    driven.order.apply(OpenLane(SHARD, 1, 2))
    for has_holes in (False, True):
        driven.start({driven.peer: held(2, ((1, 2),))._replace(has_holes=has_holes)})
        driven.joined()
        assert driven.core.is_settled(driven.peer)
        assert driven.core.has_every_batch(driven.peer) != has_holes


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


# 6. What can be read.


def test_the_readable_limit_stops_at_the_first_record_that_is_missing() -> None:
    driven = joined(masking=True)
    driven.written(1)
    driven.cut({driven.own: 1, driven.peer: 3})
    assert (driven.core.tail, driven.core.readable) == (5, 2)
    driven.receive(driven.peer, 0, 2)
    assert one(Advanced, driven.step(Synced(driven.peer, 2))).readable == 4
    driven.receive(driven.peer, 2, 1)
    assert one(Advanced, driven.step(Synced(driven.peer, 3))).readable == 5


def test_a_replica_that_starts_without_its_lanes_claims_nothing_until_they_are_back() -> None:
    """Two were damaged and quarantined: a closed lane of its own, and the open one of a peer (invariants 3, 4, 6)."""
    driven = joined()
    closed, peer = driven.own, driven.peer
    driven.written(2)
    driven.receive(peer, 0, 3)
    driven.step(Synced(peer, 3))
    driven.cut({closed: 2, peer: 3})
    assert driven.core.readable == 6
    driven.boot = 2
    driven.start({})
    effects = driven.joined(creates=False)
    report = one(SendReport, effects).report
    assert (report.boot, report.runs_cut) == (2, 0)
    assert dict(report.lengths)[peer] == 0
    assert {each.lane for each in only(CreateLane, effects)} == {closed, peer, driven.own}
    effects = driven.create(effects)
    assert one(Fetch, effects).lane == closed
    assert one(Follow, effects).lane == peer
    assert (driven.core.state, driven.core.readable, driven.core.tail) == ("catching up", 1, 6)
    assert not driven.core.has_every_batch(closed)
    lanes = (closed, peer)
    assert [driven.core.has_all_ordered(lane) for lane in lanes] == [False, False]
    for lane, count in ((closed, 2), (peer, 3)):
        driven.receive(lane, 0, count)
        driven.step(Synced(lane, count))
    assert [driven.core.has_all_ordered(lane) for lane in lanes] == [True, True]
    assert (driven.core.state, driven.core.readable) == ("serving", 6)
    assert driven.core.has_every_batch(closed)


def test_the_readable_limit_stops_where_positions_are_not_known() -> None:
    """Cuts that were forgotten come from peers."""
    driven = Driven(masking=True)
    driven.order.cut({driven.peer: 2})
    driven.order.cut({driven.peer: 3})
    driven.order.state.kept.pop(1)
    driven.start({driven.peer: held(3)})
    effects = driven.joined()
    fetch = one(FetchRuns, effects)
    assert (fetch.lane, fetch.start, fetch.stop) == (driven.peer, 0, 2)
    assert driven.core.readable == 1
    first = driven.order.outcomes[-3][0].of_shard(SHARD).runs[0]  # type: ignore[union-attr]
    effects = driven.step(RunsFetched(driven.peer, (first,), 5))
    assert [note.runs[0].lsn for note in only(NoteRuns, effects)] == [0, 2]
    assert driven.core.readable == driven.core.tail == 4


def behind_a_trim(*lengths: int, held_length: int = 0) -> tuple[Driven, list[LaneRun]]:
    """A replica that was away while its peer's lane was ordered up to each of these, and all but the last forgotten."""
    driven = Driven(masking=True)
    runs = [driven.order.cut({driven.peer: length}).of_shard(SHARD).runs[0] for length in lengths]
    for number in range(1, len(lengths)):
        driven.order.state.kept.pop(number)
    driven.start({driven.peer: held(held_length)})
    return driven, runs


def test_runs_that_peers_have_trimmed_are_skipped() -> None:
    driven, runs = behind_a_trim(2, 5, 6)
    driven.order.apply(TrimTo(4))
    assert one(FetchRuns, driven.joined())[1:3] == (0, 5)
    effects = driven.step(RunsFetched(driven.peer, (runs[1],), 5))
    assert effects.index(SkipRuns(driven.peer, 2)) < effects.index(NoteRuns((runs[1],), 5))
    assert [run for note in only(NoteRuns, effects) for run in note.runs] == runs[1:]
    assert driven.core.readable == 4
    filled, write = only(Write, driven.receive(driven.peer, 3, 3))
    assert (filled.batch.kind, filled.batch.base_lsn, filled.batch.count) == (NOOPS, 0, 3)
    assert write.batch.base_lsn == 3
    driven.step(Synced(driven.peer, 6))
    assert driven.core.readable == driven.core.tail == 7


def test_runs_beyond_what_was_asked_for_show_that_all_of_that_was_trimmed() -> None:
    driven, runs = behind_a_trim(2, 5, 6)
    driven.order.apply(TrimTo(7))
    driven.joined()
    effects = driven.step(RunsFetched(driven.peer, (runs[2],), 5))
    assert only(SkipRuns, effects) == [SkipRuns(driven.peer, 5)]
    assert [run for note in only(NoteRuns, effects) for run in note.runs] == runs[2:]


def test_nothing_is_skipped_before_the_trim_is_known_here() -> None:
    """The peer has heard of it already; until it comes what is not known may be readable."""
    driven, runs = behind_a_trim(2, 5, 6)
    driven.joined()
    assert driven.step(RunsFetched(driven.peer, (runs[1],), 5)) == []
    assert driven.core.readable == 1
    assert only(FetchRuns, driven.apply(TrimTo(4)))
    assert only(SkipRuns, driven.step(RunsFetched(driven.peer, (runs[1],), 5)))
    assert driven.core.readable == 4


def test_what_was_skipped_is_still_dead_after_a_restart() -> None:
    driven, runs = behind_a_trim(2, 5, 6)
    driven.order.apply(TrimTo(4))
    driven.start({driven.peer: Held(1, 6, (runs[1], runs[2]), 7)})
    assert not only(FetchRuns, driven.joined())
    filled, write = only(Write, driven.receive(driven.peer, 3, 3))
    assert (filled.batch.base_lsn, filled.batch.count, write.batch.base_lsn) == (1, 2, 3)


def test_an_answer_at_a_position_that_is_gone_is_not_made_up() -> None:
    driven = joined(masking=True)
    driven.append()
    driven.append()
    driven.step(OrderLost())
    driven.order.cut({driven.own: 1})
    second = driven.order.cut({driven.own: 2}).of_shard(SHARD).runs[0]
    driven.order.state.kept.pop(1)
    driven.order.apply(TrimTo(3))
    assert not only(Acknowledge, driven.joined())
    effects = driven.step(RunsFetched(driven.own, (second,), 0))
    refused = one(Refuse, effects)
    assert refused.request.correlation == 1
    assert isinstance(refused.error, Unavailable)
    assert refused.error.outcome_unknown
    assert one(Acknowledge, effects).position == 2


def test_a_lane_that_was_trimmed_whole_while_away_cannot_say_what_was_ordered() -> None:
    driven = joined()
    driven.append()
    driven.step(OrderLost())
    driven.order.cut({driven.peer: 1})
    driven.order.apply(CloseLane(driven.own))
    driven.order.apply(TrimTo(2))
    refused = one(Refuse, driven.joined())
    assert isinstance(refused.error, Unavailable)
    assert refused.error.outcome_unknown
    assert driven.core.pending_bytes == 0


def test_runs_that_come_while_a_lane_is_cut_are_asked_for_again() -> None:
    driven = Driven(masking=True)
    run = driven.order.cut({driven.peer: 2}).of_shard(SHARD).runs[0]
    driven.order.state.kept.clear()
    driven.start({driven.peer: held(0)})
    assert only(FetchRuns, driven.joined())
    driven.receive(driven.peer, 0, 2)
    driven.receive(driven.peer, 2, 1)
    driven.apply(OpenLane(SHARD, 1, 2))
    assert only(Truncate, driven.step(Synced(driven.peer, 3)))
    assert driven.step(RunsFetched(driven.peer, (run,), 5)) == []
    assert only(FetchRuns, driven.step(Truncated(driven.peer)))
    driven.step(RunsFetched(driven.peer, (run,), 5))
    assert driven.core.is_settled(driven.peer)


def test_the_view_comes_with_the_limit() -> None:
    driven = joined()
    version = driven.order.state.view.version
    assert driven.core.view_version == version
    driven.order.shard(7)
    effects = driven.tell([outcome for outcomes in driven.order.outcomes[-3:] for outcome in outcomes])
    assert only(Advanced, effects)[-1].view == driven.order.state.view.version > version


def test_a_learner_that_starts_again_reports_the_lanes_that_it_had_settled() -> None:
    driven = Driven()
    driven.order.cut({driven.peer: 2})
    driven.order.apply(OpenLane(SHARD, 1, 2))
    summary = driven.order.state.summary(SHARD)
    assert summary is not None
    core = ReplicaCore(SHARD, 9, 2, {}, settled=SettledCopies([(driven.peer, 2, False)]))
    effects = core.step(OrderJoined(CONFIGURATION.log, None, summary, ()))
    assert core.state == "learning"
    assert (driven.peer, 2) in one(SendReport, effects).report.lengths
    assert not any(each.lane == driven.peer for each in only(CreateLane, effects))
