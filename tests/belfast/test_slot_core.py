"""A replica's core with slots: what is written when, and what is told to whom (its rules 1 to 3)."""

import pytest
from msgspec.structs import replace
from tests.belfast.states import CONFIGURATION, States
from tests.replica.replica_order import news_of

from ithaca.engines.belfast import limits
from ithaca.engines.belfast.leading.lane_slots import lane_slots
from ithaca.engines.belfast.replica.core import AnyEffect, SlotCore
from ithaca.engines.belfast.replica.events import (
    PassAsked,
    PeerSynced,
    SendAck,
    SendLaneReport,
    SlotsTold,
    Speculate,
    SpeculatorsAre,
    TurnEnded,
)
from ithaca.engines.belfast.speculation import placement
from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, FailLane, NoteDisk, OpenWindow
from ithaca.engines.belfast.speculation.reports import Ack
from ithaca.engines.scalog.ordering.entries import OpenLane
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    Appended,
    Created,
    CreateLane,
    OrderJoined,
    OrderLost,
    Refuse,
    Replicated,
    Request,
    SendReport,
    StartedAgain,
    Synced,
    Tick,
    Truncate,
    Write,
)
from ithaca.model.errors import Overloaded, WrongLane
from ithaca.model.positions import LaneId
from ithaca.wire.batch import lane_seed
from ithaca.wire.build import build

OWN = LaneId(0, 0, 1)
Q = 8


class Driven:
    """Replica 0 of shard 0 beside a real state; replicas 1 and 2 are only acknowledgements."""

    def __init__(self, replica: int = 0) -> None:
        self.order = States(shards=1)
        for number in range(3):
            self.order.apply(NoteDisk(0, number, 1))
        self.core = SlotCore(0, replica, 1, 1, {})
        self._requests = 0
        summary = self.order.state.summary(0)
        assert summary is not None
        lane = OWN if replica == 0 else None
        self._make(self.core.step_any(OrderJoined(CONFIGURATION.log, lane, summary, ())))

    def _make(self, effects: list[AnyEffect]) -> None:
        for effect in effects:
            if isinstance(effect, CreateLane):
                self.core.step_any(Created(effect.lane))

    def apply(self, entry: OpenWindow | EndFree | CutRange | FailLane) -> list[AnyEffect]:
        """Order an entry, and tell the core the news and its slots."""
        effects: list[AnyEffect] = []
        outcomes: list[Outcome] = self.order.apply(entry)
        for outcome in outcomes:
            news = news_of(outcome, 0)
            if news is not None:
                effects += self.core.step_any(news)  # type: ignore[arg-type]
        slots = lane_slots(self.order.state, OWN)
        return effects if slots is None else effects + self.core.step_any(SlotsTold(slots))

    def fix(self) -> list[AnyEffect]:
        """End the free window, and order one of slots."""
        self.apply(EndFree(0, 1))
        return self.apply(OpenWindow(1, 0, 4, 1, (Q,), (OWN,), 1, ((OWN, 0),)))

    def append(self, count: int = 1) -> list[AnyEffect]:
        self._requests += 1
        batch = build([b"x"] * count, timestamp_us=0)
        return self.core.step_any(Appended(Request("client", self._requests), OWN, batch))


def kinds(effects: list[AnyEffect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def test_a_batch_is_written_when_it_has_its_slots() -> None:
    driven = Driven()
    assert driven.append() == [], "nobody has told yet how the order is"
    effects = driven.fix()
    assert [effect.position for effect in effects if isinstance(effect, Write)] == [1]
    assert "Write" in kinds(effects)
    again = driven.append(2)
    assert [effect.position for effect in again if isinstance(effect, Write)] == [2]
    too_large = driven.append(Q + 1)
    assert "Write" not in kinds(too_large)
    reports = [effect.report for effect in too_large if isinstance(effect, SendLaneReport)]
    assert [report.wanted for report in reports] == [Q + 1]


def test_what_is_durable_in_the_shard_is_delivered_and_what_is_ordered_is_acknowledged() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    passed = driven.core.step_any(TurnEnded())
    report = next(effect.report for effect in passed if isinstance(effect, SendLaneReport))
    assert (report.passed, report.used) == (1, ((0, 1),))
    assert not any(isinstance(effect, Speculate) for effect in driven.core.step_any(Synced(OWN, 1)))
    assert driven.core.step_any(PeerSynced(OWN, Ack(2, 9, 1))) == [], "another disk than the order names"
    heard = driven.core.step_any(PeerSynced(OWN, Ack(1, 1, 1)))
    assert [effect for effect in heard if isinstance(effect, Speculate)] == [Speculate(OWN, 1 + Q, 1)]
    ordered = driven.apply(CutRange(1, 0, 1, ((0, ((OWN, 1),)),)))
    assert [effect.position for effect in ordered if isinstance(effect, Acknowledge)] == [1]


def test_what_is_synced_in_the_turn_in_which_it_is_placed_is_said_with_the_cut_that_is_passed() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    assert not any(isinstance(effect, SendReport | SendLaneReport) for effect in driven.core.step_any(Synced(OWN, 1)))
    said = [effect for effect in driven.core.step_any(TurnEnded()) if isinstance(effect, SendReport | SendLaneReport)]
    (both,) = said
    assert isinstance(both, SendLaneReport)
    assert both.report.passed == 1
    assert both.synced is not None
    assert both.synced.lengths == ((OWN, 1),)


def test_what_is_synced_is_said_by_itself_where_no_cut_can_be_passed_or_the_disk_is_slow() -> None:
    driven = Driven()
    driven.fix()
    for length in (1, 2):
        driven.append()
        driven.core.step_any(TurnEnded())
        assert "SendReport" in kinds(driven.core.step_any(Synced(OWN, length))), "it is synced after the turn"
    driven.append()
    driven.core.step_any(Synced(OWN, 3))
    ended = driven.core.step_any(TurnEnded())
    assert [effect.report.lengths for effect in ended if isinstance(effect, SendReport)] == [((OWN, 3),)]
    assert "SendLaneReport" not in kinds(ended), "two cuts wait already"


def test_what_is_ordered_is_durable_whoever_has_heard_of_it() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    driven.core.step_any(TurnEnded())
    driven.core.step_any(Synced(OWN, 1))
    assert driven.core.watermark == (1, 0), "no follower has said anything"
    ordered = driven.apply(CutRange(1, 0, 1, ((0, ((OWN, 1),)),)))
    assert [effect for effect in ordered if isinstance(effect, Speculate)] == [Speculate(OWN, 1 + Q, 1)]


def test_a_follower_acknowledges_what_it_synced_to_the_primary() -> None:
    driven = Driven(replica=1)
    batch = build([b"x"], timestamp_us=0).placed(0, lane_seed(OWN))
    assert "Write" in kinds(driven.core.step_any(Replicated(OWN, batch)))
    synced = driven.core.step_any(Synced(OWN, 1))
    assert [effect for effect in synced if isinstance(effect, SendAck)] == [SendAck(OWN, Ack(1, 1, 1))]
    assert driven.core.durable(OWN) == 1


def test_what_was_not_written_of_a_lane_that_fails_is_not_of_it() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    driven.append(Q + 1)
    driven.core.step_any(Synced(OWN, 1))
    effects = driven.apply(FailLane(OWN))
    errors = [effect.error for effect in effects if isinstance(effect, Refuse)]
    assert [type(error) for error in errors] == [WrongLane, WrongLane]
    assert [effect for effect in effects if isinstance(effect, Truncate)] == [Truncate(OWN, 0)]
    assert driven.core.placing_lane is None


def test_what_waits_for_slots_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "UNPLACED_BATCHES_MAX", 1)
    driven = Driven()
    driven.fix()
    driven.append(Q + 1)
    (refused,) = driven.append()
    assert isinstance(refused, Refuse)
    assert isinstance(refused.error, Overloaded)


def test_cuts_are_passed_by_the_clock_only_while_somebody_speculates() -> None:
    driven = Driven()
    driven.fix()
    assert driven.core.deadline_us is None
    driven.core.step_any(Tick(1))
    for _ in range(limits.PASSED_OUTSTANDING_MAX + 1):
        driven.append()
        driven.core.step_any(TurnEnded())
    assert driven.core.deadline_us is None
    driven.core.step_any(SpeculatorsAre(1))
    assert driven.core.deadline_us is not None
    driven.core.step_any(Tick(2))
    told = driven.core.step_any(Tick(2 + int(limits.CUT_NOMINAL_S * 1e6)))
    assert [effect.report.passed for effect in told if isinstance(effect, SendLaneReport)] == [3]
    assert driven.core.deadline_us is None
    asked = driven.core.step_any(PassAsked(OWN, 4))
    assert [effect.report.passed for effect in asked if isinstance(effect, SendLaneReport)] == [4]
    assert driven.core.step_any(PassAsked(LaneId(0, 1, 1), 9)) == []


def test_a_lane_that_opens_for_this_start_becomes_its_own() -> None:
    driven = Driven(replica=1)
    assert driven.core.own_lane is None
    driven.order.apply(FailLane(OWN))
    for outcome in driven.order.apply(OpenLane(0, 1, 1)):
        news = news_of(outcome, 0)
        if news is not None:
            driven.core.step_any(news)  # type: ignore[arg-type]
    assert driven.core.own_lane == LaneId(0, 1, 1)


def test_a_replica_whose_lane_failed_unheard_goes_on_as_its_next_boot_and_gets_another() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    driven.append(Q + 1)
    driven.core.step_any(Synced(OWN, 1))
    driven.core.step_any(OrderLost())
    driven.order.apply(FailLane(OWN))
    refused = driven.core.step_any(StartedAgain(2))
    assert len([effect for effect in refused if isinstance(effect, Refuse)]) == 2
    summary = driven.order.state.summary(0)
    assert summary is not None
    joined = driven.core.step_any(OrderJoined(CONFIGURATION.log, None, summary, ()))
    assert [effect for effect in joined if isinstance(effect, Truncate)] == [Truncate(OWN, 0)]
    for outcome in driven.order.apply(OpenLane(0, 0, 2)):
        news = news_of(outcome, 0)
        if news is not None:
            driven.core.step_any(news)  # type: ignore[arg-type]
    second = LaneId(0, 0, 2)
    assert driven.core.own_lane == second
    slots = lane_slots(driven.order.state, second)
    assert slots is not None
    driven.core.step_any(SlotsTold(slots))
    assert driven.core.placing_lane == second


def test_a_replica_whose_lane_was_trimmed_whole_unheard_writes_the_next_one() -> None:
    driven = Driven()
    driven.fix()
    driven.append()
    driven.core.step_any(Synced(OWN, 1))
    driven.core.step_any(OrderLost())
    driven.order.apply(FailLane(OWN))
    summary = driven.order.state.summary(0)
    assert summary is not None
    gone = replace(summary, lengths=tuple(each for each in summary.lengths if each[0] != OWN))
    driven.core.step_any(OrderJoined(CONFIGURATION.log, None, gone, ()))
    assert driven.core.lanes() == []
    driven.core.step_any(OrderLost())
    driven.core.step_any(StartedAgain(2))
    driven.order.apply(OpenLane(0, 0, 2))
    second, opened = LaneId(0, 0, 2), driven.order.state.summary(0)
    assert opened is not None
    listed = replace(opened, lengths=tuple(each for each in opened.lengths if each[0] != OWN))
    driven._make(driven.core.step_any(OrderJoined(CONFIGURATION.log, second, listed, ())))
    slots = lane_slots(driven.order.state, second)
    assert slots is not None
    driven.core.step_any(SlotsTold(slots))
    assert driven.core.placing_lane == second
