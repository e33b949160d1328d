"""The rules that a history is judged by, and what a judgement looks like."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

Finding = TypeVar("Finding")

REPORTED_MAX = 20
"""Violations of one rule that are described; all are counted."""


class Rule(NamedTuple):
    """What must hold, and which promise it is part of."""

    number: int
    name: str
    promise: int
    text: str


RULES = (
    Rule(1, "acknowledged-kept", 1, "an acknowledged record is in the final log at its position, unless trimmed"),
    Rule(2, "enough-copies", 1, "each record is on as many replicas at the end as planned, unless trimmed"),
    Rule(3, "nothing-lost", 1, "a position that is called lost was never seen to hold a record"),
    Rule(4, "one-record", 2, "a position holds the same for every receipt, reader, subscription and replica"),
    Rule(
        5,
        "no-gap",
        2,
        "where positions are dense, the dumps cover every one from the trim point to the tail, and none is empty",
    ),
    Rule(6, "seen-kept", 2, "what was read or delivered is in the final log at its position, unless trimmed"),
    Rule(
        7,
        "dense",
        2,
        "a subscription without a filter delivers all from its start to its mark, once, in order",
    ),
    Rule(
        8,
        "complete",
        2,
        "a filtered one delivers exactly what matches, to its last and its mark, once, in order",
    ),
    Rule(9, "trimmed-told", 2, "a read says trimmed only of positions below a trim that had begun"),
    Rule(10, "real-time", 3, "there is an order of instants that explains every answer: the log is linearizable"),
    Rule(11, "once", 4, "a record is at one position"),
    Rule(12, "known", 4, "every record was appended by somebody"),
    Rule(13, "failed-absent", 4, "a record whose append failed is nowhere"),
    Rule(14, "whole", 4, "a batch or a published set is there whole, in its order and without gaps, or not at all"),
    Rule(15, "session-order", 4, "the records of a session are in the order of their numbers"),
    Rule(16, "confirmed-delivered", 5, "what is confirmed was delivered before, in the same attempt"),
    Rule(17, "failed-final", 5, "what failed is never confirmed"),
    Rule(18, "confirmed-final", 5, "what was confirmed never fails"),
    Rule(19, "range-whole", 2, "a range that was read to its end has all that matches up to its stop, once, in order"),
    Rule(20, "first", 2, "the first position never falls, and is where trims have put it"),
    Rule(21, "trimmed-gone", 2, "what a trim took is not given to calls that began after it returned"),
    Rule(22, "as-appended", 2, "the key, time and shard of a record are those that it was appended with"),
    Rule(23, "by-time", 2, "a subscription from a time on begins with the first record ordered then or later"),
    Rule(
        24,
        "one-owner",
        7,
        "whoever has opened a part of a consumer last hands out of it, and commits, and nobody who had it before",
    ),
    Rule(25, "goes-on", 7, "an opening of a consumer stands where the commits before it have put the part"),
    Rule(
        26, "taken-once", 7, "what was committed with what was written for it is written for each record, and no other"
    ),
)
"""Promises are numbered as in docs/proof.md."""

RULE = {rule.name: rule for rule in RULES}


class Violation(NamedTuple):
    """The name of a rule that does not hold, and where."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"rule {RULE[self.rule].number}, {self.rule}: {self.text}"


class Verdict(msgspec.Struct, frozen=True):
    """What came of judging a history.

    >>> Verdict(violations=(), found={}, events={"tail": 1}, no_verdict="there are no final dumps").ok
    False
    """

    violations: tuple[Violation, ...]
    """Of each rule the first `REPORTED_MAX`."""
    found: dict[str, int]
    """How many there are of each rule that is violated."""
    events: dict[str, int]
    """Lines of each kind."""
    no_verdict: str | None
    """Why the history proves nothing, even without violations."""

    @property
    def ok(self) -> bool:
        """Whether the history proves that the rules held."""
        return not self.violations and self.no_verdict is None


class Findings:
    """Collects violations while a history is judged."""

    def __init__(self) -> None:
        self._reported: list[Violation] = []
        self._found: Counter[str] = Counter()

    def add(self, rule: str, text: str) -> None:
        """One violation."""
        self._found[rule] += 1
        if self._found[rule] <= REPORTED_MAX:
            self._reported.append(Violation(rule, text))

    def each(self, rule: str, findings: Iterable[Finding], describe: Callable[[Finding], str]) -> None:
        """A violation per place; only those that are reported are described."""
        for finding in findings:
            self.add(rule, describe(finding) if self._found[rule] < REPORTED_MAX else "")

    def violations(self) -> tuple[Violation, ...]:
        """Those that are described, in the order of the rules."""
        return tuple(sorted(self._reported, key=lambda violation: RULE[violation.rule].number))

    def found(self) -> dict[str, int]:
        """How many there are, by rule, in the order of the rules."""
        return {rule.name: self._found[rule.name] for rule in RULES if self._found[rule.name]}
