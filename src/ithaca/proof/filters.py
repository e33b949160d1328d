"""Which positions a filter selects, as far as the keys of their records are known."""

from collections.abc import Callable
from functools import cache

import numpy as np

from ithaca.model.records import KeyFilter
from ithaca.proof.columns import NO_KEY, UNKNOWN_KEY, Ints
from ithaca.proof.history import BadHistory
from ithaca.proof.ledger import ABSENT, Ledger
from ithaca.wire.keys import hash_key

Matcher = Callable[[str], tuple[Ints, Ints]]


def matcher(ledger: Ledger) -> Matcher:
    """Which positions a filter selects for certain, and which it may select."""
    placed = np.flatnonzero(ledger.numbers != ABSENT)
    position_keys = _keys(ledger)[ledger.numbers[placed]]

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


def _keys(ledger: Ledger) -> Ints:
    """The key of each id: as it was appended, and where nobody says that, as somebody was told."""
    history, records = ledger.history, ledger.records
    key_of = np.full(len(ledger.ids), UNKNOWN_KEY, np.int64)
    for table in (history.reads, history.deliveries, history.rows):
        numbers = ledger.number_of(ledger.id_of(table.session, table.seq))
        known = np.flatnonzero((numbers != ABSENT) & (table.key != UNKNOWN_KEY))
        key_of[numbers[known]] = table.key[known]
    keys = history.lines.key[records.line]
    said = np.flatnonzero(keys != UNKNOWN_KEY)
    key_of[records.number[said]] = keys[said]
    return key_of


def _selected(text: str, keys: dict[str, int]) -> list[int]:
    kind, _, wanted = text.partition("=")
    if kind == "key":
        return [keys[wanted]] if wanted in keys else []
    if kind == "prefix":
        return [number for key, number in keys.items() if key.startswith(wanted)]
    low, _, high = wanted.partition(":")
    if kind == "hash" and low.isdecimal() and high.isdecimal():
        return [number for key, number in keys.items() if int(low) <= hash_key(key.encode()) < int(high)]
    if kind == "part":
        return _of_part(wanted, keys)
    raise BadHistory(f"the filter {text!r} is neither key=… nor prefix=… nor hash=low:high nor part=number:count")


def _of_part(text: str, keys: dict[str, int]) -> list[int]:
    """A part of a group, and how many it has; perhaps what the keys begin with. Without that, records that have no key
    are in part 0.
    """
    number, _, rest = text.partition(":")
    count, _, prefix = rest.partition(":")
    if not (number.isdecimal() and count.isdecimal() and int(number) < int(count)):
        raise BadHistory(f"the filter 'part={text}' is not part=number:count or part=number:count:prefix")
    of = KeyFilter.part(int(number), int(count))
    found = [
        each for key, each in keys.items() if key.startswith(prefix) and of.low <= hash_key(key.encode()) < of.high
    ]
    return found if prefix or int(number) else [*found, NO_KEY]
