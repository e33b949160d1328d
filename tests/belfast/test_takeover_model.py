"""Takeover keeps what was delivered, and each of its five rules is needed (invariants 8 and 9)."""

import pytest
from tests.belfast.takeover_model import Bounds, Model, Rules


def test_nothing_that_was_delivered_changes_its_place() -> None:
    states, found = Model(Rules(), Bounds(crashes=0)).search()
    assert found is None
    assert states > 40_000


def test_nothing_that_was_delivered_changes_its_place_when_a_follower_loses_its_disk() -> None:
    states, found = Model(Rules(), Bounds(crashes=1, losses=1, records=1, windows=2)).search()
    assert found is None
    assert states > 60_000


@pytest.mark.campaign
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(crashes=1),
        Bounds(crashes=0, takeovers=2),
        Bounds(crashes=1, takeovers=2),
        Bounds(crashes=0, losses=1),
        Bounds(crashes=1, takeovers=2, losses=1, records=1, windows=2),
    ],
)
def test_nothing_that_was_delivered_changes_its_place_with_crashes(bounds: Bounds) -> None:
    _, found = Model(Rules(), bounds).search()
    assert found is None


NOT_ORDERED = "record 0 was delivered in cut 0 and is not ordered there"
USED_AGAIN = "cut 0 was told to be passed, and the next lane uses it"


@pytest.mark.parametrize(
    ("rules", "trouble", "expected"),
    [
        (Rules(durable_promises=False), {"crashes": 1}, NOT_ORDERED),
        (Rules(longest_copy=False), {}, NOT_ORDERED),
        (Rules(order_before_close=False), {}, NOT_ORDERED),
        (Rules(horizon=False), {}, USED_AGAIN),
        (Rules(disks=False), {"losses": 1}, NOT_ORDERED),
    ],
    ids=["durable promises", "longest copy", "ordering before closing", "horizon", "disks"],
)
def test_each_rule_is_needed(rules: Rules, trouble: dict[str, int], expected: str) -> None:
    bounds = Bounds(crashes=trouble.get("crashes", 0), losses=trouble.get("losses", 0), records=1, windows=2)
    assert Model(Rules(), bounds).search()[1] is None
    assert Model(rules, bounds).search()[1] == expected
