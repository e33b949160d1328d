"""Where a subscription from a time on may begin."""

import pytest

from ithaca.sim.rules.order_times import OrderTimes


@pytest.fixture
def times() -> OrderTimes:
    """Positions 1 to 4 at 100, 5 to 9 at 200."""
    times = OrderTimes()
    assert times.add(5, 100, 1) is None
    assert times.add(10, 200, 1) is None
    return times


@pytest.mark.parametrize(("time_us", "start"), [(0, 1), (100, 1), (101, 5), (200, 5), (201, 10)])
def test_the_first_position_then_or_later(times: OrderTimes, time_us: int, start: int) -> None:
    assert times.first_at(time_us) == start
    assert times.problem(time_us, start, 10, 1) is None
    assert times.problem(time_us, start + 1, 10, 1) is not None


@pytest.mark.parametrize(("position", "time_us"), [(1, 100), (4, 100), (5, 200), (9, 200)])
def test_the_time_of_a_position(times: OrderTimes, position: int, time_us: int) -> None:
    assert times.time_of(position) == time_us


def test_what_came_meanwhile_may_be_earlier(times: OrderTimes) -> None:
    """It was asked for when the tail was 5, and was to begin with the next; what came was still from before."""
    assert times.problem(300, 5, 5, 1) is None
    assert times.problem(300, 4, 5, 1) is not None


def test_a_trim_moves_the_start(times: OrderTimes) -> None:
    assert times.problem(50, 7, 10, 7) is None
    assert times.problem(50, 7, 10, 6) is not None


def test_time_never_falls(times: OrderTimes) -> None:
    assert times.add(9, 1, 1) is None  # known already
    assert times.add(11, 199, 1) is not None
