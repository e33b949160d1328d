"""Lanes as a cluster's replicas keep them: records of sessions, no control entries, and a naive model of both."""

import copy
from collections import OrderedDict
from collections.abc import Iterable
from random import Random

from tests.storage.lanes import Row, Source, Written, read_rows, write

from ithaca.engines.scalog.storage.packed_lane import PackedLane
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.sim.disk import SimDisk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import LaneReader

SESSIONS_MAX = 3
"""What `shrink_limits` sets."""

Table = tuple[bool, list[tuple[int, int, int, tuple[tuple[int, int, int], ...]]]]


class NaiveClusterLane:
    """Rows, and sessions as the batches make them known, the one used last at the end."""

    def __init__(self, written: Iterable[Written] = ()) -> None:
        self.rows: list[Row] = []
        self.sessions: OrderedDict[int, tuple[int, int, tuple[tuple[int, int, int], ...]]] = OrderedDict()
        self.forgetful = False
        for entry in written:
            self.apply(entry)

    def apply(self, entry: Written) -> None:
        batch = entry.batch
        if batch.producer_id:
            _, _, placed = self.sessions.pop(batch.producer_id, (0, 0, ()))
            if len(self.sessions) == SESSIONS_MAX:
                self.sessions.popitem(last=False)
                self.forgetful = True
            placed = (*placed, (batch.first_seq, batch.count, len(self.rows)))[-SESSION_BATCHES_MAX:]
            self.sessions[batch.producer_id] = (batch.producer_epoch, batch.first_seq + batch.count, placed)
        self.rows += entry.rows

    def table(self) -> Table:
        return self.forgetful, [(key, *state) for key, state in self.sessions.items()]


def table_of(opened: Lane | PackedLane) -> Table:
    snapshot = opened.state.sessions.snapshot()
    rows = []
    for state in snapshot.sessions:
        placed = tuple((place.first_seq, place.count, place.base_lsn) for place in state.placed)
        rows.append((state.producer_id, state.epoch, state.next_seq, placed))
    return snapshot.forgetful, rows


class ClusterSource:
    """Batches of a few sessions, some without one; sessions are opened again, under a higher epoch."""

    def __init__(self, random: Random, producers: Iterable[int] = range(1, 7)) -> None:
        self.random = random
        self._source = Source(random)
        self._next = dict.fromkeys(producers, (1, 1))  # epoch, number

    def batch(self, count: int | None = None) -> Written:
        count = count or self.random.randint(1, 4)
        producer = self.random.choice([0, *self._next])
        if not producer:
            return self._source.records(count)
        epoch, seq = self._next[producer]
        epoch += self.random.random() < 0.1
        self._next[producer] = epoch, seq + count
        return self._source.records(count, producer=(producer, epoch, seq))

    def group(self) -> list[Written]:
        return [self.batch() for _ in range(self.random.randint(1, 3))]


def lengths(written: list[Written]) -> list[int]:
    """Where a lane of these batches can be cut."""
    ends = [0]
    for entry in written:
        ends.append(ends[-1] + len(entry.rows))
    return ends


def check_prefix(opened: Lane, written: list[Written]) -> None:
    """The lane holds exactly these."""
    model = NaiveClusterLane(written)
    assert opened.length == len(model.rows)
    assert all_rows(opened) == model.rows
    assert table_of(opened) == model.table()


def all_rows(source: LaneReader) -> list[Row]:
    return read_rows(source, 0, source.length)


def copied(disk: SimDisk) -> SimDisk:
    """The same disk, once all names on it are durable."""
    pending = [""]
    while pending:
        directory = pending.pop()
        disk.sync_directory(directory or "/")
        paths = [f"{directory}/{name}" for name in disk.list(directory or "/")]
        pending += [path for path in paths if disk.list(path)]
    return copy.deepcopy(disk)


def append(opened: Lane, source: ClusterSource, groups: int) -> list[Written]:
    written: list[Written] = []
    for _ in range(groups):
        group = source.group()
        write(opened, group)
        written += group
    return written
