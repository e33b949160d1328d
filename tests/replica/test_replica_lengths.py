"""The ordered length is authoritative (invariant 4 of `replica`): copies are cut to it, completed, or filled."""

from tests.replica.driving import SHARD, Driven, behind_a_trim, held, joined, one, only

from ithaca.engines.scalog.ordering.entries import DeclareLost, OpenLane, RemoveReplica, TrimTo
from ithaca.engines.scalog.replica.events import (
    Advanced,
    Created,
    CreateLane,
    DropLane,
    Effect,
    Fetch,
    FetchRuns,
    Follow,
    Replicated,
    RunsFetched,
    SourcesExhausted,
    Synced,
    Truncate,
    Truncated,
    Unfollow,
    Write,
)
from ithaca.model.positions import LaneId
from ithaca.wire.batch import NOOPS, SNAPSHOT, Batch, lane_seed
from ithaca.wire.build import bookkeeping, noops

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
