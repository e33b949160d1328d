"""Cuts, windows, failures and ends of free windows that race across changes of the leader (invariants 1 to 5)."""

import pytest
from tests.belfast.orders import FIRST, SECOND
from tests.belfast.racing_model import Truth, Violation, search

from ithaca.engines.belfast.speculation.entries import SlotEntry
from ithaca.engines.belfast.speculation.order import SlotOrder

ONE: Truth = {FIRST: {0: 1, 2: 2, 3: 3}}
TWO: Truth = {FIRST: {0: 1, 2: 2}, SECOND: {1: 1, 2: 2}}


@pytest.mark.parametrize(("truth", "depth"), [(ONE, 7), (TWO, 6)], ids=["one shard", "two shards"])
def test_what_lost_a_race_changes_nothing(truth: Truth, depth: int) -> None:
    states, void = search(truth, depth=depth, cuts_max=4)
    assert states > 100
    assert void > 100


@pytest.mark.campaign
@pytest.mark.parametrize(("truth", "depth"), [(ONE, 10), (TWO, 8)], ids=["one shard", "two shards"])
def test_what_lost_a_race_changes_nothing_in_long_races(truth: Truth, depth: int) -> None:
    assert search(truth, depth=depth, cuts_max=6)[1] > 1000


NOT_IN_TURN = (AssertionError, "a lane is closed, or does not grow")
TWICE = (Violation, "window 1 is opened twice")
NOBODYS = (Violation, "a closed lane has slots")


@pytest.mark.parametrize(
    ("check", "reason", "expected"),
    [
        ("_misses_cut", "another attempt", NOT_IN_TURN),
        ("_misses_cut", "not the next cut", NOT_IN_TURN),
        ("_misses_window", "another attempt", NOBODYS),
        ("_misses_window", "another window", TWICE),
        ("_misses_window", "the order is free", TWICE),
        ("_misses_window", "the lane is closed", NOBODYS),
    ],
)
def test_each_check_is_needed(
    check: str, reason: str, expected: tuple[type[AssertionError], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is void for this reason takes effect instead."""
    misses = getattr(SlotOrder, check)

    def misses_less(order: SlotOrder, entry: SlotEntry) -> object:
        found = misses(order, entry)
        return None if found == reason else found

    monkeypatch.setattr(SlotOrder, check, misses_less)
    with pytest.raises(AssertionError) as raised:
        search(TWO, depth=5, cuts_max=4)
    assert (type(raised.value), str(raised.value).splitlines()[0]) == expected
