"""The order's time: it moves with time itself, whatever single clocks say, and only ever ahead."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.engines.scalog.ordering.clock import OrderClock
from ithaca.model.limits import CLOCK_HEARD_S, CLOCK_LOOK_US, CLOCK_SLEW_PERCENT

S = 1_000_000
HOUR, YEAR = 3600 * S, 365 * 86_400 * S
EPOCH = 1_700_000_000 * S
VOTERS = (1, 2, 3)


def new_clock() -> OrderClock:
    """Of server 1, which has applied all that there was before."""
    clock = OrderClock(1)
    clock.begin()
    clock.caught_up()
    return clock


def clock_that_leads(*, now_us: int = 0, walls: tuple[int, int] = (EPOCH, EPOCH)) -> OrderClock:
    """The same, with the clocks of the others."""
    clock = new_clock()
    for server, wall_us in zip((2, 3), walls, strict=True):
        clock.heard(server, wall_us, 0, now_us, leads=False)
    return clock


def test_the_first_time_of_all_is_what_a_majority_has_reached() -> None:
    assert clock_that_leads(walls=(EPOCH, EPOCH + 5 * S)).lead(EPOCH + YEAR, VOTERS, 0) == EPOCH + 5 * S
    assert clock_that_leads(walls=(EPOCH, EPOCH - YEAR)).lead(EPOCH + YEAR, VOTERS, 0) == EPOCH
    assert new_clock().lead(EPOCH, (1,), 0) == EPOCH


def test_nothing_leaps_while_too_few_clocks_are_heard_of() -> None:
    clock = new_clock()
    clock.applied(EPOCH, 0)
    assert clock.lead(EPOCH + YEAR, VOTERS, S) == EPOCH + S
    clock.heard(2, EPOCH + HOUR, 0, 2 * S, leads=False)
    assert clock.lead(EPOCH + YEAR, VOTERS, 2 * S) == EPOCH + HOUR, "a majority is enough, once"
    clock.heard(3, EPOCH + YEAR, 0, 3 * S, leads=False)
    assert clock.lead(EPOCH + YEAR, VOTERS, 3 * S) == EPOCH + HOUR + S + S * CLOCK_SLEW_PERCENT // 100


def test_nothing_leaps_before_all_that_was_ordered_is_applied() -> None:
    clock = new_clock()
    clock.begin()
    assert clock.lead(EPOCH + YEAR, (1,), S) == S
    clock.applied(EPOCH, 2 * S)
    assert clock.read(3 * S) == EPOCH + S, "the time beyond doubt"
    clock.caught_up()
    assert clock.lead(EPOCH + YEAR, (1,), 3 * S) == EPOCH + YEAR


@pytest.mark.parametrize("jump_us", [25 * HOUR, YEAR, -25 * HOUR, -YEAR])
def test_the_leaders_own_clock_moves_nothing(jump_us: int) -> None:
    clock = clock_that_leads()
    clock.lead(EPOCH, VOTERS, 0)
    for server in (2, 3):
        clock.heard(server, EPOCH + S, 0, S, leads=False)
    assert clock.lead(EPOCH + S + jump_us, VOTERS, S) == EPOCH + S


def test_all_clocks_together_move_it_by_a_bounded_rate() -> None:
    clock = new_clock()
    assert clock.lead(EPOCH, (1,), 0) == EPOCH
    assert clock.lead(EPOCH + 25 * HOUR, (1,), 10 * S) == EPOCH + 11 * S
    assert clock.lead(EPOCH + 20 * S, (1,), 20 * S) == EPOCH + 20 * S, "and back, no further than it was ahead"
    assert clock.lead(EPOCH - YEAR, (1,), 30 * S) == EPOCH + 29 * S


def test_a_time_that_is_a_year_ahead_goes_on_as_time_does() -> None:
    clock = clock_that_leads()
    clock.applied(EPOCH + YEAR, 0)
    before_us = clock.lead(EPOCH, VOTERS, 0)
    assert before_us == EPOCH + YEAR
    assert clock.lead(EPOCH, VOTERS, 10 * S) - before_us == 9 * S


def test_a_new_leader_goes_on_from_what_it_was_told() -> None:
    clock = clock_that_leads(walls=(EPOCH + YEAR, EPOCH + YEAR))
    clock.applied(EPOCH, 0)
    clock.heard(2, EPOCH + YEAR, EPOCH + 7 * S, S, leads=True)
    assert clock.read(3 * S) == EPOCH + 9 * S
    told_us = clock.lead(EPOCH + YEAR, VOTERS, 3 * S)
    assert EPOCH + 9 * S <= told_us < EPOCH + 10 * S, "most clocks are a year ahead, and somebody knew better"


def test_a_new_leader_says_no_time_before_what_is_ordered() -> None:
    clock = clock_that_leads()
    clock.heard(2, EPOCH, EPOCH + HOUR, 0, leads=True)
    clock.applied(EPOCH + HOUR + 2 * S - 1, 2 * S)
    assert clock.lead(EPOCH, VOTERS, 2 * S) == EPOCH + HOUR + 2 * S - 1, "not slewed for the time before it led"


def test_only_the_leader_corrects_who_knows_the_time() -> None:
    clock = new_clock()
    clock.heard(2, EPOCH, EPOCH, 0, leads=True)
    clock.heard(3, EPOCH, EPOCH + YEAR, 0, leads=False)
    assert clock.read(0) == EPOCH
    clock.heard(2, EPOCH, EPOCH - S, 0, leads=True)
    assert clock.read(0) == EPOCH - S
    clock.applied(EPOCH + 5 * S, 0)
    clock.heard(2, EPOCH, EPOCH, 0, leads=True)
    assert clock.read(0) == EPOCH + 5 * S, "a late message takes back nothing that was ordered"


def test_a_clock_that_is_silent_counts_no_more() -> None:
    clock = clock_that_leads()
    silent_us = int(CLOCK_HEARD_S * S)
    assert clock.agreed_us(EPOCH + silent_us, VOTERS, silent_us) == EPOCH + silent_us
    assert clock.agreed_us(EPOCH, VOTERS, silent_us + 1) is None
    assert clock.agreed_us(EPOCH, (1, 4, 5), 0) is None, "those of others do not count"


_LOOKS = st.lists(st.tuples(st.integers(0, 100 * S), st.integers(-2 * YEAR, 2 * YEAR)), min_size=1, max_size=20)


@given(_LOOKS, st.integers(0, 2 * YEAR), st.integers(1, 5))
def test_it_never_falls_and_always_passes(looks: list[tuple[int, int]], applied_us: int, voters: int) -> None:
    clock, now_us = new_clock(), 0
    clock.applied(applied_us, 0)
    before_us = clock.lead(EPOCH, (1,), 0)
    for elapsed_us, jump_us in looks:
        now_us += elapsed_us
        for server in range(2, voters + 1):
            clock.heard(server, EPOCH + jump_us // server, EPOCH, now_us, leads=False)
        time_us = clock.lead(EPOCH + jump_us, range(1, voters + 1), now_us)
        slew_us = (elapsed_us + CLOCK_LOOK_US) * CLOCK_SLEW_PERCENT // 100
        assert elapsed_us - slew_us <= time_us - before_us <= elapsed_us + slew_us
        before_us = time_us


def test_clocks_are_looked_at_again_only_after_a_while() -> None:
    """Else many calls would each be rounded, and cost a look at all clocks."""
    clock = clock_that_leads(now_us=HOUR)
    assert clock.lead(EPOCH, VOTERS, HOUR) == EPOCH
    for server in (2, 3):
        clock.heard(server, EPOCH + YEAR, 0, HOUR, leads=False)
    soon = CLOCK_LOOK_US - 1
    assert clock.lead(EPOCH, VOTERS, HOUR + soon) == EPOCH + soon
    later = 1000 * CLOCK_LOOK_US
    assert clock.lead(EPOCH, VOTERS, HOUR + later) == EPOCH + later + later * CLOCK_SLEW_PERCENT // 100
