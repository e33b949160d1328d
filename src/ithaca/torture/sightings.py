"""Records as histories have them: where they were, which they are, and what came with them."""

import time
from typing import NamedTuple

from ithaca.model.records import Record
from ithaca.proof.history import Id, Range
from ithaca.proof.payload import decode


class Seen(NamedTuple):
    """A record that a client was given."""

    pos: int
    id: Id
    key: str | None
    ts: int
    shard: int


def seen(record: Record) -> Seen:
    """What a record says, and what was said of it; ValueError when its value is none of ours."""
    key = None if record.key is None else record.key.decode()
    return Seen(record.position, decode(record.value), key, record.timestamp_us, record.shard)


def range_of(invoked: int, start: int, stop: int, where: str | None, found: list[Seen]) -> Range:
    """The line of a range that has just ended."""
    ids = tuple((each.pos, each.id) for each in found)
    keys, times = tuple(each.key for each in found), tuple(each.ts for each in found)
    returned, shards = time.monotonic_ns(), tuple(each.shard for each in found)
    return Range(invoked, returned, start, stop, where, ids, keys, times, shards)
