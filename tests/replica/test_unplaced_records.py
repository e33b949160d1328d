"""Records that were declared lost and whose positions nobody knows: a replica waits for neither."""

import pytest
from tests.replica.driving import SHARD, Driven, held, only

from ithaca.engines.scalog.ordering.entries import DeclareLost, OpenLane, TrimTo
from ithaca.engines.scalog.replica.events import Fetch, FetchRuns, Held, Settle, Synced, Unfollow, Write
from ithaca.model.positions import LaneId
from ithaca.wire.batch import NOOPS

OLD = LaneId(SHARD, 0, 1)


def started(found: dict[LaneId, Held]) -> Driven:
    """Nine records of an earlier boot are ordered, at positions 1 to 9, and the order has let go of where they are."""
    driven = Driven()
    driven.order.apply(OpenLane(SHARD, 0, 1))
    driven.order.cut({OLD: 4})
    driven.order.cut({OLD: 9})
    driven.order.state.kept.clear()
    driven.boot = 2
    driven.start(found)
    return driven


@pytest.mark.parametrize(
    ("found", "first", "placed", "filled"),
    [({}, 0, 0, [9]), ({OLD: held(2, ((1, 4),))}, 2, 4, [7]), ({OLD: held(9, ((1, 4),))}, 4, 4, [])],
)
def test_an_end_without_positions_is_waited_for_until_it_is_declared_lost(
    found: dict[LaneId, Held], first: int, placed: int, filled: list[int]
) -> None:
    driven = started(found)
    effects = driven.joined()
    assert [each.lane for each in only(FetchRuns, effects)] == [OLD]
    assert [each.lane for each in only(Fetch, effects)] == ([OLD] if filled else [])
    assert driven.core.readable <= first + 1
    assert driven.core.is_behind(OLD)
    effects = driven.apply(DeclareLost(OLD, first, 9, placed))
    writes = [each.batch for each in only(Write, effects) if each.lane == OLD]
    assert [(each.kind, each.count) for each in writes] == [(NOOPS, count) for count in filled]
    assert [each.lane for each in only(Unfollow, effects)] == [OLD], "nobody is asked any more"
    effects = driven.step(Synced(OLD, 9))
    assert driven.core.readable == 10
    assert not driven.core.is_behind(OLD)
    assert driven.core.is_settled(OLD)
    assert not only(Settle, effects), "what is kept of settled lanes does not tell where it ends"
    assert driven.core.strewn() == ((placed + 1, 10),)
    assert driven.core.lost(OLD) == ((first, 9),)


def test_whoever_starts_again_or_joins_later_does_not_wait_for_it() -> None:
    driven = started({})
    driven.joined()
    driven.apply(DeclareLost(OLD, 0, 9, 0))
    driven.step(Synced(OLD, 9))
    driven.boot = 3
    driven.start({OLD: Held(9, 0, (), 0, True)})
    effects = driven.joined()
    assert OLD not in [each.lane for each in only(Fetch, effects)]
    assert OLD not in [each.lane for each in only(FetchRuns, effects)]
    assert driven.core.readable == 10
    assert driven.core.strewn() == ((1, 10),)


def test_a_kept_cut_behind_the_gap_does_not_have_it_waited_for() -> None:
    driven = Driven()
    driven.order.apply(OpenLane(SHARD, 0, 1))
    driven.order.cut({OLD: 4})
    driven.order.state.kept.clear()
    driven.order.cut({OLD: 9})
    driven.boot = 2
    driven.start({})
    driven.joined()
    driven.apply(DeclareLost(OLD, 0, 9, 0))
    driven.step(Synced(OLD, 9))
    assert driven.core.readable == 10
    assert driven.core.strewn() == ((1, 10),)


def test_what_was_trimmed_is_not_strewn() -> None:
    driven = started({})
    driven.joined()
    driven.apply(DeclareLost(OLD, 0, 9, 0))
    driven.step(Synced(OLD, 9))
    driven.apply(TrimTo(6))
    assert driven.core.strewn() == ((6, 10),)
    driven.apply(TrimTo(10))
    assert driven.core.strewn() == ()
