"""Histories of logs in which some positions are empty: what may be skipped, and what may not."""

from collections.abc import Callable

import msgspec
import pytest

from ithaca.proof.checker import check
from ithaca.proof.history import (
    AnyEvent,
    Append,
    Confirm,
    Deliver,
    Final,
    Hole,
    Id,
    Mark,
    Plan,
    Range,
    Read,
    Spec,
    Sub,
    Tail,
)

Events = list[AnyEvent]

HELD: dict[int, Id] = {2: (1, 0), 3: (1, 1), 6: (1, 2), 9: (2, 0)}
RUNS: tuple[tuple[int, tuple[Id | Hole, ...]], ...] = ((2, ((1, 0), (1, 1))), (6, ((1, 2),)), (9, ((2, 0), "empty")))


def good() -> Events:
    """Records at 2, 3, 6 and 9; the tail is 12, and all other positions are empty."""
    return [
        Plan(copies=2, ok_min=3, dense=False),
        Append(id=(1, 0), n=2, inv=10, ret=20, st="ok", pos=2),
        Append(id=(1, 2), n=1, inv=30, ret=40, st="ok", pos=6),
        Append(id=(2, 0), n=1, inv=50, ret=60, st="ok", pos=9),
        Tail(inv=21, ret=22, n=5),
        Tail(inv=61, ret=62, n=12),
        Read(pos=1, inv=21, ret=22, id="empty"),
        Read(pos=5, inv=41, ret=42, id="empty"),
        Read(pos=11, inv=70, ret=71, id="empty"),
        Read(pos=12, inv=70, ret=71, id=None),
        Sub(sub=1, start=1),
        *(Deliver(sub=1, ret=70 + at, pos=at, id=found) for at, found in HELD.items()),
        Mark(sub=1, t=90, up_to=12),
        Sub(sub=2, start=1),
        *(Spec(sub=2, t=70, pos=at, id=found, att=1) for at, found in HELD.items()),
        Confirm(sub=2, t=80, lo=1, hi=11, att=1),
        Range(95, 99, 1, 12, None, tuple(HELD.items())),
        Range(95, 99, 4, 6, None, ()),
        Final(node="0/0", runs=RUNS),
        Final(node="0/1", runs=RUNS),
    ]


def without(events: Events, unwanted: Callable[[AnyEvent], bool]) -> Events:
    return [event for event in events if not unwanted(event)]


def changed(events: Events, wanted: Callable[[AnyEvent], bool], **fields: object) -> Events:
    assert any(map(wanted, events))
    return [msgspec.structs.replace(event, **fields) if wanted(event) else event for event in events]


def rules_of(events: Events) -> set[str]:
    return set(check(events).found)


def test_nothing_is_wrong_with_it() -> None:
    verdict = check(good())
    assert verdict.ok, verdict


def test_where_positions_are_dense_all_of_it_is_wrong() -> None:
    found = rules_of(changed(good(), lambda event: isinstance(event, Plan), dense=True))
    assert {"no-gap", "dense", "range-whole", "confirmed-delivered"} <= found


def test_an_empty_position_is_wrong_where_they_are_dense_even_without_dumps() -> None:
    events: Events = [Append(id=(1, 0), n=1, inv=1, ret=2, st="ok", pos=1), Read(pos=2, inv=3, ret=4, id="empty")]
    assert rules_of([Plan(), *events]) == {"no-gap"}
    assert rules_of([Plan(dense=False), *events]) == set()


@pytest.mark.parametrize("position", [6, 9])
def test_a_record_that_a_subscription_skips_is_missed(position: int) -> None:
    events = without(good(), lambda event: isinstance(event, Deliver) and event.pos == position)
    assert rules_of(events) == {"dense"}


def test_a_record_that_nobody_acknowledged_is_missed_as_well() -> None:
    events = changed(good(), lambda event: isinstance(event, Append) and event.id == (1, 2), st="info", pos=None)
    assert rules_of(events) == set()
    assert rules_of(without(events, lambda event: isinstance(event, Deliver) and event.pos == 6)) == {"dense"}


def test_a_range_that_leaves_one_out_is_not_whole() -> None:
    rows = tuple((at, found) for at, found in HELD.items() if at != 6)
    events = changed(good(), lambda event: isinstance(event, Range) and event.start == 1, ids=rows)
    assert rules_of(events) == {"range-whole"}


def test_a_range_may_end_anywhere_and_still_be_whole() -> None:
    events = [*good(), Range(95, 99, 3, 6, None, ((3, (1, 1)),))]
    assert rules_of(events) == set()
    assert rules_of([*good(), Range(95, 99, 3, 7, None, ((3, (1, 1)),))]) == {"range-whole"}


def test_a_record_is_not_called_empty() -> None:
    assert rules_of([*good(), Read(pos=6, inv=91, ret=92, id="empty")]) == {"one-record"}


def test_an_acknowledged_record_is_not_empty_in_the_end() -> None:
    runs = tuple(run for run in RUNS if run[0] != 6)
    events = changed(good(), lambda event: isinstance(event, Final), runs=runs)
    assert "acknowledged-kept" in rules_of(events)


def test_what_is_empty_is_not_written_later() -> None:
    """Position 5 was empty at 42: what stands before it had begun by then."""
    events = changed(good(), lambda event: isinstance(event, Append) and event.id == (1, 0), inv=43, ret=44)
    events = without(events, lambda event: isinstance(event, Tail | Read) and event.ret == 22)
    assert rules_of(events) == {"real-time"}


def test_what_is_confirmed_was_delivered() -> None:
    events = without(good(), lambda event: isinstance(event, Spec) and event.pos == 9)
    assert "confirmed-delivered" in rules_of(events)


def test_a_tail_lies_inside_no_batch() -> None:
    assert "whole" in rules_of([*good(), Tail(inv=21, ret=22, n=3)])
