"""What entries do to the order of slots (invariants 1 to 7)."""

import msgspec
from tests.belfast.orders import FIRST, SECOND, THIRD, Orders, is_void

from ithaca.engines.belfast.speculation.entries import CutRange, EndFree, FailLane, OpenWindow, TakeLane
from ithaca.engines.belfast.speculation.order import SlotOrder
from ithaca.engines.belfast.speculation.outcomes import (
    FreeBegun,
    FreeOrdered,
    LaneEnded,
    PublicationOrdered,
    PublicationReserved,
    SlotOutcome,
    SlotsOrdered,
    SpeculationFailed,
    VoidEntry,
    WindowOpened,
)
from ithaca.engines.belfast.speculation.packed import PackedSlots
from ithaca.model.cut import LaneRun


def told(outcome: SlotOutcome) -> tuple[int, int, tuple[LaneRun, ...]]:
    assert isinstance(outcome, SlotsOrdered)
    return outcome.cut, outcome.tail, outcome.lane_runs()


def test_a_cut_gives_the_predicted_positions() -> None:
    orders = Orders(FIRST, SECOND)
    (opened,) = orders.begin(FIRST, SECOND)
    assert isinstance(opened, WindowOpened)
    share = opened.window.share(SECOND)
    assert share is not None
    (first, second) = orders.apply(orders.cuts(2, (0, {SECOND: 2}), (1, {FIRST: 1, SECOND: 3})))
    assert told(first) == (0, 5, (LaneRun(SECOND, 0, share.start(0), 2),))
    assert told(second) == (1, 9, (LaneRun(FIRST, 0, 5, 1), LaneRun(SECOND, 2, share.start(1), 1)))
    assert (orders.order.tail, orders.order.cut) == (9, 2)


def test_empty_cuts_are_ordered_with_the_others() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=5)
    outcomes = orders.apply(orders.cuts(4, (1, {FIRST: 2})))
    assert list(map(told, outcomes)) == [(1, 9, (LaneRun(FIRST, 0, 5, 2),)), (3, 17, ())]


def test_a_cut_that_says_more_than_slots_is_void() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST)
    for used in ({FIRST: 3}, {SECOND: 1}, {THIRD: 1}):
        assert is_void(orders.apply(orders.cuts(1, (0, used))))
    assert is_void(orders.apply(CutRange(1, 1, 2)))
    assert is_void(orders.apply(CutRange(1, 0, 3)))
    assert is_void(orders.apply(CutRange(2, 0, 1)))
    assert orders.order.cut == 0


def test_a_window_begins_where_the_order_ends() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    assert not is_void(orders.apply(orders.next_window(FIRST)))
    for wrong in (
        OpenWindow(3, 8, 1, 1, (1,), (FIRST,), 1),
        OpenWindow(4, 9, 1, 1, (1,), (FIRST,), 1),
        OpenWindow(3, 9, 1, 1, (1,), (FIRST,), 2),
        OpenWindow(3, 9, 1, 1, (1,), (SECOND,), 1),
    ):
        assert is_void(orders.apply(wrong))


def test_no_window_while_lanes_have_more_than_is_ordered_of_the_free_one() -> None:
    orders = Orders(FIRST)
    assert is_void(orders.apply(OpenWindow(1, 0, 1, 1, (1,), (FIRST,), 1)))
    orders.apply(EndFree(0, 1))
    assert is_void(orders.apply(OpenWindow(1, 0, 1, 1, (1,), (FIRST,), 1, ((FIRST, 5),))))
    orders.lanes.open(SECOND, 0)
    assert is_void(orders.apply(OpenWindow(1, 0, 1, 1, (1,), (FIRST,), 1, ((FIRST, 0),))))
    lengths = ((FIRST, 0), (SECOND, 0))
    assert not is_void(orders.apply(OpenWindow(1, 0, 1, 1, (1,), (FIRST, SECOND), 1, lengths)))
    assert is_void(orders.apply(EndFree(1, 1)))


def test_a_free_window_begins_when_all_before_it_is_ordered() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    assert orders.apply(orders.next_window()) == [FreeOrdered(2, 5)]
    assert is_void(orders.apply(orders.next_window(FIRST)))
    assert is_void(orders.apply(EndFree(2, 1)))
    assert orders.apply(orders.cuts(2))[-1] == FreeBegun(2)
    assert orders.order.mode == "free"
    orders.order.free_ordered(12)
    assert is_void(orders.apply(orders.cuts(3)))
    assert not is_void(orders.apply(EndFree(2, 1)))
    (opened,) = orders.apply(OpenWindow(3, 0, 1, 1, (1,), (FIRST,), 1, ((FIRST, 0),)))
    assert isinstance(opened, WindowOpened)
    assert (opened.window.base, opened.window.first_cut) == (12, 2)


def test_a_publication_waits_for_the_windows_before_it() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    assert orders.order.reserve(3) == [PublicationReserved(5, 3)]
    orders.apply(orders.next_window(FIRST))
    assert orders.order.windows[-1].base == 8
    outcomes = orders.apply(orders.cuts(3, (2, {FIRST: 1})))
    before, published, behind = outcomes
    assert told(before) == (1, 5, ())
    assert published == PublicationOrdered(5, 3)
    assert told(behind) == (2, 10, (LaneRun(FIRST, 0, 8, 1),))
    orders.apply(orders.cuts(4))
    assert orders.order.reserve(2) == [PublicationReserved(12, 2), PublicationOrdered(12, 2)]


def test_a_lane_that_fails_raises_the_attempt() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND, rounds=3)
    orders.apply(orders.cuts(1, (0, {FIRST: 1, SECOND: 2})))
    late = orders.cuts(2, (1, {SECOND: 3}))
    ended, failed = orders.apply(FailLane(FIRST))
    assert ended == LaneEnded(FIRST, 1, 2, 13)
    assert failed == SpeculationFailed(FIRST, 4, 2)
    assert is_void(orders.apply(late))
    assert is_void(orders.apply(FailLane(FIRST)))
    assert not is_void(orders.apply(orders.cuts(2, (1, {SECOND: 3}))))
    assert orders.order.ended == {FIRST: ended}
    orders.apply(orders.cuts(3))
    assert orders.order.ended == {}


def test_a_lane_is_taken_only_where_it_is_ordered() -> None:
    orders = Orders(FIRST)
    orders.begin(FIRST)
    assert is_void(orders.apply(TakeLane(FIRST, 1)))
    orders.apply(orders.cuts(1, (0, {FIRST: 1})))
    assert orders.order.has_open_lane(0)
    assert orders.apply(TakeLane(FIRST, 1)) == [LaneEnded(FIRST, 1, 2, 5)]
    assert not orders.order.has_open_lane(0)
    assert orders.lanes.closed[FIRST].end == 5
    assert is_void(orders.apply(orders.next_window(FIRST)))
    assert orders.order.attempt == 1


def test_equal_states_have_equal_snapshots() -> None:
    orders = Orders(FIRST, SECOND)
    orders.begin(FIRST, SECOND)
    orders.apply(orders.cuts(1, (0, {FIRST: 1})))
    orders.order.reserve(3)
    orders.apply(orders.next_window(FIRST))
    orders.apply(FailLane(SECOND))
    data = msgspec.msgpack.encode(orders.order.packed())
    restored = SlotOrder.restored(msgspec.msgpack.decode(data, type=PackedSlots), orders.lanes)
    assert msgspec.msgpack.encode(restored.packed()) == data
    assert not is_void(restored.apply(orders.cuts(2)))
    assert restored.tail == 12


def test_what_is_void_says_why() -> None:
    orders = Orders(FIRST)
    entry = EndFree(7, 1)
    assert orders.apply(entry) == [VoidEntry(entry, "another window")]
