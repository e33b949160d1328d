"""Judges a history, exactly and without a search: every append says where its records are.

`rules.RULES` is what is judged; `collect` turns events into columns, `ledger` puts side by side what they say of each
position and each id, and one module of `checks` per group of rules compares. `checks.times` has the argument why
linearizability needs no search.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from os import PathLike

from ithaca.proof.checks.consumers import check_consumers, check_taken
from ithaca.proof.checks.deliveries import check_deliveries
from ithaca.proof.checks.finals import check_empty, check_finals, check_lost
from ithaca.proof.checks.order_time import check_order_time
from ithaca.proof.checks.ranges import check_ranges
from ithaca.proof.checks.records import check_records, check_whole
from ithaca.proof.checks.times import check_times
from ithaca.proof.checks.told import check_told
from ithaca.proof.checks.trims import check_trims
from ithaca.proof.collect import Collector
from ithaca.proof.columns import OK, Collected, distinct
from ithaca.proof.filters import matcher
from ithaca.proof.history import AnyEvent, BadHistory, read_chunks
from ithaca.proof.ledger import Ledger
from ithaca.proof.rules import Findings, Verdict
from ithaca.proof.speculation import resolve

_EVENTS_AT_ONCE = 10_000


def check(events: Iterable[AnyEvent]) -> Verdict:
    """Judge events in the order of their lines; `BadHistory` when they contradict each other as a record of a run."""
    collector, rest = Collector(), iter(events)
    while some := list(islice(rest, _EVENTS_AT_ONCE)):
        collector.add(some)
    return _judge(collector.collected())


def check_file(path: str | PathLike[str], advance: Callable[[int], object] = lambda count: None) -> Verdict:
    """Judge a file; `BadHistory` names the line that is none, and `advance` is told the bytes that were read."""
    collector = Collector()
    try:
        for events in read_chunks(path, advance):
            collector.add(events)
        return _judge(collector.collected())
    except BadHistory as error:
        raise BadHistory(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error


def _judge(history: Collected) -> Verdict:
    findings = Findings()
    speculation = resolve(history.speculation, findings)
    ledger = Ledger(history, speculation)
    check_records(ledger, findings)
    check_lost(ledger, findings)
    check_empty(ledger, findings)
    check_times(ledger, findings)
    check_trims(ledger, findings)
    check_told(ledger, findings)
    check_order_time(ledger, findings)
    check_consumers(ledger, findings)
    if history.dumps:  # without them it is unknown what is a hole, and what is not there
        check_whole(ledger, findings)
        check_finals(ledger, findings)
        matching = matcher(ledger)
        check_deliveries(ledger, speculation, matching, findings)
        check_ranges(ledger, matching, findings)
        check_taken(ledger, matching, findings)
    return Verdict(
        violations=findings.violations(),
        found=findings.found(),
        events={kind: count for kind, count in history.events.items() if count},
        no_verdict="; ".join(_missing(history)) or None,
    )


def _missing(history: Collected) -> list[str]:
    """What a history needs to prove anything, and does not have."""
    reasons = [] if history.dumps else ["there are no final dumps"]
    succeeded = len(distinct(history.lines.unit[history.lines.status == OK]))
    if succeeded < history.plan.ok_min:
        reasons.append(f"{succeeded} appends succeeded, and {history.plan.ok_min} were to")
    for kind, times in history.plan.faults.items():
        if history.faults[kind] < times:
            reasons.append(f"the fault {kind} fired {history.faults[kind]} times, and was to {times} times")
    return reasons
