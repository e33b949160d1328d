"""Aggregators, by facts: who reports through which, who waits, and who is moved."""

import pytest

from ithaca.engines.scalog.ordering.assignment import chosen
from ithaca.engines.scalog.ordering.decisions import reporting as decisions
from ithaca.engines.scalog.ordering.decisions.reporting import (
    Aggregator,
    Gone,
    MoveAggregator,
    MoveReplica,
    RepairIn,
    Reporting,
    ReportingEffect,
)
from ithaca.model.errors import Unavailable
from ithaca.model.limits import AGGREGATORS_AWAITED_S, MOVES_PAUSE_S, MOVES_TOGETHER, SUSPECT_S
from ithaca.model.view import Address


def at(number: int) -> Address:
    return Address("10.0.0.1", number)


def aggregator(
    number: int, *, level: int = 1, suspects: tuple[Address, ...] = (), via: str | None = None, since_s: float = 0.0
) -> Aggregator[str]:
    """Its link is its own, or that of the one above it."""
    return Aggregator(number, at(number), level, via or f"link {number}", via is None, suspects, since_s)


def reporting(*numbers: int, are_expected: bool = True) -> Reporting[str]:
    core: Reporting[str] = Reporting(are_expected=are_expected)
    core.begin(0.0)
    for number in numbers:
        core.attach(aggregator(number))
    return core


def moves(effects: list[ReportingEffect]) -> list[MoveReplica]:
    return [effect for effect in effects if isinstance(effect, MoveReplica)]


def test_replicas_go_to_the_aggregator_of_their_shard() -> None:
    core = reporting(1, 2)
    for shard in range(6):
        number = chosen(shard, [1, 2])
        assert number is not None
        assert core.place(shard, 0, (), 1.0) == at(number)
        assert core.place(shard, number, (), 1.0) is None, "it has come through one"


def test_whoever_suspects_an_aggregator_gets_another_or_stays() -> None:
    core = reporting(1, 2)
    right = core.place(0, 0, (), 1.0)
    assert isinstance(right, Address)
    other = core.place(0, 0, (right,), 1.0)
    assert isinstance(other, Address)
    assert other != right
    assert core.place(0, 0, (right, other), 1.0) is None


@pytest.mark.parametrize(
    ("are_expected", "now_s", "waits"),
    [(True, 0.0, True), (True, AGGREGATORS_AWAITED_S, False), (False, 0.0, False)],
)
def test_a_new_leader_gives_aggregators_time_to_find_it(are_expected: bool, now_s: float, waits: bool) -> None:
    core = reporting(are_expected=are_expected)
    assert isinstance(core.place(0, 0, (), now_s), Unavailable) == waits


def test_once_one_is_there_whoever_suspects_it_is_not_made_to_wait() -> None:
    assert reporting(1).place(0, 0, (at(1),), 0.0) is None


def test_replicas_that_came_before_the_aggregators_move_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOVES_TOGETHER", 2)
    core = reporting()
    there = [(shard, replica) for shard in range(2) for replica in range(2)]
    for member in there:
        core.joined(member, 0, (), 0.0)
    assert core.attach(aggregator(1)) == [RepairIn(MOVES_PAUSE_S)]
    assert core.repair(there[:3], 1.0) == [
        MoveReplica(0, 0, at(1)),
        MoveReplica(0, 1, at(1)),
        RepairIn(MOVES_PAUSE_S),
    ]
    assert core.repair(there[:3], 1.0) == [MoveReplica(1, 0, at(1)), RepairIn(SUSPECT_S)], "1/1 has left meanwhile"
    for member in there[:3]:
        core.joined(member, 1, (), 2.0)
    assert core.repair(there[:3], 2.0) == [RepairIn(SUSPECT_S)]


def test_a_replica_is_moved_back_when_it_suspects_nobody_any_more() -> None:
    core = reporting(1, 2)
    right, other = (1, 2) if chosen(0, [1, 2]) == 1 else (2, 1)
    core.joined((0, 0), other, (at(right),), 0.0)
    assert moves(core.repair([(0, 0)], SUSPECT_S - 1)) == []
    assert moves(core.repair([(0, 0)], SUSPECT_S)) == [MoveReplica(0, 0, at(right))]


def test_many_are_looked_at_in_one_go_and_moved_in_several() -> None:
    core = reporting()
    there = [(shard, 0) for shard in range(2 * MOVES_TOGETHER)]
    for member in there:
        core.joined(member, 0, (), 0.0)
    core.attach(aggregator(1))
    assert len(moves(core.repair(there, 1.0))) == MOVES_TOGETHER


def test_an_aggregator_comes_through_one_of_the_level_above() -> None:
    core = reporting()
    core.attach(aggregator(9, level=2))
    assert core.attach(aggregator(1)) == at(9)
    assert core.attach(aggregator(1, via="link 9")) == [RepairIn(MOVES_PAUSE_S)]
    assert core.attach(aggregator(2, suspects=(at(9),))) == [RepairIn(MOVES_PAUSE_S)], "it did not serve"
    assert [(each.number, each.is_direct) for each in core.aggregators] == [(9, True), (1, False), (2, True)]


def test_one_that_came_before_the_level_above_moves_one_at_a_time() -> None:
    core = reporting(1, 2)
    core.attach(aggregator(9, level=2))
    assert core.repair([], 1.0) == [MoveAggregator("link 1", at(9)), RepairIn(MOVES_PAUSE_S)]
    core.lost("link 1")
    assert core.repair([], 1.0) == [MoveAggregator("link 2", at(9)), RepairIn(MOVES_PAUSE_S)]


def test_one_that_suspects_the_level_above_stays_until_that_is_over() -> None:
    core = reporting()
    core.attach(aggregator(9, level=2))
    core.attach(aggregator(1, suspects=(at(9),), since_s=5.0))
    assert core.repair([], 5.0) == [RepairIn(SUSPECT_S)]
    assert core.repair([], 5.0 + SUSPECT_S) == [MoveAggregator("link 1", at(9)), RepairIn(MOVES_PAUSE_S)]


def test_whoever_came_over_a_link_goes_with_it() -> None:
    core = reporting()
    core.attach(aggregator(9, level=2))
    for number in (1, 2):
        core.attach(aggregator(number, via="link 9"))
    assert core.lost("link 9") == [Gone(9, at(9)), Gone(1, at(1)), Gone(2, at(2)), RepairIn(MOVES_PAUSE_S)]
    assert core.lost("link 9") == []
    assert core.place(0, 0, (), AGGREGATORS_AWAITED_S) is None


def test_only_the_link_it_has_now_takes_an_aggregator_away() -> None:
    core = reporting(1)
    core.attach(aggregator(1, via="link 9"))
    assert core.detach(1, "link 1") == []
    assert core.detach(7, "link 9") == []
    assert core.detach(1, "link 9") == [Gone(1, at(1)), RepairIn(MOVES_PAUSE_S)]


def test_nothing_is_looked_at_again_without_aggregators() -> None:
    core = reporting(1)
    core.lost("link 1")
    assert core.repair([], 1.0) == []


def test_a_term_that_is_over_leaves_nothing() -> None:
    core = reporting(1, 2)
    core.joined((0, 0), 1, (), 0.0)
    assert core.end() == ["link 1", "link 2"]
    assert core.aggregators == []
    assert core.via((0, 0)) is None
    assert not core.is_at(1, at(1))
