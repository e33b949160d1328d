"""Rules about the end: `acknowledged-kept`, `enough-copies`, `nothing-lost`, `no-gap`, `seen-kept`."""

from collections.abc import Callable, Iterator

import numpy as np

from ithaca.proof.checks.records import sighting
from ithaca.proof.columns import Ints, distinct
from ithaca.proof.ledger import EMPTY_ID, LOST_ID, RECEIPT, Flags, Ledger, Seen
from ithaca.proof.rules import Findings


def check_lost(ledger: Ledger, findings: Findings) -> None:
    """Judge positions that are called lost; this needs no dumps."""
    wrong = np.flatnonzero(ledger.lost & ledger.is_record())
    findings.each(
        "nothing-lost",
        wrong.tolist(),
        lambda at: f"position {ledger.axis[at]} is called lost, and held {ledger.name(int(ledger.held[at]))}",
    )


def check_empty(ledger: Ledger, findings: Findings) -> None:
    """Where positions are dense none is empty; this needs no dumps."""
    if ledger.history.plan.dense:
        for seen in ledger.seen:
            for row in np.flatnonzero(seen.id == EMPTY_ID).tolist():
                findings.add("no-gap", f"position {seen.pos[row]} is called empty in {sighting(seen, row)}")


def check_finals(ledger: Ledger, findings: Findings) -> None:
    """Judge what the dumps hold together."""
    copies = np.zeros(len(ledger.axis), np.int64)
    covered = np.zeros(len(ledger.axis), bool)
    dumps = ledger.seen[-len(ledger.history.dumps) :]
    for dump in dumps:
        covered[dump.at] = True
        copies[distinct(dump.at[dump.id >= 0])] += 1
    _check_kept(ledger, covered, findings)
    if ledger.history.plan.dense:
        _check_gaps(ledger, covered, findings)
    _check_copies(ledger, covered, copies, findings)


def _check_kept(ledger: Ledger, covered: Flags, findings: Findings) -> None:
    missing = ~covered & ~ledger.may_be_gone()
    acknowledged = np.zeros(len(covered), bool)
    for seen in reversed(ledger.seen[: -len(ledger.history.dumps)]):
        rows = np.flatnonzero(missing[seen.at] & ~np.isin(seen.id, (LOST_ID, EMPTY_ID)) & ~acknowledged[seen.at])
        if seen.who == RECEIPT:
            acknowledged[seen.at[rows]] = True
        findings.each(
            "acknowledged-kept" if seen.who == RECEIPT else "seen-kept", rows.tolist(), _missing(ledger, seen)
        )


def _missing(ledger: Ledger, seen: Seen) -> Callable[[int], str]:
    def describe(row: int) -> str:
        held = f"{ledger.name(int(seen.id[row]))} in {sighting(seen, row)}"
        return f"position {seen.pos[row]} held {held}, and no dump has that position"

    return describe


def _check_gaps(ledger: Ledger, covered: Flags, findings: Findings) -> None:
    first = ledger.trimmed_to
    positions = ledger.axis[covered & ~ledger.may_be_gone()]
    for low, high in _gaps(positions, first):
        findings.add("no-gap", f"no dump has the positions {low} to {high}")
    end = int(positions[-1]) + 1 if len(positions) else first
    tails = ledger.history.tails
    findings.each(
        "no-gap",
        np.flatnonzero(tails.n > end).tolist(),
        lambda row: (
            f"the tail was said to be {tails.n[row]} at {tails.ret[row]}, and the dumps end before position {end}"
        ),
    )


def _gaps(positions: Ints, first: int) -> Iterator[tuple[int, int]]:
    before = np.concatenate(([first - 1], positions[:-1]))
    for row in np.flatnonzero(positions - before > 1).tolist():
        yield int(before[row]) + 1, int(positions[row]) - 1


def _check_copies(ledger: Ledger, covered: Flags, copies: Ints, findings: Findings) -> None:
    wanted = ledger.history.plan.copies
    few = np.flatnonzero(covered & ledger.is_record() & ~ledger.may_be_gone() & (copies < wanted))
    findings.each(
        "enough-copies",
        few.tolist(),
        lambda at: (
            f"position {ledger.axis[at]} ({ledger.name(int(ledger.held[at]))}) is on {copies[at]} of {wanted} replicas"
        ),
    )
