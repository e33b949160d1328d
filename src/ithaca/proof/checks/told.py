"""The rule `as-appended`: keys, times and shards are those that records were appended with.

A record has the key of its line and the shard of its receipt. Its time is one that the producer's clock showed in one
of the attempts at it. Where a line does not say, whatever one reader was told, every other is told as well.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ithaca.proof.columns import OK, UNKNOWN_KEY, UNKNOWN_SHARD, UNKNOWN_TIME, Ints
from ithaca.proof.ledger import ABSENT, Ledger
from ithaca.proof.rules import Findings


class _Sighting(NamedTuple):
    """Everything that came with records, whoever was told it."""

    number: Ints
    pos: Ints
    time: Ints
    key: Ints
    time_us: Ints
    shard: Ints


def check_told(ledger: Ledger, findings: Findings) -> None:
    """Judge what came with each record."""
    told = _all_told(ledger)
    names = {number: key for key, number in ledger.history.keys.items()}
    records, lines = ledger.records, ledger.history.lines

    def say(row: int, what: str, expected: str) -> str:
        name = ledger.name(int(ledger.ids[told.number[row]]))
        return f"position {told.pos[row]} ({name}) was told at {told.time[row]} to have {what}, and it has {expected}"

    keys = _table(len(ledger.ids), records.number, lines.key[records.line], UNKNOWN_KEY)
    findings.each(
        "as-appended",
        _different(told.number, told.key, keys, UNKNOWN_KEY),
        lambda row: say(row, f"the key {names.get(int(told.key[row]))}", str(names.get(int(keys[told.number[row]])))),
    )
    done = np.flatnonzero(lines.status[records.line] == OK)
    shards = _table(len(ledger.ids), records.number[done], lines.shard[records.line[done]], UNKNOWN_SHARD)
    findings.each(
        "as-appended",
        _different(told.number, told.shard, shards, UNKNOWN_SHARD),
        lambda row: say(row, f"shard {told.shard[row]}", str(shards[told.number[row]])),
    )
    times = _table(len(ledger.ids), told.number[:0], told.time_us[:0], UNKNOWN_TIME)
    findings.each(
        "as-appended",
        _different(told.number, told.time_us, times, UNKNOWN_TIME),
        lambda row: say(row, f"the time {told.time_us[row]}", str(times[told.number[row]])),
    )
    findings.each("as-appended", _wrong_times(ledger, told), _other_time(told, say))


def _other_time(told: _Sighting, say: Callable[[int, str, str], str]) -> Callable[[int], str]:
    return lambda row: say(row, f"the time {told.time_us[row]}", "none that its producer's clock showed")


def _all_told(ledger: Ledger) -> _Sighting:
    history = ledger.history
    parts = []
    for table, time in (
        (history.reads, history.reads.ret),
        (history.deliveries, history.deliveries.time),
        (history.rows, history.rows.time),
    ):
        number = ledger.number_of(ledger.id_of(table.session, table.seq))
        known = np.flatnonzero(number != ABSENT)
        columns = (number, table.pos, time, table.key, table.time_us, table.shard)
        parts.append([column[known] for column in columns])
    return _Sighting(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _table(count: int, numbers: Ints, values: Ints, unknown: int) -> Ints:
    """What each id has, by its number."""
    table = np.full(count, unknown, np.int64)
    known = np.flatnonzero(values != unknown)
    table[numbers[known]] = values[known]
    return table


def _different(numbers: Ints, values: Ints, table: Ints, unknown: int) -> list[int]:
    """The rows that say something else than the table, which learns from them what it does not know."""
    known = np.flatnonzero(values != unknown)
    new = known[table[numbers[known]] == unknown]
    table[numbers[new]] = values[new]
    found: list[int] = known[table[numbers[known]] != values[known]].tolist()
    return found


def _wrong_times(ledger: Ledger, told: _Sighting) -> list[int]:
    """The rows whose time is in none of the attempts at their record; an attempt without bounds allows all."""
    lines, records = ledger.history.lines, ledger.records
    low, high = lines.low_us[records.line], lines.high_us[records.line]
    order = np.argsort(records.number, kind="stable")
    edges = np.searchsorted(records.number[order], np.arange(len(ledger.ids) + 1))
    known = np.flatnonzero(told.time_us != UNKNOWN_TIME)
    first = order[edges[told.number[known]]]
    time_us = told.time_us[known]
    fits = (low[first] == UNKNOWN_TIME) | ((low[first] <= time_us) & (time_us <= high[first]))
    wrong = []
    for row in known[~fits].tolist():
        attempts = order[edges[told.number[row]] : edges[told.number[row] + 1]]
        bounds = zip(low[attempts].tolist(), high[attempts].tolist(), strict=True)
        if not any(least == UNKNOWN_TIME or least <= told.time_us[row] <= most for least, most in bounds):
            wrong.append(row)
    return wrong
