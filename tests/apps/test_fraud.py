"""Payments repeat themselves; the plain rules judge in the order of the log; the database takes a batch once."""

import sqlite3
from pathlib import Path

import pytest

from ithaca.apps.fraud.payments import SOURCES, Payment, decode, events, payments
from ithaca.apps.fraud.plain import PAYMENTS_MIN, TRAVEL_S, Alert, UserState, hourly, judge
from ithaca.apps.fraud.store import FraudStore

RECORDS = 8001


def day() -> list[tuple[int, Payment]]:
    made = [list(payments(1, source, RECORDS - 1)) for source in range(SOURCES)]
    return list(enumerate((each for pair in zip(*made, strict=True) for each in pair), 1))


def test_a_seed_gives_the_same_payments_and_another_seed_others() -> None:
    one = [list(payments(1, source, RECORDS)) for source in range(SOURCES)]
    assert one == [list(payments(1, source, RECORDS)) for source in range(SOURCES)]
    assert one != [list(payments(2, source, RECORDS)) for source in range(SOURCES)]
    assert sum(map(len, one)) == RECORDS
    assert {each.user for each in one[0]} & {each.user for each in one[1]}


def test_records_are_json_with_the_user_as_their_key() -> None:
    for made, (key, value) in zip(payments(1, 1, 500), events(1, 1, 500), strict=True):
        assert decode(value) == made
        assert key == made.user.encode()


def test_a_day_has_alerts_of_both_kinds_and_not_many() -> None:
    alerts = judge(day(), {})
    assert {"amount", "travel"} <= {alert.reason for alert in alerts}
    assert len(alerts) < 0.02 * RECORDS


@pytest.mark.parametrize("cut", [1, 17, 4000, RECORDS - 2])
def test_a_day_in_parts_is_judged_as_the_whole(cut: int) -> None:
    whole: dict[str, UserState] = {}
    parts: dict[str, UserState] = {}
    expected = judge(day(), whole)
    assert judge(day()[:cut], parts) + judge(day()[cut:], parts) == expected
    assert parts == whole


def test_the_order_decides() -> None:
    first, second = Payment(0, "u", 0, 100, "GR", 1), Payment(1, "u", TRAVEL_S - 1, 100, "IT", 1)
    assert judge([(1, first), (2, second)], {}) == [Alert(2, "u", 100, "IT", "travel")]
    assert judge([(1, second), (2, first)], {}) == [Alert(2, "u", 100, "GR", "travel")]
    later = Payment(1, "u", TRAVEL_S, 100, "IT", 1)
    assert judge([(1, first), (2, later)], {}) == []


def test_amounts_are_judged_once_enough_is_known() -> None:
    usual = [Payment(0, "u", 0, 100, "GR", 1)] * PAYMENTS_MIN
    much = Payment(0, "u", 0, 101, "GR", 1)
    assert judge(enumerate([*usual[1:], much]), {}) == []
    assert judge(enumerate([*usual, much]), {}) == [Alert(PAYMENTS_MIN, "u", 101, "GR", "amount")]


def test_hours() -> None:
    made = [
        Payment(0, "a", 10, 5, "GR", 1),
        Payment(0, "a", 3599, 6, "GR", 1),
        Payment(1, "b", 0, 7, "GR", 1),
        Payment(1, "b", 7200, 9, "GR", 1),
    ]
    assert hourly(made) == [(0, 3, 2, 18), (2, 1, 1, 9)]


def test_a_batch_is_in_the_database_with_all_it_changed(tmp_path: Path) -> None:
    store = FraudStore(tmp_path / "fraud.sqlite")
    huge = UserState("a", 3, 10**12, 10**24, "GR", 5)
    assert (store.has(0), store.most_alarming_user()) == (False, None)
    store.commit(0, 2, [Alert(2, "b", 1, "GR", "travel"), Alert(4, "a", 1, "GR", "amount")], [huge])
    store.commit(1, 1, [Alert(9, "a", 1, "GR", "amount")], [huge.after(Payment(0, "a", 6, 2, "IT", 1)), UserState("b")])
    again = FraudStore(tmp_path / "fraud.sqlite")
    assert again.has(1)
    assert again.states() == [UserState("a", 4, 10**12 + 2, 10**24 + 4, "IT", 6), UserState("b")]
    assert [alert.position for alert in again.alerts()] == [2, 4, 9]
    assert again.most_alarming_user() == "a"


def test_a_batch_that_fails_changes_nothing(tmp_path: Path) -> None:
    store = FraudStore(tmp_path / "fraud.sqlite")
    alert = Alert(2, "b", 1, "GR", "travel")
    store.commit(0, 1, [alert], [UserState("b", 1)])
    with pytest.raises(sqlite3.IntegrityError):
        store.commit(1, 1, [alert], [UserState("b", 2)])
    assert (store.has(1), store.states()) == (False, [UserState("b", 1)])
