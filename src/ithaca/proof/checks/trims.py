"""Rules about trims: `trimmed-told`, `first`, `trimmed-gone`.

The first position is a number that only rises. So what was known of it before a call bounds its answer from below: the
trims that had returned, and what others had been told before it began. From above it is bounded by the trims that had
begun before it returned. That is exact, as for any register that only rises: the largest lower bound of an answer never
comes after it.
"""

import numpy as np
from msgspec import UNSET

from ithaca.model.positions import FIRST
from ithaca.proof.columns import Ints
from ithaca.proof.ledger import TRIMMED_ID, Ledger
from ithaca.proof.rules import Findings


class _Reached:
    """How far trims had come by some instant."""

    def __init__(self, times: Ints, positions: Ints) -> None:
        order = np.argsort(times, kind="stable")
        self._times = times[order]
        self._positions = np.maximum.accumulate(np.concatenate(([FIRST], positions[order])))

    def before(self, instants: Ints) -> Ints:
        """What had been reached before these instants."""
        found: Ints = self._positions[np.searchsorted(self._times, instants, "left")]
        return found

    def by(self, instants: Ints) -> Ints:
        """What had been reached before, or at, these instants."""
        found: Ints = self._positions[np.searchsorted(self._times, instants, "right")]
        return found


def check_trims(ledger: Ledger, findings: Findings) -> None:
    """Judge what was said of the first position, and what was given out below it."""
    trims = ledger.history.trims
    begun = _reached([(trim.inv, trim.before) for trim in trims])
    returned = [(trim.ret, trim.before) for trim in trims if trim.ret is not None]
    _check_told(ledger, begun, findings)
    _check_first(ledger, begun, returned, findings)
    seen = [(trim.ret, trim.before) for trim in trims if trim.ret is not None and trim.seen is not False]
    _check_gone(ledger, _reached(returned), _reached(seen), findings)


def _reached(pairs: list[tuple[int, int]]) -> _Reached:
    times, positions = np.array(pairs, np.int64).reshape(-1, 2).T
    return _Reached(times, positions)


def _trimmed(ledger: Ledger) -> Ints:
    """The reads that said so."""
    reads = ledger.history.reads
    return np.flatnonzero(ledger.id_of(reads.session, reads.seq) == TRIMMED_ID)


def _check_told(ledger: Ledger, begun: _Reached, findings: Findings) -> None:
    reads, told = ledger.history.reads, _trimmed(ledger)
    findings.each(
        "trimmed-told",
        told[reads.pos[told] >= begun.by(reads.ret[told])].tolist(),
        lambda row: f"the read of position {reads.pos[row]} that returned at {reads.ret[row]} said trimmed",
    )


def _check_first(ledger: Ledger, begun: _Reached, returned: list[tuple[int, int]], findings: Findings) -> None:
    firsts, reads, told = ledger.history.firsts, ledger.history.reads, _trimmed(ledger)
    known = list(zip(firsts.ret.tolist(), firsts.n.tolist(), strict=True)) + returned
    known += zip(reads.ret[told].tolist(), (reads.pos[told] + 1).tolist(), strict=True)
    least, most = _reached(known).before(firsts.inv), begun.by(firsts.ret)
    findings.each(
        "first",
        np.flatnonzero(firsts.n < least).tolist(),
        lambda row: (
            f"the first position was said to be {firsts.n[row]} at {firsts.ret[row]}, and {least[row]} was known before"
        ),
    )
    findings.each(
        "first",
        np.flatnonzero(firsts.n > most).tolist(),
        lambda row: (
            f"the first position was said to be {firsts.n[row]} at {firsts.ret[row]}, and nobody had asked to trim "
            f"beyond {most[row]}"
        ),
    )


def _check_gone(ledger: Ledger, returned: _Reached, seen: _Reached, findings: Findings) -> None:
    history = ledger.history
    reads, rows, deliveries = history.reads, history.rows, history.deliveries
    found = np.flatnonzero((reads.session >= 0) & (reads.pos < seen.before(reads.inv)))
    findings.each(
        "trimmed-gone",
        found.tolist(),
        lambda row: f"position {reads.pos[row]} was read from {reads.inv[row]} on, after it had been trimmed",
    )
    begun = np.array([each.inv for each in history.ranges], np.int64)
    findings.each(
        "trimmed-gone",
        np.flatnonzero(rows.pos < returned.before(begun)[rows.range]).tolist(),
        lambda row: (
            f"a range that began at {begun[rows.range[row]]} has position {rows.pos[row]}, which had been trimmed"
        ),
    )
    for sub in history.subs.values():
        if sub.inv is not UNSET and sub.start < (first := int(returned.before(np.array([sub.inv]))[0])):
            mine = deliveries.pos[deliveries.sub == sub.sub]
            findings.each(
                "trimmed-gone",
                mine[mine < first].tolist(),
                lambda pos, sub=sub: (  # type: ignore[misc]
                    f"subscription {sub.sub} began at {sub.inv} and has position {pos}, which had been trimmed"
                ),
            )
