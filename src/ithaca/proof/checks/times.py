"""The rule `real-time`: the log is linearizable (and tails never lie inside a batch, which is rule `whole`).

**What it means.** Each operation takes effect at one instant between its invocation and its return, as if the log
were one object used by one client at a time: an append puts its batch at the tail, a read of p returns what is at
p or that nothing is, a tail returns the next position. An append with an unknown outcome takes effect at any instant
after its invocation, or never; one that failed takes none. Instants may coincide, then their operations have some
order among them; an operation precedes another for certain only if it returned *before* the other was invoked.

**Why no search is needed.** The final log says which batches took effect, and, by their positions, in which order:
G₁, G₂, … (a record that nobody knows the batch of, and a no-op, is a batch of its own). So a linearization is nothing
but a choice of instants w₁ ≤ w₂ ≤ … at which they appeared, such that every operation finds an instant for itself:

* the append of Gᵢ needs inv ≤ wᵢ, and wᵢ ≤ ret if it was acknowledged (of several attempts: the first invocation that
  did not fail, the earliest return);
* a read, delivery or confirmation that saw a record of Gᵢ needs an instant at or after wᵢ: wᵢ ≤ ret;
* a read of a position in Gᵢ that found nothing needs one at or before wᵢ: inv ≤ wᵢ;
* a mark, or a range that was read to its end, says that everything below it is there: wᵢ ≤ its time for what is below;
* a tail n that is the first position of Gᵢ needs one between wᵢ₋₁ and wᵢ: wᵢ₋₁ ≤ ret and inv ≤ wᵢ suffice, because
  then the latest of (inv, wᵢ₋₁) is not after the earliest of (ret, wᵢ). A tail inside a batch has none.

All of these are lower and upper bounds of single wᵢ. Let L(i) be the largest lower bound (the latest instant at which
Gᵢ was known unwritten) and U(i) the smallest upper bound (the earliest at which it was known written). Instants that
never fall and respect them exist if and only if L(i) ≤ U(j) for all i ≤ j: that is necessary because
L(i) ≤ wᵢ ≤ wⱼ ≤ U(j), and sufficient because wⱼ = max of L(i) over i ≤ j is such a choice. So the running maximum of L
must never exceed U, which takes one pass. A tail bounds all batches behind it from below and all before it from above;
it is enough to note it at positions n and n-1, the running maximum carries it to the others.

What a trim took before anybody saw it bounds nothing but through tails and reads; that only ever acquits.
"""

from typing import NamedTuple

import numpy as np

from ithaca.proof.columns import OK, Ints
from ithaca.proof.ledger import ABSENT, NULL_ID, RECEIPT, TRIMMED_ID, Ledger
from ithaca.proof.rules import Findings

_BEFORE_ALL, _AFTER_ALL = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Bound(NamedTuple):
    """Bounds that one kind of operation gives: where on the axis, and which instants."""

    what: str
    at: Ints
    time: Ints


def check_times(ledger: Ledger, findings: Findings) -> None:
    """Judge the order of instants."""
    if not len(ledger.axis):
        return
    batch = _batches(ledger)
    _check_tails(ledger, batch, findings)
    unwritten, written = known_unwritten(ledger), known_written(ledger)
    low = np.full(len(ledger.axis), _BEFORE_ALL, np.int64)
    high = np.full(len(ledger.axis), _AFTER_ALL, np.int64)
    for bounds in unwritten:
        np.maximum.at(low, batch[bounds.at], bounds.time)
    for bounds in written:
        np.minimum.at(high, batch[bounds.at], bounds.time)
    running = np.maximum.accumulate(low)
    late = np.flatnonzero(running > high)

    def describe(at: int) -> str:
        earlier = int(np.flatnonzero(low[: at + 1] == running[at])[0])
        there = _evidence(ledger, written, batch, at, int(high[at]))
        return f"{there}, and {_evidence(ledger, unwritten, batch, earlier, int(running[at]))}"

    findings.each("real-time", late.tolist(), describe)


def _batches(ledger: Ledger) -> Ints:
    """For each position of the axis the first one of its batch: there the bounds of the whole batch are noted."""
    batch = np.arange(len(ledger.axis))
    if ledger.history.scattered:
        return batch
    unit = ledger.history.lines.unit[ledger.records.line]
    place = ledger.place[ledger.records.number]
    there = np.flatnonzero((np.bincount(unit)[unit] > 1) & (place != ABSENT)) if len(unit) else np.empty(0, np.int64)
    first = np.full(int(unit.max()) + 1 if len(unit) else 0, len(batch), np.int64)
    np.minimum.at(first, unit[there], place[there])
    batch[place[there]] = first[unit[there]]
    return batch


def _check_tails(ledger: Ledger, batch: Ints, findings: Findings) -> None:
    tails = ledger.history.tails
    inside = np.flatnonzero(batch[ledger.at(tails.n)] == batch[ledger.at(tails.n - 1)])
    findings.each(
        "whole",
        inside.tolist(),
        lambda row: (
            f"the tail was said to be {tails.n[row]} at {tails.ret[row]}, inside of the batch from position "
            f"{ledger.axis[batch[ledger.at(tails.n[row : row + 1])[0]]]} on"
        ),
    )


def known_unwritten(ledger: Ledger) -> list[Bound]:
    """When positions were certainly not there yet."""
    history, records = ledger.history, ledger.records
    begun = np.full(len(ledger.ids), _AFTER_ALL, np.int64)
    np.minimum.at(begun, records.number, history.lines.inv[records.line])
    placed = np.flatnonzero(ledger.place != ABSENT)
    nothing = np.flatnonzero(ledger.id_of(history.reads.session, history.reads.seq) == NULL_ID)
    return [
        Bound("its append began", ledger.place[placed], begun[placed]),
        Bound("a read began that found nothing", ledger.at(history.reads.pos[nothing]), history.reads.inv[nothing]),
        Bound("a tail was asked for that ended before", ledger.at(history.tails.n), history.tails.inv),
    ]


def known_written(ledger: Ledger) -> list[Bound]:
    """When positions were certainly there."""
    history, records = ledger.history, ledger.records
    place = ledger.place[records.number]
    receipts = np.flatnonzero((history.lines.status[records.line] == OK) & (place != ABSENT))
    reads = history.reads
    trimmed = np.flatnonzero(ledger.id_of(reads.session, reads.seq) == TRIMMED_ID)
    ranges = [(each.stop, each.ret) for each in history.ranges if each.start < each.stop]
    stops, ends = np.array(ranges, np.int64).reshape(-1, 2).T
    others = [seen for seen in ledger.seen if seen.time is not None and seen.who != RECEIPT]
    return [
        Bound("its append was acknowledged", place[receipts], history.lines.ret[records.line[receipts]]),
        *(Bound(f"{seen.who} had it", seen.at, seen.time) for seen in others if seen.time is not None),
        Bound("a read said that it was trimmed", ledger.at(reads.pos[trimmed]), reads.ret[trimmed]),
        Bound("a tail behind it was told", ledger.at(history.tails.n - 1), history.tails.ret),
        Bound("a subscription had passed it", ledger.at(history.marks.up_to - 1), history.marks.time),
        Bound("a range ended behind it", ledger.at(stops - 1), ends),
    ]


def _evidence(ledger: Ledger, bounds: list[Bound], batch: Ints, at: int, time: int) -> str:
    for each in bounds:
        rows = np.flatnonzero((batch[each.at] == at) & (each.time == time))
        if len(rows):
            return f"position {ledger.axis[each.at[rows[0]]]} at {time}: {each.what}"
    raise AssertionError("every bound comes from something")
