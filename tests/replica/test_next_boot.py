"""A replica whose lane was closed while it lives goes on as its next boot: with what it holds, and no batch twice."""

from tests.ordering.building import CONFIGURATION
from tests.replica.driving import SHARD, Driven, joined, one, only

from ithaca.engines.scalog.ordering.entries import CloseLane, MoveSession, OpenLane
from ithaca.engines.scalog.ordering.outcomes import SessionMoved
from ithaca.engines.scalog.replica.events import (
    Acknowledge,
    OrderJoined,
    OrderLost,
    Refuse,
    Rejoin,
    SendReport,
    StartedAgain,
    Synced,
    Tick,
    Truncate,
    Truncated,
    Write,
)
from ithaca.model.errors import WrongLane
from ithaca.model.limits import LANE_ASK_S
from ithaca.model.positions import LaneId


def join_without_lane(driven: Driven) -> None:
    summary = driven.order.state.summary(SHARD)
    assert summary is not None
    driven.step(OrderJoined(CONFIGURATION.log, None, summary, ()))


def closed(driven: Driven) -> LaneId:
    """Close the own lane, of which one record is ordered and one is not; both belong to one session."""
    lane = driven.own
    effects = driven.apply(CloseLane(lane))
    assert isinstance(one(Refuse, effects).error, WrongLane)
    assert one(Rejoin, effects).reason == "its lane was closed"
    if only(Truncate, effects):
        driven.step(Truncated(lane))
    driven.step(OrderLost())
    return lane


def test_it_accepts_in_its_new_lane_what_was_not_ordered_in_the_former_one() -> None:
    driven = joined()
    session = driven.session()
    driven.append(session, 1)
    driven.append(session, 2)
    driven.step(Synced(driven.own, 2))
    driven.cut({driven.own: 1})
    former = closed(driven)
    assert driven.core.has_every_batch(former)
    driven.boot = 2
    driven.step(StartedAgain(2))
    effects = driven.joined()
    assert driven.own == former._replace(incarnation=2)
    assert {each.report.boot for each in only(SendReport, effects)} == {2}
    moved = driven.order.apply(MoveSession(session.producer_id, session.epoch, former, driven.own))
    driven.tell(moved)
    assert isinstance(moved[0], SessionMoved)
    again = driven.append(moved[0].session, 1)  # nothing was carried, so this is the first that is known here
    assert one(Write, again).lane == driven.own
    driven.step(Synced(driven.own, 1))
    assert one(Acknowledge, driven.cut({driven.own: 1})).position == 2


def test_without_a_lane_it_serves_refuses_appends_and_asks_again() -> None:
    driven = joined()
    driven.append()
    closed(driven)
    join_without_lane(driven)
    assert driven.core.state == "serving"
    assert isinstance(one(Refuse, driven.append()).error, WrongLane)
    driven.step(Tick(1))
    driven.step(Tick(2))
    assert driven.core.deadline_us is not None
    assert one(Rejoin, driven.step(Tick(3 + int(LANE_ASK_S * 1e6)))).reason == "it has no lane, and asks again"


def test_it_joins_again_when_another_of_its_shard_has_got_a_lane() -> None:
    driven = joined()
    driven.append()
    closed(driven)
    driven.order.apply(CloseLane(driven.peer))
    join_without_lane(driven)
    effects = driven.apply(OpenLane(SHARD, 1, 2))
    assert one(Rejoin, effects).reason == "others of its shard have got lanes, and it has none"
