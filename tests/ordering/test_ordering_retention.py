"""Which cuts may go (invariant 10)."""

import pytest
from tests.ordering.building import Driver

from ithaca.engines.scalog.ordering import retention
from ithaca.engines.scalog.ordering.outcomes import OrderedCut
from ithaca.engines.scalog.ordering.retention import Retention


def cuts() -> dict[int, OrderedCut]:
    """Three cuts: of shards 1 and 2, of shard 2 alone, of shard 1 alone."""
    driver = Driver()
    (a,), (b,) = driver.shard(1, f=0), driver.shard(2, f=0)
    for lengths in ({a: 1, b: 1}, {b: 2}, {a: 2}):
        driver.cut(lengths)
    return driver.state.kept


def test_a_cut_waits_for_every_shard_in_it() -> None:
    waiting = Retention(cuts(), range(10))
    waiting.synced(1, 3)
    assert waiting.take() == (3,)
    waiting.synced(2, 1)
    assert waiting.take() == (1,)
    waiting.synced(2, 1)
    assert waiting.take() == ()
    waiting.synced(2, 2)
    assert waiting.take() == (2,)


def test_a_cut_whose_runs_were_synced_before_it_was_noted() -> None:
    first, second, third = cuts().values()
    waiting = Retention({}, range(10))
    waiting.synced(1, 3)
    waiting.keep(first)
    waiting.keep(third)
    waiting.keep(second)
    assert waiting.take() == (3,)


def test_one_entry_forgets_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "ORDERING_FORGET_CUTS_MAX", 2)
    waiting = Retention(cuts(), range(10))
    for shard in (1, 2):
        waiting.synced(shard, 3)
    assert [waiting.take(), waiting.take()] == [(1, 2), (3,)]


@pytest.mark.parametrize(
    ("cuts_max", "runs_max", "expected"),
    [(3, 4, set()), (2, 4, {1, 2}), (1, 4, {1, 2}), (3, 3, {1, 2}), (3, 1, {1, 2}), (0, 4, {1, 2})],
)
def test_shards_that_hold_back_old_cuts(
    monkeypatch: pytest.MonkeyPatch, cuts_max: int, runs_max: int, expected: set[int]
) -> None:
    """The newest cuts within both bounds hold nobody back; older ones do until their shards have synced them."""
    monkeypatch.setattr(retention, "ORDERING_CUTS_UNSYNCED_MAX", cuts_max)
    monkeypatch.setattr(retention, "ORDERING_RUNS_UNSYNCED_MAX", runs_max)
    waiting = Retention(cuts(), range(10))
    assert waiting.holding_back() == expected
    waiting.synced(1, 3)
    assert waiting.holding_back() == expected - {1}
    waiting.reclaimed(2)
    assert waiting.holding_back() == set()
