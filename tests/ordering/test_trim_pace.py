"""How fast retention trims by age: steadily at once; after a step of the clock, or much at once, later and in steps."""

import pytest

from ithaca.model.limits import RETENTION_STEPS, RETENTION_WAIT_S
from ithaca.model.trim_pace import TrimPace

S = 1_000_000
DAY = 86_400 * S
EPOCH = 1_700_000_000 * S
WAIT = int(RETENTION_WAIT_S * S)
LOOK = 5 * S


class Log:
    """One record each second, from a time on, and a pace that trims it."""

    def __init__(self, seconds: int, age_us: int = DAY, *, is_known: bool = True, percent: int = 10) -> None:
        """It is `seconds` old; `is_known`: retention has looked after it all the time."""
        self.first, self.seconds, self.now_us, self.offset_us = 0, seconds, 0, 0
        self.pace = TrimPace(age_us, None if is_known else EPOCH + seconds * S, 0, large_percent=percent)
        if is_known:
            self.look(0)

    def look(self, elapsed_us: int = LOOK) -> int:
        """Let time pass, look, and say how much went."""
        self.now_us += elapsed_us
        true_us = EPOCH + self.seconds * S + self.now_us
        cutoffs = self.pace.look(true_us + self.offset_us, self.now_us)
        tail = self._at(true_us)
        calm, wanted = (min(tail, max(self.first, self._at(time_us))) for time_us in cutoffs)
        before = self.pace.decide(cutoffs, calm, wanted, self.first, tail)
        gone, self.first = before - self.first, before
        return gone

    def _at(self, time_us: int) -> int:
        return -((EPOCH - time_us) // S)


def test_what_grows_old_goes_as_it_does() -> None:
    log = Log(86_400)
    assert [log.look() for _ in range(5)] == [5] * 5
    assert log.look(3600 * S) == 3600, "nobody looked for an hour"
    assert log.pace.announced is None


@pytest.mark.parametrize("ahead_us", [25 * 3600 * S, 365 * DAY, 3600 * S])
def test_a_clock_that_is_ahead_for_a_moment_trims_nothing(ahead_us: int) -> None:
    log = Log(86_400)
    log.look()
    log.offset_us = ahead_us
    assert log.look() == 6, "what grew old meanwhile, and no more than the slew"
    assert log.pace.announced is not None
    assert log.pace.announced.positions >= 3600
    log.offset_us = 0
    assert log.look() == 4
    assert log.pace.announced is None


def test_what_was_announced_goes_in_steps_if_the_clock_goes_on_so() -> None:
    log = Log(86_400)
    log.offset_us = 6 * 3600 * S
    log.look()
    assert log.look(WAIT - LOOK) < 100
    steps = [log.look() for _ in range(RETENTION_STEPS + 1)]
    assert sum(steps) == pytest.approx(6 * 3600, rel=0.02)
    assert max(steps) <= 6 * 3600 / RETENTION_STEPS * 1.1
    assert log.pace.announced is None
    assert log.look() == 5


@pytest.mark.parametrize("further_us", [3600 * S, -3600 * S])
def test_a_clock_that_is_set_again_meanwhile_begins_again(further_us: int) -> None:
    log = Log(86_400)
    log.offset_us = 6 * 3600 * S
    log.look()
    log.look(WAIT - LOOK)
    log.offset_us += further_us
    assert log.look() < 100
    assert log.look(WAIT - LOOK) < 100, "the wait has begun again"
    assert log.look() > 1000


def test_a_clock_that_is_set_back_and_forth_is_a_step_as_well() -> None:
    log = Log(86_400)
    log.look()
    log.offset_us = -DAY
    assert log.look() == 0
    log.offset_us = 0
    assert log.look() == 0
    assert log.pace.announced is not None


def test_much_at_once_is_announced_by_who_begins_to_look() -> None:
    log = Log(10 * 86_400, is_known=False)
    assert log.look() == 0
    assert log.pace.announced is not None
    assert log.pace.announced.positions == 9 * 86_400 + 5
    log.look(WAIT)
    steps = [log.look() for _ in range(RETENTION_STEPS - 1)]
    assert log.first == pytest.approx(9 * 86_400, rel=0.01)
    assert max(steps) <= 9 * 86_400 / RETENTION_STEPS * 1.1


def test_a_little_at_once_goes_at_once() -> None:
    log = Log(int(1.05 * 86_400), is_known=False)
    assert log.look() == 0.05 * 86_400 + 5
    log = Log(int(1.3 * 86_400), is_known=False, percent=50)
    assert log.look() == int(1.3 * 86_400) - 86_400 + 5


def test_a_clock_that_was_read_late_is_no_step() -> None:
    log = Log(10, age_us=1)
    for late_us in (0, 300_000, 0, 500_000):
        log.offset_us = late_us
        log.look()
        assert log.pace.announced is None
    assert log.first >= 15


def test_a_leader_that_begins_trims_nothing_at_once_in_a_cluster() -> None:
    """The order's time, which it trusts, may be ahead because the clock of the one before was: however little is too
    old by it has to wait, or a leader that starts again and again would trim a little each time."""
    log = Log(86_400 + 60, is_known=False, percent=0)
    assert log.look() == 0
    assert log.pace.announced is not None
    assert not log.pace.announced.is_stepped
    assert log.look(WAIT - LOOK) == 0
    assert sum(log.look() for _ in range(RETENTION_STEPS)) == pytest.approx(60 + RETENTION_WAIT_S, abs=60)
    assert log.pace.announced is None
