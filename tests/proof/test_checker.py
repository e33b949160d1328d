"""The checker accepts what a correct log does, and gives no verdict where nothing is proved."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.proof.big_history import write_big_history
from tests.proof.simulated_log import simulated

from ithaca.proof.checker import check, check_file
from ithaca.proof.history import (
    AnyEvent,
    Append,
    BadHistory,
    Deliver,
    Fault,
    Final,
    Mark,
    Plan,
    Publish,
    Range,
    Sub,
    Trim,
    encode,
)
from ithaca.proof.rules import RULES

ONE = Append(id=(7, 0), n=1, inv=1, ret=2, st="ok", pos=1)
DUMP = Final(node="a", runs=((1, ((7, 0),)),))


@given(seed=st.integers(0, 1 << 32), operations=st.integers(0, 60))
def test_a_correct_log_is_accepted(seed: int, operations: int) -> None:
    verdict = check(simulated(Random(seed), operations).history())
    assert verdict.ok, verdict


def test_the_order_of_lines_matters_only_inside_a_subscription() -> None:
    events = simulated(Random(4), 60).history()
    of_subscriptions = [event for event in events if hasattr(event, "sub")]
    others = [event for event in events if not hasattr(event, "sub")]
    Random(5).shuffle(others)
    verdict = check([*others, *of_subscriptions])
    assert verdict.ok, verdict


def test_events_are_counted() -> None:
    verdict = check([ONE, DUMP, Fault(t=1, what="kill x")])
    assert verdict.events == {"append": 1, "final": 1, "fault": 1}


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "there are no final dumps"),
        ([ONE], "there are no final dumps"),
        ([Plan(ok_min=2), ONE, DUMP], "1 appends succeeded, and 2 were to"),
        ([Plan(ok_min=1), ONE, DUMP], None),
        (
            [Plan(faults={"kill": 2}), Fault(t=1, what="kill a"), DUMP, ONE],
            "kill fired 1 times, and was to 2",
        ),
        ([Plan(faults={"kill": 2}), *[Fault(t=1, what="kill a")] * 2, DUMP, ONE], None),
        ([Plan(faults={"kill": 1}), Fault(t=1, what="killer a"), DUMP, ONE], "the fault kill fired 0 times"),
        ([Plan(), DUMP, ONE], None),
    ],
)
def test_what_proves_nothing(events: list[AnyEvent], reason: str | None) -> None:
    verdict = check(events)
    assert not verdict.violations
    assert verdict.ok is (reason is None)
    if reason is not None:
        assert verdict.no_verdict is not None
        assert reason in verdict.no_verdict


def test_a_violation_counts_also_where_there_is_no_verdict() -> None:
    verdict = check([ONE, Append(id=(8, 0), n=1, inv=1, ret=2, st="ok", pos=1)])
    assert verdict.found == {"one-record": 1}
    assert verdict.no_verdict is not None


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([Append(id=(7, 3), n=1, inv=1, ret=2, st="ok")], "the append 7/3 is ok and has no position"),
        ([Append(id=(7, 3), n=2, inv=1, ret=2, st="ok", pos=(1, 2, 3))], "has 2 records and 3 positions"),
        ([Publish(key="k", parts=((1, 0, 1),), inv=1, ret=2, st="ok")], "the publish 'k' is ok and has no position"),
        ([DUMP, DUMP], "two final dumps of a"),
        ([Plan(), Plan()], "two plans"),
        ([Sub(sub=1, start=1), Sub(sub=1, start=1)], "two subscriptions 1"),
        ([Deliver(sub=4, ret=1, pos=1, id=(7, 0))], "subscription 4, which is none"),
        ([Mark(sub=4, t=1, up_to=1)], "subscription 4, which is none"),
        ([Publish("k", ((1, 0, 1),), 1, 2, "ok", 1, (0, 1))], "the publish 'k' has 1 parts and 2 shards"),
        ([Range(1, 2, 1, 2, None, ((1, (7, 0)),), ts=(1, 2))], "from 1 to 2"),
        ([ONE, DUMP, Range(3, 4, 1, 2, "hash=1", ((1, (7, 0)),))], "'hash=1' is neither"),
        ([ONE, DUMP, Sub(sub=1, start=1, filter="odd"), Deliver(sub=1, ret=3, pos=1, id=(7, 0))], "'odd' is neither"),
    ],
)
def test_histories_that_contradict_themselves(events: list[AnyEvent], problem: str) -> None:
    with pytest.raises(BadHistory, match=problem):
        check(events)


def test_a_file_is_judged_like_its_events(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    log = simulated(Random(11), 80)
    events = [event for event in log.history() if not isinstance(event, Trim)]
    path.write_bytes(b"".join(map(encode, events)))
    read: list[int] = []
    verdict = check_file(path, read.append)
    assert verdict == check(events)
    assert sum(read) == path.stat().st_size


def test_a_contradiction_in_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(Plan()) * 2)
    with pytest.raises(BadHistory, match=r"run\.jsonl: there are two plans"):
        check_file(path)


def test_rules_are_numbered_and_named_once() -> None:
    assert [rule.number for rule in RULES] == list(range(1, len(RULES) + 1))
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_a_long_history(tmp_path: Path) -> None:
    events = write_big_history(tmp_path / "run.jsonl", 30_000)
    verdict = check_file(tmp_path / "run.jsonl")
    assert verdict.ok, verdict
    assert sum(verdict.events.values()) == events


def test_the_documentation_lists_the_rules() -> None:
    text = (Path(__file__).parents[2] / "docs" / "proof.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.split("|")[1].strip().isdigit()]
    assert rows == [f"| {rule.number} | `{rule.name}` | {rule.promise} | {rule.text} |" for rule in RULES]
