"""What a speculator says, in which order (invariants 9 and 10)."""

from tests.belfast.orders import FIRST, SECOND

from ithaca.engines.belfast.speculation.delivery import Speculator
from ithaca.engines.belfast.speculation.delivery_events import (
    AttemptFailed,
    Confirmed,
    Delivered,
    Failed,
    FetchWindow,
    LaneEnds,
    LaneRecords,
    LaneWatermark,
    OrderedRange,
    OrderedRecords,
    OrderedWatermark,
    OrderReached,
    WindowFetched,
)
from ithaca.engines.belfast.speculation.windows import Layout, Window

WINDOW = Window(1, 1, 3, Layout(1, (FIRST, SECOND), (2,)), 1, 0)
"""Slots 1 and 2 are of the first lane, 3 and 4 of the second, and so on to 12."""


def speculator(start: int = 1) -> Speculator:
    core = Speculator(start)
    assert core.step(LaneWatermark(FIRST, 1)) == [FetchWindow(start)]
    core.step(WindowFetched(WINDOW))
    return core


def test_records_come_by_position_and_wait_for_the_owners_of_slots_alone() -> None:
    core = speculator()
    assert core.step(LaneRecords(SECOND, 3, 1, "b")) == []
    assert core.waits_for() == FIRST
    assert core.step(LaneRecords(FIRST, 1, 1, "a")) == [Delivered(1, 1, "a", 1)]
    assert core.step(LaneWatermark(FIRST, 5)) == [Delivered(3, 1, "b", 1)]
    assert core.waits_for() == SECOND
    assert core.step(LaneWatermark(SECOND, 11)) == []
    assert core.waits_for() == FIRST


def test_what_is_ordered_need_not_be_read_while_all_lanes_send_what_comes_next() -> None:
    core = speculator()
    assert not core.goes_by_streams({FIRST: 0}), "nobody sends what the second lane has"
    assert not core.goes_by_streams({FIRST: 0, SECOND: 3}), "it has forgotten what was there when the merge came by"
    assert core.goes_by_streams({FIRST: 0, SECOND: 1})
    core.step(LaneWatermark(FIRST, 13))
    core.step(LaneWatermark(SECOND, 13))
    assert core.position == 13
    assert not core.goes_by_streams({FIRST: 0, SECOND: 1}), "no window is known from here on"


def test_a_merge_is_behind_while_more_is_ordered_than_was_delivered() -> None:
    core = speculator()
    assert not core.is_behind
    core.step(OrderReached(3, 1))
    assert core.is_behind
    core.step(LaneRecords(FIRST, 1, 2, "a"))
    assert not core.is_behind


def test_nothing_is_confirmed_before_it_is_delivered() -> None:
    core = speculator()
    assert core.step(OrderReached(5, 1)) == []
    assert core.step(LaneRecords(FIRST, 1, 2, "a")) == [Delivered(1, 2, "a", 1), Confirmed(2, 1)]
    core.step(LaneRecords(SECOND, 3, 1, "b"))
    assert core.step(LaneWatermark(SECOND, 7)) == [Confirmed(4, 1)]


def test_empty_positions_are_confirmed_too() -> None:
    core = speculator()
    core.step(LaneWatermark(FIRST, 5))
    core.step(LaneWatermark(SECOND, 7))
    assert core.position == 5
    assert core.step(OrderReached(5, 1)) == [Confirmed(4, 1)]


def test_failed_comes_first_and_the_rest_again() -> None:
    core = speculator()
    for lane, position in ((FIRST, 1), (SECOND, 3), (FIRST, 5)):
        core.step(LaneRecords(lane, position, 2, position))
    core.step(LaneRecords(SECOND, 7, 1, 7))
    assert core.position == 8
    effects = core.step(AttemptFailed(FIRST, 4, 2))
    assert effects == [Confirmed(4, 1), Failed(4, 2)]
    assert core.held == 1
    # What the failed lane still sends is refused; the other one's keeps its place, and counts again.
    assert core.step(LaneRecords(FIRST, 5, 2, 5)) == []
    assert core.step(LaneEnds(FIRST, 3, 13)) == [Delivered(7, 1, 7, 2)]
    assert core.step(OrderReached(13, 2)) == [Confirmed(7, 2)]


def test_a_failure_waits_for_what_is_ordered_before_it() -> None:
    core = speculator()
    core.step(LaneRecords(SECOND, 3, 2, "b"))
    assert core.step(AttemptFailed(SECOND, 4, 2)) == []
    assert core.step(LaneRecords(FIRST, 1, 2, "a"))[:1] == [Delivered(1, 2, "a", 1)]
    assert core.attempt == 2


def test_a_later_attempt_waits_for_the_failure_before_it() -> None:
    core = speculator()
    assert core.step(AttemptFailed(SECOND, 8, 3)) == []
    assert core.step(LaneRecords(FIRST, 1, 2, "a")) == []
    assert core.step(OrderReached(13, 3)) == []
    effects = core.step(AttemptFailed(FIRST, 0, 2))
    assert effects == [Failed(0, 2)]
    assert core.step(OrderReached(13, 2)) == []


def test_a_closed_lane_is_passed_once_its_records_are_here() -> None:
    core = speculator()
    assert core.step(LaneEnds(FIRST, 2, 13)) == []
    assert core.waits_for() == FIRST
    core.step(LaneRecords(FIRST, 1, 1, "a"))
    core.step(LaneWatermark(FIRST, 2))
    assert core.waits_for() == SECOND
    core.step(LaneWatermark(SECOND, 13))
    assert core.position == 13


def test_publications_are_delivered_when_they_are_ordered() -> None:
    core = Speculator(13)
    assert core.step(OrderedRange(13, 16)) == []
    assert core.step(OrderedRecords(13, 3, "p")) == [Delivered(13, 3, "p", 1), FetchWindow(16)]
    assert core.step(OrderReached(16, 1)) == [Confirmed(15, 1)]


def test_a_start_inside_a_batch_skips_what_is_before_it() -> None:
    core = speculator(2)
    assert core.step(LaneRecords(FIRST, 1, 2, "a")) == [Delivered(1, 2, "a", 1, 1)]


def test_what_was_delivered_is_not_delivered_again() -> None:
    core = speculator()
    core.step(LaneRecords(FIRST, 1, 2, "a"))
    assert core.step(LaneRecords(FIRST, 1, 2, "a")) == []
    core.step(OrderReached(3, 1))
    assert core.step(LaneRecords(FIRST, 1, 2, "a")) == []
    assert core.held == 0


def test_what_is_closed_and_confirmed_is_forgotten_and_stays_so() -> None:
    """A log whose lanes come and go for years: a speculator knows those that have slots ahead."""
    core = Speculator()
    lane = FIRST
    for number in range(50):
        base, lane = 1 + 4 * number, lane._replace(incarnation=1 + number)
        core.step(WindowFetched(Window(1 + number, base, 1, Layout(1, (lane,), (4,)), 1 + number, number)))
        core.step(LaneRecords(lane, base, 2, "kept"))
        core.step(LaneRecords(lane, base + 2, 1, "failed"))
        assert core.held == 3
        core.step(OrderReached(base + 2, 1 + number))
        assert core.held == 1
        core.step(AttemptFailed(lane, base + 1, 2 + number))
        assert core.held == 0
        core.step(LaneEnds(lane, base + 2, base + 4))
        core.step(OrderReached(base + 4, 2 + number))
        assert core.position == base + 4
        for late in (LaneRecords(lane, base + 2, 1, "failed"), LaneWatermark(lane, base + 4), LaneEnds(lane, 1, 4)):
            core.step(late)
        assert core.held == len(core._lanes) == 0


def test_a_lane_that_was_forgotten_may_fail_later() -> None:
    core = Speculator()
    core.step(WindowFetched(Window(1, 1, 1, Layout(1, (FIRST, SECOND), (2,)), 1, 0)))
    core.step(LaneEnds(FIRST, 0, 5))
    core.step(LaneRecords(SECOND, 3, 2, "b"))
    core.step(OrderReached(5, 1))
    assert set(core._lanes) == {SECOND}
    assert core.step(AttemptFailed(FIRST, 4, 2)) == [Failed(4, 2)]
    assert set(core._lanes) == {SECOND}


def test_what_is_ordered_and_was_read_makes_up_for_streams() -> None:
    core = speculator()
    assert core.step(OrderReached(13, 1)) == []
    assert core.step(OrderedRecords(2, 1, "b")) == []
    assert core.step(OrderedWatermark(6)) == [Delivered(2, 1, "b", 1), Confirmed(5, 1)]
    assert core.step(LaneRecords(FIRST, 2, 1, "b")) == []
    assert core.position == 6
    # A failure behind it takes nothing of that back.
    core.step(LaneRecords(FIRST, 6, 1, "f"))
    assert core.step(AttemptFailed(FIRST, 12, 2)) == []
    assert core.step(OrderedWatermark(13))[:2] == [Confirmed(12, 1), Failed(12, 2)]
