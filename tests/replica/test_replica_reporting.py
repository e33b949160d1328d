"""When a replica reports, and when it syncs runs (invariants 3 and 7)."""

import pytest
from msgspec.structs import replace
from tests.ordering.building import CONFIGURATION
from tests.replica.driving import SHARD, Driven, one, only

from ithaca.engines.scalog.ordering.entries import OpenLane
from ithaca.engines.scalog.ordering.reports import Reports
from ithaca.engines.scalog.replica import reporting
from ithaca.engines.scalog.replica.core import ReplicaCore
from ithaca.engines.scalog.replica.events import (
    Effect,
    OrderJoined,
    OrderLost,
    RunsSynced,
    SendReport,
    Synced,
    SyncRuns,
    Tick,
)
from ithaca.engines.scalog.replica.lanes import LaneCopy
from ithaca.engines.scalog.replica.reporting import Reporting, RunsSync, Timer
from ithaca.engines.scalog.replica.settled import SettledCopies
from ithaca.model.limits import REPORT_INTERVAL_S, REPORTS_OUTSTANDING_MAX, RUNS_SYNC_CUTS, RUNS_SYNC_S
from ithaca.model.positions import LaneId

INTERVAL_US = int(REPORT_INTERVAL_S * 1e6)
RUNS_US = int(RUNS_SYNC_S * 1e6)


def joined(*, masking: bool = False) -> Driven:
    driven = Driven(masking=masking)
    driven.joined()
    return driven


def synced(driven: Driven) -> list[Effect]:
    driven.append()
    return driven.step(Synced(driven.own, driven.core.received(driven.own)))


def test_a_timer_counts_from_the_first_tick_after_it_was_set() -> None:
    """The core's time may be long ago when something happens."""
    timer = Timer(100)
    assert not timer.is_due(5)
    timer.set(now_us=0)
    assert timer.due_us == 100
    assert not timer.is_due(5000)
    assert timer.due_us == 5100
    assert timer.is_due(5100)


def test_idle_means_silent() -> None:
    driven = joined()
    assert driven.core.deadline_us is None
    assert driven.step(Tick(10**9)) == []
    synced(driven)
    driven.cut({driven.own: 1})
    driven.step(Tick(10**9))
    driven.step(Tick(2 * 10**9))
    driven.step(RunsSynced(1))
    assert driven.core.deadline_us is None


def test_joining_reports_at_once_and_being_away_not_at_all() -> None:
    driven = Driven()
    effects = driven.joined(creates=False)
    assert len(only(SendReport, effects)) == 1
    driven.create(effects)
    driven.step(OrderLost())
    assert not only(SendReport, synced(driven))
    assert driven.core.deadline_us is None
    assert dict(one(SendReport, driven.joined()).report.lengths)[driven.own] == 1


def test_only_so_many_reports_wait_for_their_cut() -> None:
    driven = joined()
    sent = [len(only(SendReport, synced(driven))) for _ in range(REPORTS_OUTSTANDING_MAX + 2)]
    assert sent == [1] * REPORTS_OUTSTANDING_MAX + [0, 0]
    report = one(SendReport, driven.cut({driven.own: 1})).report
    assert dict(report.lengths)[driven.own] == REPORTS_OUTSTANDING_MAX + 2
    assert not only(SendReport, driven.cut({driven.own: REPORTS_OUTSTANDING_MAX + 1}))


def test_what_no_cut_covers_is_repeated_each_interval() -> None:
    driven = joined()
    synced(driven)
    driven.step(Tick(1000))
    assert driven.core.deadline_us == 1000 + INTERVAL_US
    assert driven.step(Tick(999 + INTERVAL_US)) == []
    assert only(SendReport, driven.step(Tick(1000 + INTERVAL_US)))
    driven.step(Tick(2000 + INTERVAL_US))
    assert driven.core.deadline_us == 2000 + 2 * INTERVAL_US
    driven.cut({driven.own: 1})
    driven.step(Tick(10 * INTERVAL_US))
    assert not only(SendReport, driven.step(Tick(20 * INTERVAL_US)))


def test_a_lane_that_stands_still_does_not_hold_back_the_others() -> None:
    """With masking a dead peer's last records may never be ordered; the others go on."""
    driven = joined(masking=True)
    for length in (1, 2):
        driven.receive(driven.peer, length - 1, 1)
        driven.step(Synced(driven.peer, length))
    assert not only(SendReport, synced(driven))
    driven.step(Tick(0))
    assert only(SendReport, driven.step(Tick(INTERVAL_US)))
    driven.cut({driven.own: 1})
    for length in range(2, 6):
        assert only(SendReport, synced(driven))
        driven.cut({driven.own: length})


def test_runs_are_synced_after_a_while_one_sync_at_a_time() -> None:
    driven = joined()
    synced(driven)
    driven.cut({driven.own: 1})
    driven.step(Tick(0))
    assert driven.core.deadline_us == RUNS_US
    assert one(SyncRuns, driven.step(Tick(RUNS_US))).cut == 1
    synced(driven)
    driven.cut({driven.own: 2})
    driven.step(Tick(2 * RUNS_US))
    assert not only(SyncRuns, driven.step(Tick(9 * RUNS_US)))
    driven.step(RunsSynced(1))
    assert one(SyncRuns, driven.step(Tick(9 * RUNS_US))).cut == 2


def test_runs_are_synced_after_many_cuts_and_that_is_told() -> None:
    """Or the ordering layer would leave out this shard, because it keeps too many cuts for it."""
    driven = joined()
    for length in range(1, RUNS_SYNC_CUTS):
        synced(driven)
        assert not only(SyncRuns, driven.cut({driven.own: length}))
    synced(driven)
    assert one(SyncRuns, driven.cut({driven.own: RUNS_SYNC_CUTS})).cut == RUNS_SYNC_CUTS
    report = one(SendReport, driven.step(RunsSynced(RUNS_SYNC_CUTS))).report
    assert report.runs_cut == RUNS_SYNC_CUTS


def test_runs_are_synced_after_many_cuts_of_other_shards_too() -> None:
    """The ordering layer counts all cuts since the oldest that it keeps, whosever they are."""
    driven = joined()
    synced(driven)
    driven.cut({driven.own: 1})
    for _ in range(RUNS_SYNC_CUTS - 2):
        assert not only(SyncRuns, driven.cut({}))
    assert one(SyncRuns, driven.cut({})).cut == RUNS_SYNC_CUTS
    for _ in range(RUNS_SYNC_CUTS):
        driven.cut({})
    assert not only(SyncRuns, driven.step(RunsSynced(RUNS_SYNC_CUTS))), "there is nothing more to sync"


def test_cuts_without_records_of_this_shard_are_reported_by_nobody() -> None:
    """The ordering layer waits for those who have runs of a cut, and for nobody else."""
    driven = joined()
    for _ in range(2 * RUNS_SYNC_CUTS):
        assert not only(SendReport, driven.cut({}))
    assert driven.core.deadline_us is None


def test_runs_that_are_not_durable_are_not_reported_so() -> None:
    driven = joined()
    synced(driven)
    driven.cut({driven.own: 1})
    assert one(SendReport, synced(driven)).report.runs_cut == 0
    driven.step(Tick(0))
    driven.step(Tick(RUNS_US))
    driven.step(RunsSynced(1))
    driven.cut({driven.own: 2})
    assert one(SendReport, synced(driven)).report.runs_cut == 1


def test_a_learner_reports_more_lanes_than_one_message_takes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting, "REPORT_LANES_MAX", 3)
    order = Driven().order
    for boot in range(1, 9):
        order.cut({LaneId(SHARD, 1, boot): 2})
        order.apply(OpenLane(SHARD, 1, boot + 1))
    summary = order.state.summary(SHARD)
    assert summary is not None
    due = [(lane, length, False) for lane, length in summary.lengths if length]
    assert len(due) == 8
    core = ReplicaCore(SHARD, 9, 2, {}, settled=SettledCopies(due))
    sent = only(SendReport, core.step(OrderJoined(CONFIGURATION.log, None, summary, ())))
    assert [len(each.report.lengths) for each in sent[:-1]] == [3] * (len(sent) - 1)
    reports = Reports(order.state)
    for each in sent:
        assert not reports.has_caught_up(SHARD, 9)
        assert reports.receive(replace(each.report, runs_cut=order.state.cut_number))
    assert reports.has_caught_up(SHARD, 9)


def test_what_is_said_in_pieces_is_said_whole_as_much_less_often_and_between_that_only_what_has_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "REPORT_LANES_MAX", 1)
    effects: list[Effect] = []
    copies = {LaneId(SHARD, each, 1): LaneCopy(LaneId(SHARD, each, 1)) for each in (0, 1)}
    learner = Reporting(9, 1, copies, SettledCopies(()), RunsSync(effects), effects)
    learner.follow(Driven().order.state.shards.by_number[SHARD], 0)
    assert [len(each.report.lengths) for each in only(SendReport, effects)] == [1, 1]
    assert learner.due_us == 2 * INTERVAL_US
    effects.clear()
    lane = LaneId(SHARD, 1, 1)
    copies[lane].durable = 5
    learner.moved(0)
    assert one(SendReport, effects).report.lengths == ((lane, 5),)
    effects.clear()
    learner.tick(1)
    learner.tick(1 + 2 * INTERVAL_US)
    assert [each.report.lengths for each in only(SendReport, effects)] == [((LaneId(SHARD, 0, 1), 0),), ((lane, 5),)]
