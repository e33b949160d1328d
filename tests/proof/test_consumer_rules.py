"""The rules about consumers catch what they are there for: one correct history, and one thing made wrong in it."""

import msgspec
import pytest

from ithaca.proof.checker import check
from ithaca.proof.history import (
    AnyEvent,
    Append,
    BadHistory,
    Commit,
    Deliver,
    Final,
    Hand,
    Id,
    Mark,
    Own,
    Sub,
    Trim,
)

Events = list[AnyEvent]
OUT = 900
HELD: tuple[Id, ...] = (
    *((1, 0), (1, 1), (1, 2), (1, 3)),  # 1 to 4: those that are taken
    *((OUT, 1), (OUT, 2), (OUT, 3)),  # what was written for the first three of them
    (1, 4),  # 8: taken, and not committed
)


def takes(sub: int, position: int, at: int) -> Deliver:
    return Deliver(sub=sub, ret=at, pos=position, id=HELD[position - 1], key="key-1")


def good() -> Events:
    """Somebody takes two records, and is lost; somebody else goes on behind them."""
    return [
        *(Append(id=(1, number), n=1, inv=1, ret=9, st="info", key="key-1") for number in range(5)),
        *(Append(id=(OUT, number), n=1, inv=9, ret=9, st="info", key="out") for number in (1, 2, 3, 4)),
        Sub(sub=1, start=1, filter="part=0:1:key-"),
        Own("billing", 0, 5, 1, 1, inv=10, ret=11, out=OUT),
        *(takes(1, 1, 13), takes(1, 2, 13), Hand(1, 12, 13), Mark(1, 13, 3)),
        *(Commit(1, 3, 14, 14, "info"), Commit(1, 3, 14, 15, "ok")),
        *(takes(1, 3, 17), Hand(1, 16, 17), Mark(1, 17, 4), Commit(1, 4, 18, 18, "info")),
        Sub(sub=2, start=3, filter="part=0:1:key-"),
        Own("billing", 0, 8, 3, 2, inv=19, ret=20, out=OUT),
        *(takes(2, 3, 22), Hand(2, 21, 22), Mark(2, 22, 4)),
        *(Commit(2, 4, 23, 23, "info"), Commit(2, 4, 23, 24, "ok")),
        *(takes(2, 4, 25), takes(2, 8, 25), Mark(2, 25, 9), Commit(2, 9, 26, 26, "info")),
        Final(node="a", runs=((1, HELD),)),
    ]


def with_other(kind: type[Own] | type[Commit], at: int, **fields: object) -> Events:
    """One event of this kind with other fields."""
    events = good()
    place = [place for place, event in enumerate(events) if isinstance(event, kind)][at]
    events[place] = msgspec.structs.replace(events[place], **fields)
    return events


def holding(*held: Id) -> Events:
    return [*good()[:-1], Final(node="a", runs=((1, held),))]


CORRUPTIONS: dict[str, tuple[str, Events]] = {
    "who was fenced hands out": ("one-owner", [*good(), Hand(1, 21, 22)]),
    "who was fenced commits": ("one-owner", [*good(), Commit(1, 4, 21, 22, "ok")]),
    "a commit is lost": ("goes-on", with_other(Own, 1, pos=2)),
    "a commit after the opening counts before it": ("goes-on", with_other(Own, 1, pos=5)),
    "an opening that is told twice has lost its commit": (
        "goes-on",
        [*good(), Sub(sub=3, start=3), Own("billing", 0, 8, 3, 3, inv=27, ret=28, out=OUT)],
    ),
    "a record is left out": (
        "complete",
        [event for event in good() if not (isinstance(event, Deliver) and event.pos == 3)],
    ),
    "a record is taken twice by one": ("complete", [*good(), takes(2, 4, 26)]),
    "nothing was written for a record": ("taken-once", holding(*HELD[:6], (1, 5), HELD[7])),
    "something was written before its commit": (
        "taken-once",
        [*holding(*HELD, (OUT, 9)), Append(id=(OUT, 9), n=1, inv=9, ret=9, st="info")],
    ),
    "something was written for no record": (
        "taken-once",
        [*holding(*HELD, (OUT, 5)), Append(id=(OUT, 5), n=1, inv=9, ret=9, st="info")],
    ),
    "something was written twice": ("once", holding(*HELD, (OUT, 3))),
    "what was written is out of order": ("session-order", holding(*HELD[:4], HELD[5], HELD[4], *HELD[6:])),
}


def test_the_history_is_good() -> None:
    verdict = check(good())
    assert verdict.ok, verdict


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corruption_is_found(name: str) -> None:
    rule, events = CORRUPTIONS[name]
    verdict = check(events)
    assert rule in verdict.found, verdict
    text = next(violation.text for violation in verdict.violations if violation.rule == rule)
    assert any(letter.isdigit() for letter in text), "it says where"


def test_a_call_that_had_begun_before_may_still_hand_out_and_commit() -> None:
    assert check([*good(), Hand(1, 20, 29), Commit(1, 3, 20, 29, "ok")]).ok


def test_a_consumer_that_a_trim_has_passed_goes_on_behind_it() -> None:
    trimmed = [Trim(inv=15, ret=16, before=5, seen=False)]
    held = Final(node="a", runs=((5, HELD[4:]),))
    events = [event for event in with_other(Own, 1, pos=5) if not isinstance(event, Final | Deliver | Mark)]
    assert "goes-on" in check([*events, *good()[-1:]]).found
    assert "goes-on" not in check([*events, *trimmed, held]).found


def test_parts_by_the_hash_of_keys_and_those_without_a_key() -> None:
    events: Events = [
        Append(id=(1, 0), n=1, inv=1, ret=9, st="info", key="key-1"),
        Append(id=(1, 1), n=1, inv=1, ret=9, st="info", key=None),
        *(Sub(sub=part, start=1, filter=f"part={part}:8") for part in range(8)),
        Deliver(sub=3, ret=11, pos=1, id=(1, 0), key="key-1"),
        Deliver(sub=0, ret=11, pos=2, id=(1, 1), key=None),
        *(Mark(sub=part, t=12, up_to=3) for part in range(8)),
        Final(node="a", runs=((1, ((1, 0), (1, 1))),)),
    ]
    assert check(events).ok
    assert "complete" in check([event for event in events if not (isinstance(event, Deliver) and event.sub == 0)]).found
    assert "complete" in check([*events, Deliver(sub=4, ret=13, pos=1, id=(1, 0))]).found
    for wrong in ("part=1", "part=8:8", "part=a:8"):
        with pytest.raises(BadHistory, match="part="):
            check([*events, Sub(sub=9, start=1, filter=wrong), Mark(sub=9, t=12, up_to=3)])


def test_what_no_consumer_has_opened() -> None:
    for event in (Hand(1, 1, 2), Commit(1, 1, 2, 3, "ok")):
        with pytest.raises(BadHistory, match="belongs to no consumer"):
            check([Sub(sub=1, start=1), event])
