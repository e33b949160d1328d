"""Rules about which record is where: `one-record`, `once`, `known`, `failed-absent`, `whole`, `session-order`."""

import numpy as np

from ithaca.model.positions import FIRST
from ithaca.proof.columns import OK, Ints
from ithaca.proof.history import Spec
from ithaca.proof.ledger import ABSENT, LOST_ID, Ledger, Seen
from ithaca.proof.rules import Findings


def check_records(ledger: Ledger, findings: Findings) -> None:
    """Judge what everybody saw at each position; nothing here depends on times."""
    for seen in ledger.seen:
        _check_one_record(ledger, seen, findings)
    _check_known(ledger, findings)
    _check_once(ledger, findings)
    _check_session_order(ledger, findings)


def _check_one_record(ledger: Ledger, seen: Seen, findings: Findings) -> None:
    different = np.flatnonzero((ledger.held[seen.at] != seen.id) & (seen.id != LOST_ID))

    def describe(row: int) -> str:
        pos, held = int(seen.pos[row]), int(ledger.held[seen.at[row]])
        here = f"{ledger.name(int(seen.id[row]))} in {sighting(seen, row)}"
        return f"position {pos} holds {here}, and {ledger.name(held)} in {_witness(ledger, pos, held)}"

    findings.each("one-record", different.tolist(), describe)


def sighting(seen: Seen, row: int) -> str:
    """Who saw it, and when."""
    return seen.who if seen.time is None else f"{seen.who} at {seen.time[row]}"


def _witness(ledger: Ledger, pos: int, held: int) -> str:
    for seen in reversed(ledger.seen):
        rows = np.flatnonzero((seen.pos == pos) & (seen.id == held))
        if len(rows):
            return sighting(seen, int(rows[0]))
    raise AssertionError("what a position holds was seen by somebody")


def _check_known(ledger: Ledger, findings: Findings) -> None:
    strangers = np.flatnonzero(ledger.is_record() & (ledger.numbers == ABSENT))
    failed = np.isin(ledger.held[strangers], ledger.failed_ids)

    def describe(at: int) -> str:
        return f"position {ledger.axis[at]} holds {ledger.name(int(ledger.held[at]))}"

    findings.each("failed-absent", strangers[failed].tolist(), lambda at: f"{describe(at)}, whose append failed")
    findings.each("known", strangers[~failed].tolist(), lambda at: f"{describe(at)}, which nobody appended")
    _check_speculated(ledger, findings)


def _check_speculated(ledger: Ledger, findings: Findings) -> None:
    specs = [event for _, event in ledger.history.speculation if isinstance(event, Spec)]
    ids = np.array([event.id for event in specs], np.int64).reshape(-1, 2)
    numbers = ledger.id_of(ids[:, 0], ids[:, 1])
    strange = (ledger.number_of(numbers) == ABSENT) & ~np.isin(numbers, ledger.failed_ids)
    findings.each(
        "known",
        np.flatnonzero(strange).tolist(),
        lambda row: (
            f"subscription {specs[row].sub} was given {ledger.name(int(numbers[row]))} for position {specs[row].pos} "
            f"at {specs[row].t}, which nobody appended"
        ),
    )


def _check_once(ledger: Ledger, findings: Findings) -> None:
    known = np.flatnonzero(ledger.numbers >= 0)
    again = known[ledger.place[ledger.numbers[known]] != known]
    findings.each(
        "once",
        again.tolist(),
        lambda at: (
            f"{ledger.name(int(ledger.held[at]))} is at position {ledger.axis[at]} and at "
            f"{ledger.axis[ledger.place[ledger.numbers[at]]]}"
        ),
    )


def _check_session_order(ledger: Ledger, findings: Findings) -> None:
    placed = np.flatnonzero(ledger.place >= 0)
    ids, places = ledger.ids[placed], ledger.place[placed]
    session = ledger.session_of(ids)
    backwards = np.flatnonzero((session[1:] == session[:-1]) & (places[1:] < places[:-1]))
    findings.each(
        "session-order",
        backwards.tolist(),
        lambda row: (
            f"{ledger.name(int(ids[row + 1]))} is at position {ledger.axis[places[row + 1]]}, before "
            f"{ledger.name(int(ids[row]))} at {ledger.axis[places[row]]}"
        ),
    )


def check_whole(ledger: Ledger, findings: Findings) -> None:
    """Judge batches and published sets by the final log; one that was cut by a trim, by what is left of it.

    Where the engine promises no contiguity (some receipt is a list), only that all records are there.
    """
    unit = ledger.history.lines.unit[ledger.records.line]
    sizes = np.bincount(unit)
    rows = np.flatnonzero(sizes[unit] > 1)
    unit, offset = unit[rows], ledger.records.unit_offset[rows]
    place = ledger.place[ledger.records.number[rows]]
    there = place >= 0
    low, high = _extremes(ledger.axis[place[there]] - offset[there], unit[there], len(sizes))
    gone = ~there & (low <= high)[unit]
    torn = np.zeros(len(sizes), bool)
    if ledger.history.scattered:
        torn[unit[gone]] = ledger.trimmed_to <= FIRST
    else:
        torn[unit[gone & (low[unit] + offset >= ledger.trimmed_to)]] = True
        torn |= (low < high) | (low < FIRST)  # a batch that began before the log did has lost its beginning
    findings.each("whole", np.flatnonzero(torn).tolist(), lambda at: _torn(ledger, at))


def _extremes(values: Ints, groups: Ints, count: int) -> tuple[Ints, Ints]:
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(low, groups, values)
    np.maximum.at(high, groups, values)
    return low, high


def _torn(ledger: Ledger, unit: int) -> str:
    lines, records = ledger.history.lines, ledger.records
    rows = np.flatnonzero(lines.unit[records.line] == unit)
    places = ledger.place[records.number[rows]]
    found = ["-" if place < 0 else str(ledger.axis[place]) for place in places[:20].tolist()]
    first = int(records.line[rows[0]])
    what = "acknowledged" if lines.status[first] == OK else "tried"
    more = ", …" if len(rows) > len(found) else ""
    name = ledger.name(int(ledger.ids[records.number[rows[0]]]))
    return f"the {len(rows)} records from {name} on, {what} together, are at {', '.join(found)}{more}"
