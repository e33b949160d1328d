"""The rule `range-whole`: a range that was read to its end has everything that it should have."""

import numpy as np

from ithaca.proof.columns import Bounds, Ints
from ithaca.proof.filters import Matcher
from ithaca.proof.ledger import Ledger
from ithaca.proof.rules import Findings

_TOLD_MAX = 3
"""Positions of one range that are named."""


def check_ranges(ledger: Ledger, matching: Matcher, findings: Findings) -> None:
    """Judge each range by what the positions hold."""
    ranges, rows = ledger.history.ranges, ledger.history.rows
    edges = np.searchsorted(rows.range, np.arange(len(ranges) + 1))
    for number, bounds in enumerate(ranges):
        has = rows.pos[edges[number] : edges[number + 1]]
        for problem in _problems(bounds, has, ledger, matching):
            name = "all" if bounds.filter is None else bounds.filter
            findings.add("range-whole", f"the range of {name} that returned at {bounds.ret} {problem}")


def _problems(bounds: Bounds, has: Ints, ledger: Ledger, matching: Matcher) -> list[str]:
    problems = []
    if (np.diff(has) <= 0).any():
        row = int(np.flatnonzero(np.diff(has) <= 0)[0])
        problems.append(f"has position {has[row + 1]} after {has[row]}")
    outside = has[(has < bounds.start) | (has >= bounds.stop)]
    if bounds.filter is None:
        due = int(ledger.due(*np.array([[bounds.start], [max(bounds.start, bounds.stop)]]))[0])
        if len(has) != due:
            problems.append(f"has {len(has)} of the {due} records from {bounds.start} to {bounds.stop}")
        strange: Ints = outside
    else:
        certain, possible = matching(bounds.filter)
        wanted = certain[np.searchsorted(certain, bounds.start) : np.searchsorted(certain, bounds.stop)]
        missing = np.setdiff1d(wanted, has)
        if len(missing):
            problems.append(f"(from {bounds.start} to {bounds.stop}) has left out {_some(missing)}")
        strange = np.union1d(np.setdiff1d(has, possible), outside)
    if len(strange):
        problems.append(f"(from {bounds.start} to {bounds.stop}) has {_some(strange)}, which do not belong to it")
    return problems


def _some(positions: Ints) -> str:
    more = f" and {len(positions) - _TOLD_MAX} more" if len(positions) > _TOLD_MAX else ""
    return "positions " + ", ".join(map(str, positions[:_TOLD_MAX].tolist())) + more
