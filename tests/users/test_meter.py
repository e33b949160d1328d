"""What a user may use of one server: rates and bytes in flight against a clock of the test's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ithaca.model.errors import Overloaded
from ithaca.model.security.users import UserLimits
from ithaca.server.users.metering import Meter


def limited(limits: UserLimits) -> Meter:
    meter = Meter("alice")
    meter.limit(limits, 0.0)
    return meter


def test_bytes_of_both_directions_are_owed_and_waited_for() -> None:
    meter = limited(UserLimits(bytes_per_s=100))
    meter.request(150, 0.0)
    meter.sent(100, 0.0)
    assert meter.wait_s(0.0) == pytest.approx(1.5)
    with pytest.raises(Overloaded, match="100 bytes a second") as told:
        meter.request(1, 0.5)
    assert told.value.retry_after_s == pytest.approx(1.0, abs=0.01)
    meter.request(1, 1.6)


@given(st.integers(1, 1000), st.lists(st.tuples(st.integers(0, 300), st.floats(0, 2), st.booleans()), max_size=40))
def test_no_more_goes_on_than_the_rate_and_a_second_of_it_allows(
    rate: int, steps: list[tuple[int, float, bool]]
) -> None:
    """What is begun while nothing is owed may be any size: it is waited for afterwards."""
    meter = limited(UserLimits(bytes_per_s=rate))
    now_s, begun, last = 0.0, 0, 0
    for size, pause_s, is_sent in steps:
        now_s += pause_s
        if meter.wait_s(now_s) > 0:
            with pytest.raises(Overloaded):
                meter.request(size, now_s)
            continue
        if is_sent:
            meter.sent(size, now_s)
        else:
            meter.request(size, now_s)
        begun, last = begun + size, size
        assert begun - last <= rate * (now_s + 1) + 1e-6


def test_a_request_waits_for_those_that_are_not_answered() -> None:
    meter = limited(UserLimits(inflight_bytes=100))
    meter.request(150, 0.0)  # alone it goes, or it would never go
    meter.inflight_bytes = 150
    with pytest.raises(Overloaded, match="150 bytes of user alice wait to be answered, and 100 may"):
        meter.request(1, 0.0)
    meter.inflight_bytes = 60
    meter.request(40, 0.0)
    with pytest.raises(Overloaded):
        meter.request(41, 0.0)


def test_a_limit_that_is_changed_holds_at_once_and_one_that_is_not_goes_on() -> None:
    meter = limited(UserLimits())
    assert not meter.is_limited
    meter.sent(1000, 0.0)
    assert meter.wait_s(0.0) == 0
    meter.limit(UserLimits(bytes_per_s=10), 0.0)
    meter.sent(1000, 0.0)
    meter.limit(UserLimits(bytes_per_s=10, requests_per_s=1), 0.0)
    assert meter.is_limited
    assert meter.wait_s(0.0) == pytest.approx(99)
    meter.limit(UserLimits(bytes_per_s=20), 0.0)
    assert meter.wait_s(0.0) == 0
    meter.sent(1000, 0.0)
    meter.limit(UserLimits(), 0.0)
    assert meter.wait_s(0.0) == 0
    meter.request(1000, 0.0)


def test_connections_are_limited_as_they_come() -> None:
    meter = limited(UserLimits(connections=1))
    meter.connect()
    with pytest.raises(Overloaded, match="has 1 connections to this server, and may have 1"):
        meter.connect()
    meter.limit(UserLimits(connections=2), 0.0)
    meter.connect()
    assert not meter.is_limited
