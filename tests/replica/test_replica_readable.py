"""What can be read of a replica (invariant 6 of `ithaca.engines.scalog.replica`), and how far."""

from tests.ordering.building import CONFIGURATION
from tests.replica.driving import SHARD, Driven, behind_a_trim, held, joined, one, only

from ithaca.engines.scalog.ordering.entries import CloseLane, OpenLane, TrimTo
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    Advanced,
    CreateLane,
    Fetch,
    FetchRuns,
    Follow,
    Held,
    NoteRuns,
    OrderJoined,
    OrderLost,
    Refuse,
    RunsFetched,
    SendReport,
    SkipRuns,
    Synced,
    Truncate,
    Truncated,
    Write,
)
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.errors import Unavailable
from ithaca.wire.batch import NOOPS

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
