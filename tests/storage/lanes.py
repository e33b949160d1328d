"""Lanes for tests: small limits, entries that prove themselves, and a naive model of what a lane holds."""

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

import pytest

from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression, Durability
from ithaca.sim.disk import SimDisk
from ithaca.storage import index, lane, reader, segment, sessions
from ithaca.storage.disk import Disk
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor, LaneReader
from ithaca.storage.sessions import SessionForgotten, SessionOpened
from ithaca.storage.state import Control, TrimmedTo, control_entry
from ithaca.wire.batch import DATA, Batch
from ithaca.wire.build import build

LANE = LaneId(0, 0, 1)
DIRECTORY = "/lane"
SEGMENT_BYTES = 2500

Row = tuple[bytes, bytes | None]


def shrink_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files with everything in them: rolls, checkpoints, index blocks, zeros ahead, cold reads, expiry."""
    monkeypatch.setattr(segment, "ALLOCATE_AHEAD_BYTES", 3000)
    monkeypatch.setattr(segment, "ZERO_AHEAD_BYTES", 1000)
    monkeypatch.setattr(segment, "ZERO_GROUP_BYTES_MAX", 700)
    monkeypatch.setattr(lane, "CHECKPOINT_BYTES", 900)
    monkeypatch.setattr(index, "INDEX_STRIDE_BYTES", 200)
    monkeypatch.setattr(reader, "TAIL_CACHE_BYTES_MAX", 6000)
    monkeypatch.setattr(reader, "OPEN_SEGMENTS_MAX", 3)
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 3)
    monkeypatch.setattr(sessions, "LANE_SESSIONS_MAX", 3)


def disk_of(files: dict[str, bytes] | None = None) -> SimDisk:
    """A simulated disk whose `/lane` holds these files."""
    disk = SimDisk()
    disk.make_directory("/lane")
    for name, data in (files or {}).items():
        disk.open(f"/lane/{name}", create=True).write(0, [data])
    return disk


class Written(NamedTuple):
    """One entry that a test gave to a lane: records, or a change of the lane's state."""

    batch: Batch
    rows: tuple[Row, ...] = ()
    control: Control | None = None


class NaiveSession(NamedTuple):
    name: str
    epoch: int
    next_seq: int
    placed: tuple[tuple[int, int, int], ...]


class NaiveLane:
    """What a lane holds after some entries, kept the plainest way."""

    def __init__(self, entries: Iterable[Written] = ()) -> None:
        self.rows: list[Row] = []
        self.trim = 0
        self.next_id = 1
        self.sessions: dict[int, NaiveSession] = {}  # the one used last is the last
        for entry in entries:
            self.apply(entry)

    def apply(self, entry: Written) -> None:
        match entry.control:
            case TrimmedTo(lsn):
                self.trim = max(self.trim, lsn)
            case SessionOpened(producer_id, name, epoch):
                known = self.sessions.pop(producer_id, NaiveSession(name, 0, 1, ()))
                self.sessions[producer_id] = known._replace(epoch=epoch)
                self.next_id = max(self.next_id, producer_id + 1)
            case SessionForgotten(producer_id):
                del self.sessions[producer_id]
        batch = entry.batch
        if batch.producer_id:
            known = self.sessions.pop(batch.producer_id)
            placed = (*known.placed, (batch.first_seq, batch.count, len(self.rows)))[-SESSION_BATCHES_MAX:]
            self.sessions[batch.producer_id] = known._replace(next_seq=batch.first_seq + batch.count, placed=placed)
        self.rows += entry.rows

    def session_table(self) -> tuple[int, list[tuple[int, NaiveSession]]]:
        return self.next_id, list(self.sessions.items())


def session_table(opened: Lane) -> tuple[int, list[tuple[int, NaiveSession]]]:
    """A lane's sessions in the shape of the naive model's."""
    snapshot = opened.state.sessions.snapshot()
    table = []
    for state in snapshot.sessions:
        placed = tuple((place.first_seq, place.count, place.base_lsn) for place in state.placed)
        table.append((state.producer_id, NaiveSession(state.name, state.epoch, state.next_seq, placed)))
    return snapshot.next_producer_id, table


class Source:
    """Entries to write: no two records are equal, so that any mix-up shows."""

    def __init__(self, random: Random, *, clock_jumps_us: int = 5) -> None:
        self.random = random
        self._clock_jumps_us = clock_jumps_us
        self._number = 0
        self._clock_us = 1_000_000

    def rows(self, count: int) -> tuple[Row, ...]:
        rows: list[Row] = []
        with_keys = self.random.random() < 0.4
        for _ in range(count):
            self._number += 1
            value = b"<%d>" % self._number + b"v" * self.random.randrange(120)
            key = b"k%d" % self._number if with_keys and self.random.random() < 0.8 else None
            rows.append((value, key))
        return tuple(rows)

    def records(self, count: int | None = None, *, producer: tuple[int, int, int] = (0, 0, 0)) -> Written:
        rows = self.rows(self.random.randint(1, 4) if count is None else count)
        self._clock_us += self.random.randint(-self._clock_jumps_us, 20)  # clocks jump back too
        compress: Compression = self.random.choice(["none", "none", "lz4", "zstd"])
        keys = [key for _, key in rows] if any(key is not None for _, key in rows) else None
        batch = build(
            [value for value, _ in rows], keys, timestamp_us=self._clock_us, compress=compress, producer=producer
        )
        return Written(batch, rows)

    def session_records(self, opened: Lane) -> list[Written]:
        """A batch that continues some session; nothing when there is none."""
        known = opened.state.sessions.snapshot().sessions
        if not known:
            return []
        session = self.random.choice(known)
        return [self.records(producer=(session.producer_id, session.epoch, session.next_seq))]

    def opening(self, opened: Lane) -> list[Written]:
        entry, expired = opened.state.sessions.opening(f"session-{self.random.randrange(5)}")
        return [control(change) for change in (expired, entry) if change is not None]

    def trim(self, opened: Lane) -> Written:
        low = opened.trim_lsn
        return control(TrimmedTo(self.random.randint(low, max(low, opened.length))))


def control(change: Control) -> Written:
    return Written(control_entry(change), control=change)


def make_lane(disk: Disk, directory: str = DIRECTORY) -> None:
    """An empty lane whose directory is durable."""
    lane.create(disk, directory, LANE)
    if isinstance(disk, SimDisk):
        disk.sync_directory("/")


def open_lane(
    disk: Disk,
    directory: str = DIRECTORY,
    *,
    durability: Durability = "fsync",
    segment_bytes: int = SEGMENT_BYTES,
) -> Lane:
    return Lane(disk, directory, LANE, durability=durability, segment_bytes=segment_bytes)


def write(opened: Lane, entries: Iterable[Written]) -> None:
    """Prepare and commit one group."""
    opened.commit(opened.prepare([entry.batch for entry in entries]))


def rows_of(batch: Batch) -> list[Row]:
    if batch.kind != DATA:
        return []
    return [(record.value, record.key) for record in batch.records(0, 0)]


def read_rows(source: LaneReader, start: int, stop: int, *, bytes_max: int = 700) -> list[Row]:
    """The records of `[start, stop)`, read forward."""
    cursor, rows = Cursor(source, start), []
    while cursor.lsn < stop:
        low = cursor.lsn
        for batch in cursor.read(stop, bytes_max=bytes_max):
            first, last = max(low, batch.base_lsn), min(stop, batch.end_lsn)
            rows += rows_of(batch)[first - batch.base_lsn : last - batch.base_lsn]
    return rows


def check_reads(source: LaneReader, model: NaiveLane, random: Random) -> None:
    """Everything that is not trimmed reads back equal, forward and one by one."""
    assert source.length == len(model.rows)
    assert source.trim_lsn == model.trim
    assert read_rows(source, model.trim, source.length) == model.rows[model.trim :]
    for _ in range(3):
        if model.trim < source.length:
            lsn = random.randrange(model.trim, source.length)
            assert read_rows(source, lsn, lsn + 1, bytes_max=1) == [model.rows[lsn]]
