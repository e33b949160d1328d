"""The rule `by-time`: a subscription from a time on begins with the first record that was ordered then or later.

The order has a time of its own, which never falls: τ(p) for position p. Nobody is told it, but every answer bounds
it. A subscription from the time T that begins at s says that everything before s was ordered before T, unless a trim
had taken what is before s; and that s was ordered at T or later, if s was there when it was asked. Where it is known
how far the clock of the order may be from that of the history, an append bounds the time of its records as well: they
were ordered after it began, and before anybody had seen them.

Times that never fall and respect all bounds exist if and only if no lower bound is above an upper bound of its own
position or of a later one: the running maximum of the lower bounds is such a choice, or there is none.
"""

import numpy as np
from msgspec import UNSET

from ithaca.proof.checks.times import known_unwritten, known_written
from ithaca.proof.columns import Ints
from ithaca.proof.history import Sub
from ithaca.proof.ledger import Ledger
from ithaca.proof.rules import Findings

_NO_LOW, _NO_HIGH = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_NS_PER_US = 1000


def check_order_time(ledger: Ledger, findings: Findings) -> None:
    """Judge where subscriptions by time began."""
    asked = [sub for sub in ledger.history.subs.values() if sub.at is not UNSET and sub.inv is not UNSET]
    if not asked or not len(ledger.axis):
        return
    written_ns = _earliest(ledger)
    low, high = _bounds_of_appends(ledger, written_ns)
    who_low, who_high = np.full(len(low), -1, np.int64), np.full(len(high), -1, np.int64)
    trims = ledger.history.trims
    records = np.flatnonzero(ledger.is_record())
    for row, sub in enumerate(asked):
        assert sub.at is not UNSET
        assert sub.inv is not UNSET
        index = int(np.searchsorted(ledger.axis, sub.start))
        is_there = index < len(ledger.axis) and ledger.axis[index] == sub.start and written_ns[index] < sub.inv
        if is_there and low[index] < sub.at:
            low[index], who_low[index] = sub.at, row
        ended = _NO_HIGH if sub.ret is UNSET else sub.ret
        # Positions before it may be empty: what counts is the record before it, unless that was trimmed.
        before = int(np.searchsorted(records, index)) - 1
        if before < 0:
            continue
        last = int(records[before])
        is_trimmed = any(trim.before > ledger.axis[last] and trim.inv <= ended for trim in trims)
        if not is_trimmed and high[last] > sub.at - 1:
            high[last], who_high[last] = sub.at - 1, row
    running = np.maximum.accumulate(low)

    def describe(at: int) -> str:
        earlier = int(np.flatnonzero(low[: at + 1] == running[at])[0])
        late = _said(asked, who_high[at], f"position {ledger.axis[at]} was seen too early for {running[at]}")
        early = _said(asked, who_low[earlier], f"position {ledger.axis[earlier]} was appended too late for {high[at]}")
        return f"{early}, and {late}"

    findings.each("by-time", np.flatnonzero(running > high).tolist(), describe)


def _said(asked: list[Sub], row: int, otherwise: str) -> str:
    if row < 0:
        return otherwise
    return f"subscription {asked[row].sub}, from the time {asked[row].at} on, began at position {asked[row].start}"


def _earliest(ledger: Ledger) -> Ints:
    """When each position of the axis was first known to be there; what is before another is not later there."""
    written = np.full(len(ledger.axis), _NO_HIGH, np.int64)
    for bounds in known_written(ledger):
        np.minimum.at(written, bounds.at, bounds.time)
    earliest: Ints = np.minimum.accumulate(written[::-1])[::-1]
    return earliest


def _bounds_of_appends(ledger: Ledger, written_ns: Ints) -> tuple[Ints, Ints]:
    low = np.full(len(ledger.axis), _NO_LOW, np.int64)
    high = np.full(len(ledger.axis), _NO_HIGH, np.int64)
    clock_us = ledger.history.plan.clock_us
    if clock_us is not UNSET:
        for bounds in known_unwritten(ledger):
            np.maximum.at(low, bounds.at, bounds.time // _NS_PER_US + clock_us[0])
        seen = written_ns != _NO_HIGH
        high[seen] = -(-written_ns[seen] // _NS_PER_US) + clock_us[1]
    return low, high
