"""What became of speculative deliveries: which were confirmed, and which confirmations had nothing behind them.

An attempt of a subscription delivers records that are not final. `confirm` makes a stretch of them final, `fail`
takes back all from some position on; the next attempt begins there. Events count in the order of their lines.
"""

from typing import NamedTuple

from ithaca.proof.history import Confirm, Fail, Id, Spec
from ithaca.proof.rules import Findings


class Confirmed(NamedTuple):
    """A speculative delivery that became final."""

    sub: int
    time: int
    pos: int
    id: Id
    line: int


class Unbacked(NamedTuple):
    """Positions `lo` to `hi`, both included, that were confirmed and never delivered: holes, or a violation."""

    event: Confirm
    lo: int
    hi: int


class Speculation(NamedTuple):
    """The outcome of all speculation of a history."""

    confirmed: list[Confirmed]
    unbacked: list[Unbacked]


def resolve(events: list[tuple[int, Spec | Confirm | Fail]], findings: Findings) -> Speculation:
    """Follow every subscription through its attempts (rules 17 and 18)."""
    subscriptions: dict[int, _Subscription] = {}
    found = Speculation([], [])
    for line, event in events:
        subscription = subscriptions.setdefault(event.sub, _Subscription())
        match event:
            case Spec():
                subscription.delivered(event)
            case Confirm():
                subscription.confirm(line, event, found, findings)
            case Fail():
                subscription.fail(event, findings)
    return found


class _Subscription:
    def __init__(self) -> None:
        self._open: dict[int, Spec] = {}
        self._failed: dict[int, int] = {}
        """From which position on an attempt has failed."""
        self._confirmed_to = -1

    def delivered(self, event: Spec) -> None:
        if event.pos < self._failed.get(event.att, event.pos + 1):
            self._open[event.pos] = event

    def confirm(self, line: int, event: Confirm, found: Speculation, findings: Findings) -> None:
        failed_from = self._failed.get(event.att)
        if failed_from is not None and event.hi >= failed_from:
            findings.add(
                "failed-final",
                f"subscription {event.sub} confirmed positions {event.lo} to {event.hi} of attempt {event.att} at "
                f"{event.t}, which had failed from {failed_from} on",
            )
            return
        expected = event.lo
        for pos in self._open_between(event.lo, event.hi):
            spec = self._open[pos]
            if spec.att != event.att:
                continue
            if pos > expected:
                found.unbacked.append(Unbacked(event, expected, pos - 1))
            expected = pos + 1
            del self._open[pos]
            found.confirmed.append(Confirmed(event.sub, event.t, pos, spec.id, line))
        if expected <= event.hi:
            found.unbacked.append(Unbacked(event, expected, event.hi))
        self._confirmed_to = max(self._confirmed_to, event.hi)

    def _open_between(self, lo: int, hi: int) -> list[int]:
        if hi - lo < len(self._open):
            return [pos for pos in range(lo, hi + 1) if pos in self._open]
        return sorted(pos for pos in self._open if lo <= pos <= hi)

    def fail(self, event: Fail, findings: Findings) -> None:
        if event.lo <= self._confirmed_to:
            findings.add(
                "confirmed-final",
                f"subscription {event.sub} failed from position {event.lo} on at {event.t}, and had confirmed up to "
                f"{self._confirmed_to}",
            )
        self._failed[event.att] = min(event.lo, self._failed.get(event.att, event.lo))
        self._open = {pos: spec for pos, spec in self._open.items() if pos < event.lo or spec.att != event.att}
