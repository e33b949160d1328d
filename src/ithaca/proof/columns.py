"""What a history says, as columns: one table per kind of event, and what stands in a column that has no value."""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ithaca.proof.history import Commit, Confirm, Fail, Hand, Own, Plan, Spec, Sub, Trim

Ints = NDArray[np.int64]

OK, FAIL, INFO = 0, 1, 2
NULL, NOOP, JUNK, LOST, TRIMMED, EMPTY = (-1, 0), (-1, 1), (-1, 2), (-1, 3), (-1, 4), (-1, 5)
"""What stands where an id stands, when there is none."""

NO_KEY, UNKNOWN_KEY = -1, -2
UNKNOWN_SHARD = -1
UNKNOWN_TIME = np.iinfo(np.int64).min


class Lines(NamedTuple):
    """Stretches of numbers of a session that were appended together: an append is one, a publish has one per part.

    A *unit* is what must be whole, an append or a publish; `offset` says how many of its records come before
    the line's. `pos` is that of the line's first record, if the outcome is known to be `OK`. Its records have times
    between `low_us` and `high_us`.
    """

    session: Ints
    seq: Ints
    size: Ints
    inv: Ints
    ret: Ints
    status: Ints
    pos: Ints
    key: Ints
    unit: Ints
    offset: Ints
    shard: Ints
    low_us: Ints
    high_us: Ints


class Reads(NamedTuple):
    """Reads of single positions; `session` and `seq` may be one of the specials."""

    pos: Ints
    inv: Ints
    ret: Ints
    session: Ints
    seq: Ints
    key: Ints
    time_us: Ints
    shard: Ints


class Tails(NamedTuple):
    """Tails that clients were told."""

    inv: Ints
    ret: Ints
    n: Ints


class Firsts(NamedTuple):
    """First positions that clients were told."""

    inv: Ints
    ret: Ints
    n: Ints


class Deliveries(NamedTuple):
    """Records that subscriptions passed on as confirmed, in the order of lines; `line` is where the event stood."""

    sub: Ints
    time: Ints
    pos: Ints
    session: Ints
    seq: Ints
    line: Ints
    key: Ints
    time_us: Ints
    shard: Ints


class Marks(NamedTuple):
    """How far subscriptions say that they have everything; `line` is where the event stood."""

    sub: Ints
    time: Ints
    up_to: Ints
    line: Ints


class Rows(NamedTuple):
    """The records of all ranges, in their order; `range` counts ranges from 0 on."""

    range: Ints
    time: Ints
    pos: Ints
    session: Ints
    seq: Ints
    key: Ints
    time_us: Ints
    shard: Ints


class Bounds(NamedTuple):
    """A range that was read to its end."""

    inv: int
    ret: int
    start: int
    stop: int
    filter: str | None


class Dump(NamedTuple):
    """What one replica holds."""

    node: str
    pos: Ints
    session: Ints
    seq: Ints


class Collected(NamedTuple):
    """A whole history, by kind."""

    plan: Plan
    lines: Lines
    scattered: dict[int, tuple[int, ...]]
    """Positions of the records of those lines (by their number) that came as a list."""
    keys: dict[str, int]
    """The numbers that stand for keys."""
    reads: Reads
    tails: Tails
    firsts: Firsts
    trims: list[Trim]
    subs: dict[int, Sub]
    deliveries: Deliveries
    marks: Marks
    owns: list[Own]
    hands: list[Hand]
    commits: list[Commit]
    ranges: list[Bounds]
    rows: Rows
    speculation: list[tuple[int, Spec | Confirm | Fail]]
    """With the line of each event."""
    dumps: list[Dump]
    faults: Counter[str]
    events: Counter[str]


def distinct(values: Ints) -> Ints:
    """The values without repetitions, in order; `np.unique` hashes, and is much slower."""
    ordered: Ints = np.sort(values)
    kept: Ints = ordered[np.concatenate((np.ones(min(1, len(ordered)), bool), ordered[1:] != ordered[:-1]))]
    return kept
