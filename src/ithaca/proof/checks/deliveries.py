"""Rules about subscriptions: `dense`, `complete`, `confirmed-delivered`."""

import numpy as np

from ithaca.proof.columns import UNKNOWN_KEY, UNKNOWN_SHARD, UNKNOWN_TIME, Deliveries, Ints, Marks, distinct
from ithaca.proof.filters import Matcher
from ithaca.proof.history import Sub
from ithaca.proof.ledger import Ledger
from ithaca.proof.rules import Findings
from ithaca.proof.speculation import Speculation


def check_deliveries(ledger: Ledger, speculation: Speculation, matching: Matcher, findings: Findings) -> None:
    """Judge what each subscription passed on as final, by what the positions hold."""
    _check_backed(ledger, speculation, findings)
    deliveries, marks = _in_order(ledger, speculation), _by_subscription(ledger.history.marks)
    present = distinct(np.concatenate((deliveries.sub, marks.sub)))
    subs = [ledger.history.subs[int(number)] for number in present]
    edges, mark_edges = (np.searchsorted(table.sub, present) for table in (deliveries, marks))
    edges, mark_edges = np.append(edges, len(deliveries.sub)), np.append(mark_edges, len(marks.sub))
    _check_dense(ledger, subs, deliveries, edges, findings)
    for at, sub in enumerate(subs):
        has = Deliveries(*(column[edges[at] : edges[at + 1]] for column in deliveries))
        said = Marks(*(column[mark_edges[at] : mark_edges[at + 1]] for column in marks))
        if sub.filter is not None:
            _check_complete(sub, has.pos, said, matching(sub.filter), findings)
        if len(said.sub):
            _check_marks(ledger, sub, has, said, findings)


def _in_order(ledger: Ledger, speculation: Speculation) -> Deliveries:
    """All final deliveries, by subscription, in the order of lines."""
    plain, untold = ledger.history.deliveries, (UNKNOWN_KEY, UNKNOWN_TIME, UNKNOWN_SHARD)
    rows = [(each.sub, each.time, each.pos, *each.id, each.line, *untold) for each in speculation.confirmed]
    confirmed = np.array(rows, np.int64).reshape(-1, len(Deliveries._fields)).T
    columns = [np.concatenate(pair) for pair in zip(plain, confirmed, strict=True)]
    order = np.lexsort((columns[Deliveries._fields.index("line")], columns[0]))
    return Deliveries(*(column[order] for column in columns))


def _by_subscription(marks: Marks) -> Marks:
    order = np.lexsort((marks.line, marks.sub))
    return Marks(*(column[order] for column in marks))


def _check_backed(ledger: Ledger, speculation: Speculation, findings: Findings) -> None:
    lows, highs = np.array([(lo, hi + 1) for _, lo, hi in speculation.unbacked], np.int64).reshape(-1, 2).T
    for (event, lo, hi), due in zip(speculation.unbacked, ledger.due(lows, highs).tolist(), strict=True):
        if due:
            findings.add(
                "confirmed-delivered",
                f"subscription {event.sub} confirmed positions {event.lo} to {event.hi} of attempt {event.att} at "
                f"{event.t}, and {due} from {lo} to {hi} were not delivered in it",
            )


def _check_dense(ledger: Ledger, subs: list[Sub], deliveries: Deliveries, edges: Ints, findings: Findings) -> None:
    sizes = np.diff(edges)
    previous = np.concatenate(([0], deliveries.pos))[: len(deliveries.pos)]
    begun = np.flatnonzero(sizes)
    previous[edges[begun]] = np.array([sub.start - 1 for sub in subs], np.int64)[begun]
    filtered = np.repeat(np.array([sub.filter is not None for sub in subs], bool), sizes)
    rows = np.flatnonzero((deliveries.pos != previous + 1) & ~filtered)
    has_skipped = ledger.due(previous[rows] + 1, deliveries.pos[rows]) != 0
    findings.each(
        "dense",
        rows[has_skipped | (deliveries.pos[rows] <= previous[rows])].tolist(),
        lambda row: (
            f"subscription {deliveries.sub[row]} delivered position {deliveries.pos[row]} at {deliveries.time[row]}, "
            f"and was due to go on at {previous[row] + 1}"
        ),
    )


def _check_complete(sub: Sub, delivered: Ints, marks: Marks, matching: tuple[Ints, Ints], findings: Findings) -> None:
    certain, possible = matching
    backwards = np.flatnonzero(np.diff(delivered) <= 0)
    findings.each(
        "complete",
        backwards.tolist(),
        lambda row: f"subscription {sub.sub} delivered position {delivered[row + 1]} after {delivered[row]}",
    )
    end = max(int(delivered.max(initial=-1)) + 1, int(marks.up_to.max(initial=0)))
    due = certain[np.searchsorted(certain, sub.start) : np.searchsorted(certain, end)]
    findings.each(
        "complete",
        np.setdiff1d(due, delivered).tolist(),
        lambda pos: f"subscription {sub.sub} ({sub.filter}) left out position {pos}, and says that it has all to {end}",
    )
    wrong = np.union1d(np.setdiff1d(delivered, possible), delivered[delivered < sub.start])
    findings.each(
        "complete",
        wrong.tolist(),
        lambda pos: f"subscription {sub.sub} ({sub.filter}, from {sub.start} on) delivered position {pos}",
    )


def _check_marks(ledger: Ledger, sub: Sub, has: Deliveries, marks: Marks, findings: Findings) -> None:
    """Nothing comes after a mark that lies below it; without a filter, nothing is missing below it either."""
    reached = np.concatenate(([0], np.maximum.accumulate(marks.up_to)))
    rule = "dense" if sub.filter is None else "complete"
    late = np.flatnonzero(has.pos < reached[np.searchsorted(marks.line, has.line)])
    findings.each(
        rule,
        late.tolist(),
        lambda row: (
            f"subscription {sub.sub} delivered position {has.pos[row]} at {has.time[row]}, and had said that it had "
            f"all below {reached[np.searchsorted(marks.line, has.line[row])]}"
        ),
    )
    if sub.filter is None:
        last = np.concatenate(([sub.start - 1], has.pos))[np.searchsorted(has.line, marks.line)]
        findings.each(
            rule,
            np.flatnonzero(ledger.due(last + 1, marks.up_to) > 0).tolist(),
            lambda row: (
                f"subscription {sub.sub} said at {marks.time[row]} that it had all below {marks.up_to[row]}, and the "
                f"last that it had was {last[row]}"
            ),
        )
