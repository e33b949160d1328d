"""Rules about subscriptions: `dense`, `complete`, `confirmed-delivered`."""

from collections.abc import Callable
from functools import cache

import numpy as np

from ithaca.proof.collect import NO_KEY, UNKNOWN_KEY, Deliveries, Ints
from ithaca.proof.history import BadHistory, Sub
from ithaca.proof.ledger import ABSENT, Ledger
from ithaca.proof.rules import Findings
from ithaca.proof.speculation import Speculation


def check_deliveries(ledger: Ledger, speculation: Speculation, findings: Findings) -> None:
    """Judge what each subscription passed on as final, by what the positions hold."""
    _check_backed(ledger, speculation, findings)
    deliveries = _in_order(ledger, speculation)
    starts = np.flatnonzero(np.diff(deliveries.sub, prepend=-1))
    subs = [ledger.history.subs[int(deliveries.sub[start])] for start in starts]
    previous = np.concatenate(([0], deliveries.pos))[: len(deliveries.pos)]
    previous[starts] = [sub.start - 1 for sub in subs]
    sizes = np.diff([*starts, len(deliveries.sub)])
    filtered = np.repeat(np.array([sub.filter is not None for sub in subs], bool), sizes)
    _check_dense(ledger, deliveries, previous, filtered, findings)
    matching = _matcher(ledger)
    for start, size, sub in zip(starts, sizes, subs, strict=True):
        if sub.filter is not None:
            _check_complete(ledger, sub, deliveries.pos[start : start + size], matching(sub.filter), findings)


def _in_order(ledger: Ledger, speculation: Speculation) -> Deliveries:
    """All final deliveries, by subscription, in the order of lines."""
    plain = ledger.history.deliveries
    rows = [(each.sub, each.time, each.pos, *each.id, each.line) for each in speculation.confirmed]
    confirmed = np.array(rows, np.int64).reshape(-1, len(Deliveries._fields)).T
    columns = [np.concatenate(pair) for pair in zip(plain, confirmed, strict=True)]
    order = np.lexsort((columns[-1], columns[0]))
    return Deliveries(*(column[order] for column in columns))


def _check_backed(ledger: Ledger, speculation: Speculation, findings: Findings) -> None:
    holes = ledger.holes()
    for event, lo, hi in speculation.unbacked:
        empty = int(np.searchsorted(holes, hi, "right") - np.searchsorted(holes, lo))
        if empty < hi - lo + 1:
            findings.add(
                "confirmed-delivered",
                f"subscription {event.sub} confirmed positions {event.lo} to {event.hi} of attempt {event.att} at "
                f"{event.t}, and {hi - lo + 1 - empty} from {lo} to {hi} were not delivered in it",
            )


def _check_dense(ledger: Ledger, deliveries: Deliveries, previous: Ints, filtered: Ints, findings: Findings) -> None:
    skipped = deliveries.pos - previous - 1
    rows = np.flatnonzero((skipped != 0) & ~filtered)
    holes = ledger.holes()
    empty = np.searchsorted(holes, deliveries.pos[rows]) - np.searchsorted(holes, previous[rows] + 1)
    findings.each(
        "dense",
        rows[skipped[rows] != empty].tolist(),
        lambda row: (
            f"subscription {deliveries.sub[row]} delivered position {deliveries.pos[row]} at {deliveries.time[row]}, "
            f"and was due to go on at {previous[row] + 1}"
        ),
    )


def _matcher(ledger: Ledger) -> Callable[[str], tuple[Ints, Ints]]:
    """Which positions a filter selects for certain, and which it may select."""
    lines, records = ledger.history.lines, ledger.records
    key_of = np.full(len(ledger.ids), UNKNOWN_KEY, np.int64)
    keys = lines.key[records.line]
    said = np.flatnonzero(keys != UNKNOWN_KEY)
    key_of[records.number[said]] = keys[said]
    placed = np.flatnonzero(ledger.numbers != ABSENT)
    position_keys = key_of[ledger.numbers[placed]]

    @cache
    def matching(text: str) -> tuple[Ints, Ints]:
        selected = _selected(text, ledger.history.keys)
        # The last two places stand for UNKNOWN_KEY and NO_KEY, which are -2 and -1.
        table = np.zeros(len(ledger.history.keys) + 2, bool)
        table[selected] = True
        certain = table[position_keys]
        table[UNKNOWN_KEY] = True
        return ledger.axis[placed[certain]], ledger.axis[placed[table[position_keys]]]

    assert (UNKNOWN_KEY, NO_KEY) == (-2, -1)
    return matching


def _selected(text: str, keys: dict[str, int]) -> list[int]:
    kind, _, wanted = text.partition("=")
    if kind == "key":
        return [keys[wanted]] if wanted in keys else []
    if kind == "prefix":
        return [number for key, number in keys.items() if key.startswith(wanted)]
    raise BadHistory(f"the filter {text!r} is neither key=… nor prefix=…")


def _check_complete(ledger: Ledger, sub: Sub, delivered: Ints, matching: tuple[Ints, Ints], findings: Findings) -> None:
    certain, possible = matching
    backwards = np.flatnonzero(np.diff(delivered) <= 0)
    findings.each(
        "complete",
        backwards.tolist(),
        lambda row: f"subscription {sub.sub} delivered position {delivered[row + 1]} after {delivered[row]}",
    )
    due = certain[np.searchsorted(certain, sub.start) : np.searchsorted(certain, delivered.max(), "right")]
    findings.each(
        "complete",
        np.setdiff1d(due, delivered).tolist(),
        lambda pos: f"subscription {sub.sub} ({sub.filter}) left out position {pos}, and delivered {delivered.max()}",
    )
    wrong = np.union1d(np.setdiff1d(delivered, possible), delivered[delivered < sub.start])
    findings.each(
        "complete",
        wrong.tolist(),
        lambda pos: f"subscription {sub.sub} ({sub.filter}, from {sub.start} on) delivered position {pos}",
    )
