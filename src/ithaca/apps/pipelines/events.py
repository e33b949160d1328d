"""Records as JSON objects, and how they are taken apart again.

Every record says its `source`: the producer that made it. A source's records keep their order in the log.
"""

from collections.abc import Iterator
from math import pi, sin
from typing import Final

import msgspec

from ithaca.model.interface import Log
from ithaca.model.records import Record

Event = tuple[bytes, bytes]
"""Key and value of a record."""
DAY_S: Final = 86_400


class Sourced(msgspec.Struct, frozen=True):
    """What is common to all records."""

    source: int


encode = msgspec.json.Encoder().encode
_source = msgspec.json.Decoder(Sourced)


def source_of(value: bytes) -> int:
    """Who made a record.

    >>> source_of(b'{"source":3,"user":"user-7"}')
    3
    """
    return _source.decode(value).source


def share(records: int, sources: int, source: int) -> int:
    """How many of all records a source makes, when they are shared out evenly.

    >>> [share(10, 3, source) for source in range(3)]
    [4, 3, 3]
    """
    return records // sources + (source < records % sources)


def time_of_day(number: int, records: int) -> int:
    """When the event with this number happens, of `records` in a day: seconds; most are around noon, few at night.

    >>> [time_of_day(number, 8) // 3600 for number in range(8)]
    [0, 5, 8, 11, 12, 12, 15, 18]
    """
    part = number / records
    return int(DAY_S * (part + 0.12 * sin(2 * pi * part)))


def read_all(log: Log) -> Iterator[Record]:
    """Every record in the order of the log, through the client: what the plain computations start from."""
    with log.read_range(log.first()) as records:
        yield from records
