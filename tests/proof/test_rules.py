"""Each rule catches what it is there for: one correct history, and one thing made wrong in it at a time."""

from collections.abc import Callable
from typing import TypeVar

import msgspec
import pytest
from tests.proof import test_consumer_rules

from ithaca.proof.checker import check
from ithaca.proof.history import (
    AnyEvent,
    Append,
    Confirm,
    Deliver,
    Fail,
    Final,
    First,
    Hole,
    Id,
    Mark,
    Plan,
    Publish,
    Range,
    Read,
    Spec,
    Sub,
    Tail,
    Trim,
)
from ithaca.proof.rules import REPORTED_MAX, RULES

Event = TypeVar("Event", bound=msgspec.Struct)
Events = list[AnyEvent]

HELD: tuple[Id | Hole, ...] = (
    (1, 0),  # 1: a single record
    *((1, 1), (1, 2), (1, 3)),  # 2 to 4: a batch
    (2, 0),  # 5: its outcome was never known
    "noop",  # 6
    *((3, 0), (3, 1), (4, 0)),  # 7 to 9: a published set
    *((2, 1), (2, 2)),  # 10 and 11: a batch whose outcome was never known
    (1, 4),  # 12: acknowledged last
)
KEYS = {1: "red", 12: "red", 5: "blue", 10: "blue", 11: "blue"}


def good() -> Events:
    """A history of everything that there is."""
    delivered = [(at, item) for at, item in enumerate(HELD, 1) if isinstance(item, tuple)]
    return [
        Plan(copies=2, ok_min=3),
        Append(id=(1, 0), n=1, inv=10, ret=20, st="ok", pos=1, key="red", shard=2, ts=(500, 510)),
        Append(id=(1, 1), n=3, inv=30, ret=40, st="ok", pos=2, shard=3),
        Append(id=(2, 0), n=1, inv=30, ret=50, st="info", key="blue"),
        Append(id=(9, 0), n=2, inv=30, ret=50, st="info"),  # never happened
        Append(id=(8, 0), n=1, inv=30, ret=50, st="fail"),
        Publish(key="set", parts=((3, 0, 2), (4, 0, 1)), inv=60, ret=70, st="ok", pos=7),
        Append(id=(2, 1), n=2, inv=60, ret=90, st="info", key="blue"),
        Append(id=(1, 4), n=1, inv=100, ret=110, st="ok", pos=12, key="red"),
        Read(pos=1, inv=21, ret=22, id=(1, 0), key="red", ts=505, shard=2),
        Read(pos=12, inv=80, ret=85, id=None),
        Read(pos=6, inv=112, ret=113, id="noop"),
        Tail(inv=21, ret=25, n=2),
        Tail(inv=120, ret=121, n=13),
        Sub(sub=1, start=1),
        *(Deliver(sub=1, ret=130 + at, pos=at, id=item) for at, item in delivered),
        Sub(sub=2, start=1, filter="key=blue"),
        *(Deliver(sub=2, ret=150 + at, pos=at, id=item) for at, item in delivered if KEYS.get(at) == "blue"),
        Mark(sub=2, t=165, up_to=13),
        Mark(sub=1, t=165, up_to=13),
        Range(180, 190, 4, 13, None, tuple(delivered[3:])),
        Range(180, 190, 1, 13, "key=blue", ((5, (2, 0)), (10, (2, 1)), (11, (2, 2)))),
        Range(180, 190, 1, 13, "prefix=r", ((1, (1, 0)), (12, (1, 4))), ("red", "red"), (505, 9), (2, 4)),
        First(inv=180, ret=190, n=1),
        Sub(sub=4, start=12, inv=180, ret=190, at=7000),
        Sub(sub=5, start=13, inv=180, ret=190, at=7001),
        Sub(sub=6, start=1, inv=180, ret=190, at=1),
        Sub(sub=3, start=4),
        Spec(sub=3, t=160, pos=4, id=(1, 3), att=1),
        Spec(sub=3, t=161, pos=5, id=(2, 0), att=1),
        Spec(sub=3, t=162, pos=7, id=(9, 0), att=1),
        Confirm(sub=3, t=163, lo=4, hi=6, att=1),
        Fail(sub=3, t=164, lo=7, att=1),
        Spec(sub=3, t=165, pos=7, id=(3, 0), att=2),
        Confirm(sub=3, t=166, lo=7, hi=7, att=2),
        Final(node="a", runs=((1, HELD),)),
        Final(node="b", runs=((1, HELD[:5]), (6, HELD[5:]))),
    ]


def drop(events: Events, unwanted: Callable[[AnyEvent], bool]) -> Events:
    left = [event for event in events if not unwanted(event)]
    assert len(left) == len(events) - 1, "one event goes"
    return left


def change(events: Events, kind: type[Event], wanted: Callable[[Event], bool], **fields: object) -> Events:
    """One event with some fields changed."""
    places = [at for at, event in enumerate(events) if isinstance(event, kind) and wanted(event)]
    assert len(places) == 1, "one event is changed"
    changed = msgspec.structs.replace(events[places[0]], **fields)
    return [*events[: places[0]], changed, *events[places[0] + 1 :]]


def dumped(*dumps: tuple[Id | Hole, ...]) -> Events:
    """The same history with other dumps, each from position 1 on."""
    kept = [event for event in good() if not isinstance(event, Final)]
    return [*kept, *(Final(node=str(at), runs=((1, held),)) for at, held in enumerate(dumps))]


def with_items(items: dict[int, Id | Hole]) -> tuple[Id | Hole, ...]:
    """What is held, with something else at some positions."""
    return tuple(items.get(at, item) for at, item in enumerate(HELD, 1))


def without(position: int) -> Events:
    runs = (1, HELD[: position - 1]), (position + 1, HELD[position:])
    kept = [event for event in good() if not isinstance(event, Final)]
    return [*kept, Final(node="a", runs=runs), Final(node="b", runs=runs)]


def delivery(sub: int, position: int) -> Callable[[AnyEvent], bool]:
    return lambda event: isinstance(event, Deliver) and event.sub == sub and event.pos == position


SWAPPED = with_items({7: (3, 1), 8: (3, 0)})

CORRUPTIONS: dict[str, tuple[str, Events]] = {
    "an acknowledged record is in no dump": ("acknowledged-kept", without(12)),
    "one in the middle is in no dump": ("acknowledged-kept", without(1)),
    "the dumps end too early": ("acknowledged-kept", dumped(HELD[:-1], HELD[:-1])),
    "a record is on one replica only": ("enough-copies", dumped(HELD, HELD[:-1])),
    "an acknowledged record is called lost": (
        "nothing-lost",
        dumped(*[with_items({12: "lost"})] * 2),
    ),
    "a record that was delivered is called lost": ("nothing-lost", dumped(with_items({5: "lost"}), HELD)),
    "one replica differs": ("one-record", dumped(HELD, with_items({5: (9, 0)}))),
    "replicas have swapped two positions": ("one-record", dumped(HELD, SWAPPED)),
    "all replicas have swapped two positions": ("one-record", dumped(SWAPPED, SWAPPED)),
    "a no-op became a record": ("one-record", dumped(with_items({6: (9, 0)}), HELD)),
    "a read got another record": (
        "one-record",
        change(good(), Read, lambda event: event.pos == 1, id=(2, 0)),
    ),
    "a receipt says another position": (
        "one-record",
        change(good(), Append, lambda event: event.id == (1, 4), pos=11),
    ),
    "a delivery has another record": (
        "one-record",
        change(good(), Deliver, lambda event: delivery(1, 5)(event), id=(9, 0)),
    ),
    "a speculation that was wrong is confirmed": (
        "one-record",
        change(good(), Spec, lambda event: event.t == 165, id=(9, 0)),
    ),
    "a position is in no dump": ("no-gap", without(5)),
    "a hole is in no dump": ("no-gap", without(6)),
    "the tail was further on than the log ever got": (
        "no-gap",
        change(good(), Tail, lambda event: event.n == 13, n=14),
    ),
    "a record that was read is in no dump": ("seen-kept", without(5)),
    "a delivery is missing": ("dense", drop(good(), delivery(1, 5))),
    "a subscription starts too late": ("dense", drop(good(), delivery(1, 1))),
    "a record is delivered twice": ("dense", [*good(), Deliver(sub=1, ret=200, pos=12, id=(1, 4))]),
    "a subscription goes back": ("dense", [*good(), Deliver(sub=1, ret=200, pos=1, id=(1, 0))]),
    "confirmations leave something out": (
        "dense",
        [*good(), Spec(sub=3, t=170, pos=10, id=(2, 1), att=2), Confirm(sub=3, t=171, lo=10, hi=10, att=2)],
    ),
    "a filtered delivery is missing": ("complete", drop(good(), delivery(2, 10))),
    "a filtered subscription delivers another key": (
        "complete",
        [*good(), Deliver(sub=2, ret=200, pos=12, id=(1, 4))],
    ),
    "a filtered subscription goes back": ("complete", [*good(), Deliver(sub=2, ret=200, pos=5, id=(2, 0))]),
    "a filtered subscription starts too early": (
        "complete",
        change(good(), Sub, lambda event: event.sub == 2, start=6),
    ),
    "a read says trimmed, and nothing was": (
        "trimmed-told",
        change(good(), Read, lambda event: event.pos == 1, id="trimmed"),
    ),
    "a read says trimmed before the trim began": (
        "trimmed-told",
        [*change(good(), Read, lambda event: event.pos == 1, id="trimmed"), Trim(inv=23, ret=24, before=2)],
    ),
    "a read found nothing after the acknowledgement": ("real-time", [*good(), Read(pos=12, inv=111, ret=112, id=None)]),
    "a read found nothing of a batch that was seen": ("real-time", [*good(), Read(pos=5, inv=136, ret=140, id=None)]),
    "a tail is behind what was acknowledged": ("real-time", [*good(), Tail(inv=111, ret=112, n=12)]),
    "a later append has a smaller position": (
        "real-time",
        change(good(), Append, lambda event: event.id == (1, 0), inv=41, ret=42),
    ),
    "a record was read before it was appended": (
        "real-time",
        [*good(), Read(pos=12, inv=90, ret=99, id=(1, 4))],
    ),
    "a tail falls": ("real-time", [*good(), Tail(inv=94, ret=95, n=12), Tail(inv=96, ret=97, n=10)]),
    "a filtered subscription stops before its mark": ("complete", drop(good(), delivery(2, 11))),
    "a filtered subscription delivers below its mark": (
        "complete",
        [
            *[*good(), Sub(sub=9, start=6, filter="key=blue"), Mark(sub=9, t=200, up_to=12)],
            *[Deliver(sub=9, ret=201, pos=10, id=(2, 1)), Deliver(sub=9, ret=201, pos=11, id=(2, 2))],
        ],
    ),
    "a subscription with nothing says that it has all": (
        "complete",
        [*good(), Sub(sub=9, start=2, filter="key=red"), Mark(sub=9, t=200, up_to=13)],
    ),
    "a subscription without a filter says that it has all": (
        "dense",
        [*good(), Sub(sub=9, start=12), Mark(sub=9, t=200, up_to=13)],
    ),
    "a mark is beyond what is written": ("real-time", [*good(), Sub(sub=9, start=12), Mark(sub=9, t=99, up_to=13)]),
    "a range ended beyond what is written": ("real-time", [*good(), Range(95, 99, 12, 13, "key=none")]),
    "a range ends early": ("range-whole", [*good(), Range(200, 210, 1, 13, None, ((1, (1, 0)),))]),
    "a range leaves out its last": ("range-whole", [*good(), Range(200, 210, 12, 13)]),
    "a range has one too many": (
        "range-whole",
        [*good(), Range(200, 210, 11, 12, None, ((11, (2, 2)), (12, (1, 4))))],
    ),
    "a range goes back": ("range-whole", [*good(), Range(200, 210, 11, 13, None, ((12, (1, 4)), (11, (2, 2))))]),
    "a filtered range ends early": ("range-whole", [*good(), Range(200, 210, 1, 13, "key=blue", ((5, (2, 0)),))]),
    "a filtered range has another key": (
        "range-whole",
        [*good(), Range(200, 210, 12, 13, "key=blue", ((12, (1, 4)),))],
    ),
    "the first position falls": ("first", [*good(), Trim(199, 203, 3), First(200, 201, 3), First(202, 203, 1)]),
    "the first position does not know of a trim": ("first", [*good(), Trim(200, 201, 3), First(202, 203, 1)]),
    "the first position is beyond every trim": ("first", [*good(), Trim(200, 201, 3), First(202, 203, 4)]),
    "the first position knows of a trim to come": ("first", [*good(), First(190, 195, 3), Trim(200, None, 3)]),
    "the first position is what a read was told is trimmed": (
        "first",
        [*good(), Trim(200, None, 3), Read(2, 201, 202, "trimmed"), First(203, 204, 2)],
    ),
    "a position is read after it was trimmed": (
        "trimmed-gone",
        [*good(), Trim(200, 201, 3), Read(2, 202, 203, (1, 1))],
    ),
    "a position is in a range after it was trimmed": (
        "trimmed-gone",
        [*good(), Trim(200, 201, 3), Range(202, 203, 2, 3, None, ((2, (1, 1)),))],
    ),
    "a position is delivered after it was trimmed": (
        "trimmed-gone",
        [*good(), Trim(200, 201, 3), Sub(9, 2, inv=202, ret=203), Deliver(9, 204, 2, (1, 1))],
    ),
    "another key": ("as-appended", change(good(), Read, lambda event: event.pos == 1, key="blue")),
    "a key where there was none": ("as-appended", [*good(), Read(2, 200, 201, (1, 1), key="red")]),
    "no key where there was one": ("as-appended", [*good(), Read(1, 200, 201, (1, 0), key=None)]),
    "another shard than the receipt's": ("as-appended", change(good(), Read, lambda event: event.pos == 1, shard=1)),
    "a time that the producer's clock did not show": (
        "as-appended",
        change(good(), Read, lambda event: event.pos == 1, ts=511),
    ),
    "two readers are told different times": ("as-appended", [*good(), Read(12, 200, 201, (1, 4), ts=10)]),
    "two readers are told different shards": (
        "as-appended",
        [*good(), Read(12, 200, 201, (1, 4), shard=5), Read(12, 200, 201, (1, 4), shard=4)],
    ),
    "a later time begins earlier": ("by-time", change(good(), Sub, lambda event: event.sub == 5, start=11)),
    "an earlier time begins later": ("by-time", change(good(), Sub, lambda event: event.sub == 6, start=13)),
    "a time before all clocks begins in the middle": (
        "by-time",
        change(
            change(good(), Sub, lambda event: event.sub == 6, start=2, at=-99999),
            Plan,
            lambda event: True,
            clock_us=(-50000, 50000),
        ),
    ),
    "a time behind all clocks begins in the middle": (
        "by-time",
        change(
            change(good(), Sub, lambda event: event.sub == 5, at=99999, start=12),
            Plan,
            lambda event: True,
            clock_us=(-50000, 50000),
        ),
    ),
    "a record is at two positions": ("once", dumped((*HELD, (2, 0)), (*HELD, (2, 0)))),
    "a retry has another position": (
        "once",
        [
            *dumped((*HELD, (1, 4)), (*HELD, (1, 4))),
            Append(id=(1, 4), n=1, inv=100, ret=140, st="ok", pos=13, key="red"),
        ],
    ),
    "a record that nobody appended": ("known", dumped((*HELD, (77, 0)), (*HELD, (77, 0)))),
    "a speculation that nobody appended": ("known", [*good(), Spec(sub=3, t=170, pos=8, id=(77, 0), att=2)]),
    "a failed append is there": ("failed-absent", dumped((*HELD, (8, 0)), (*HELD, (8, 0)))),
    "half of a batch of unknown outcome": ("whole", dumped((*HELD, (9, 0)), (*HELD, (9, 0)))),
    "a batch of unknown outcome is apart": (
        "whole",
        [*dumped(*[(*HELD, (9, 0), (8, 8), (9, 1))] * 2), Append(id=(8, 8), n=1, inv=120, ret=130, st="info")],
    ),
    "an acknowledged batch is apart": ("whole", dumped(*[with_items({4: (2, 0), 5: (1, 3)})] * 2)),
    "a published set is in another order": ("whole", dumped(*[with_items({7: (4, 0), 8: (3, 0), 9: (3, 1)})] * 2)),
    "a tail is inside of a batch": ("whole", [*good(), Tail(inv=30, ret=40, n=3)]),
    "a session is out of order": ("session-order", dumped(*[with_items({5: (2, 1), 10: (2, 0)})] * 2)),
    "a confirmation without a delivery": (
        "confirmed-delivered",
        [*good(), Confirm(sub=3, t=170, lo=8, hi=8, att=2)],
    ),
    "a confirmation of another attempt": (
        "confirmed-delivered",
        change(good(), Confirm, lambda event: event.t == 166, att=3),
    ),
    "a confirmation before the delivery": (
        "confirmed-delivered",
        [*good(), Confirm(sub=3, t=170, lo=8, hi=8, att=2), Spec(sub=3, t=171, pos=8, id=(3, 1), att=2)],
    ),
    "a failed attempt is confirmed": ("failed-final", [*good(), Confirm(sub=3, t=170, lo=7, hi=7, att=1)]),
    "a failed attempt goes on and is confirmed": (
        "failed-final",
        [*good(), Spec(sub=3, t=170, pos=8, id=(3, 1), att=1), Confirm(sub=3, t=171, lo=8, hi=8, att=1)],
    ),
    "something confirmed fails": ("confirmed-final", [*good(), Fail(sub=3, t=170, lo=7, att=2)]),
}


def test_the_history_is_good() -> None:
    verdict = check(good())
    assert verdict.ok, verdict


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_found(name: str) -> None:
    rule, events = CORRUPTIONS[name]
    verdict = check(events)
    assert rule in verdict.found, verdict
    assert not verdict.ok
    text = next(violation.text for violation in verdict.violations if violation.rule == rule)
    assert any(letter.isdigit() for letter in text), "it says where"


def test_every_rule_is_violated_by_something() -> None:
    of_consumers = {rule for rule, _ in test_consumer_rules.CORRUPTIONS.values()}
    assert {rule for rule, _ in CORRUPTIONS.values()} | of_consumers == {rule.name for rule in RULES}


def test_what_a_trim_took_may_be_seen_by_calls_that_began_before_it_returned() -> None:
    gone: Events = [Read(2, 200, 205, (1, 1)), Range(200, 205, 2, 3, None, ((2, (1, 1)),)), First(200, 205, 1)]
    subscription: Events = [Sub(9, 2, inv=201, ret=203), Deliver(9, 204, 2, (1, 1))]
    for trim in (Trim(199, 201, 3), Trim(100, None, 3)):
        assert check([*good(), trim, *gone, *subscription]).ok, trim


def test_a_replica_that_was_cut_off_may_answer_reads_of_what_was_trimmed() -> None:
    trim = Trim(200, 201, 3, seen=False)
    assert check([*good(), trim, Read(2, 202, 203, (1, 1))]).ok
    assert "first" in check([*good(), trim, First(202, 203, 1)]).found
    assert "trimmed-gone" in check([*good(), trim, Range(202, 203, 2, 3, None, ((2, (1, 1)),))]).found


def test_a_subscription_by_time_may_begin_where_a_trim_has_put_the_first_position() -> None:
    early = Sub(sub=9, start=11, inv=200, ret=203, at=-99999)
    assert "by-time" in check([*good(), early]).found
    assert check([*good(), early, Trim(199, 201, 11)]).ok
    assert "by-time" in check([*good(), early, Trim(199, 201, 10)]).found


def test_a_time_is_one_of_any_attempt() -> None:
    tries: Events = [
        Append(id=(1, 0), n=1, inv=1, ret=2, st="info", ts=(5, 6)),
        Append(id=(1, 0), n=1, inv=3, ret=4, st="ok", pos=1, ts=(8, 9)),
    ]
    dump = Final(node="a", runs=((1, ((1, 0),)),))
    for time_us, is_right in ((4, False), (5, True), (6, True), (7, False), (9, True), (10, False)):
        verdict = check([*tries, Read(1, 5, 6, (1, 0), ts=time_us), dump])
        assert verdict.ok is is_right, (time_us, verdict)


def test_what_was_trimmed_may_be_missing() -> None:
    trim = Trim(inv=200, ret=210, before=4)
    runs = ((4, HELD[3:]),)
    kept = [event for event in good() if not isinstance(event, Final)]
    dumps = [Final(node="a", runs=runs), Final(node="b", runs=((1, HELD),))]
    read = Read(pos=2, inv=205, ret=206, id="trimmed")
    assert check([*kept, trim, read, *dumps]).ok
    assert check([*kept, trim, Final(node="a", runs=((5, HELD[4:]),)), dumps[1]]).found == {"enough-copies": 1}


def test_a_batch_of_unknown_outcome_may_have_lost_its_beginning_to_a_trim() -> None:
    trim = Trim(inv=200, ret=210, before=11)
    runs = ((11, HELD[10:]),)
    tries = [
        Append(id=(2, 1), n=2, inv=60, ret=90, st="info"),
        Append(id=(1, 4), n=1, inv=100, ret=110, st="ok", pos=12),
    ]
    dumps = [Final(node="a", runs=runs)]
    assert check([*tries, trim, *dumps]).ok
    assert "whole" in check([*tries, msgspec.structs.replace(trim, before=10), *dumps]).found


def test_positions_that_were_lost_before_anybody_saw_them() -> None:
    held: tuple[Id | Hole, ...] = ((1, 0), "lost", (1, 1))
    appends = [Append(id=(1, at), n=1, inv=at, ret=9, st="info") for at in range(2)]
    delivered = [Deliver(sub=1, ret=10, pos=1, id=(1, 0)), Deliver(sub=1, ret=11, pos=3, id=(1, 1))]
    told = Read(pos=2, inv=10, ret=11, id="lost")
    assert check([*appends, told, Sub(sub=1, start=1), *delivered, Final(node="a", runs=((1, held),))]).ok


def test_scattered_batches() -> None:
    """Where an engine says each position, batches need not be contiguous, and must still be there."""
    scattered = Append(id=(1, 0), n=3, inv=1, ret=9, st="ok", pos=(1, 3, 4))
    other = Append(id=(2, 0), n=2, inv=1, ret=9, st="info")
    events: Events = [scattered, other, Tail(inv=2, ret=3, n=3)]
    assert check([*events, Final(node="a", runs=((1, ((1, 0), (2, 0), (1, 1), (1, 2), (2, 1))),))]).ok
    torn = check([*events, Final(node="a", runs=((1, ((1, 0), (2, 0), (1, 1), (1, 2))),))])
    assert torn.found == {"whole": 1}


def test_attempts_at_the_same_append() -> None:
    """A producer that was killed tries again under the same id: once or not at all, whatever each try was told."""
    tries: Events = [
        Append(id=(1, 0), n=1, inv=1, ret=2, st="fail"),
        Append(id=(1, 0), n=1, inv=3, ret=3, st="info"),
        Append(id=(1, 0), n=1, inv=20, ret=30, st="ok", pos=1),
        Append(id=(1, 0), n=1, inv=40, ret=50, st="ok", pos=1),
    ]
    dump = Final(node="a", runs=((1, ((1, 0),)),))
    assert check([*tries, Read(pos=1, inv=4, ret=5, id=(1, 0)), dump]).ok
    assert "real-time" in check([*tries, Read(pos=1, inv=1, ret=2, id=(1, 0)), dump]).found
    assert "real-time" in check([*tries, Read(pos=1, inv=31, ret=32, id=None), dump]).found


def test_many_violations_are_counted_and_some_are_told() -> None:
    events = [Append(id=(at, 0), n=1, inv=1, ret=2, st="ok", pos=1 + at) for at in range(100)]
    verdict = check([*events, Final(node="a", runs=())])
    assert verdict.found == {"acknowledged-kept": 100}
    assert len(verdict.violations) == REPORTED_MAX
    assert str(verdict.violations[0]).startswith("rule 1, acknowledged-kept: position 1 held 0/0 in a receipt at 2")


def test_positions_far_apart_cost_nothing() -> None:
    far = Append(id=(1, 0), n=1, inv=1, ret=2, st="ok", pos=1 << 60)
    confirm: Events = [Sub(sub=1, start=1), Confirm(sub=1, t=3, lo=1, hi=1 << 61, att=1)]
    verdict = check([far, *confirm, Final(node="a", runs=((1 << 60, ((1, 0),)),))])
    assert set(verdict.found) == {"no-gap", "confirmed-delivered"}
