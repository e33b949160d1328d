"""What a program on one machine would use instead of a log: a table of SQLite, or a file."""

import os
import sqlite3
import struct
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from ithaca.bench.cluster.producers import Counted, Turn, append_until
from ithaca.bench.compare.open_loop import Done, Pace, append_when_due
from ithaca.bench.compare.system import Running, System
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Role, evenly
from ithaca.bench.measure import Progress

LENGTH: Final = struct.Struct("<I")
BUSY_TIMEOUT_S: Final = 60.0
CHECKPOINT: Final = "PRAGMA wal_checkpoint(TRUNCATE)"
NOT_TOLD: Final = "nobody is told what was appended: readers have to ask again and again"
WRITE_MAX: Final = 512
"""Buffers of one write: the kernel takes 1,024."""


class LocalClient(Client):
    """One that waits for the disk with every batch, and so has one batch in flight."""

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        return Appended.whole(turn, append_until(turn, values, self._append))

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        def begin(batch: list[bytes], done: Done) -> None:
            self._append(batch)
            done(None)

        return append_when_due(pace, values, begin)

    @abstractmethod
    def _append(self, batch: list[bytes]) -> None:
        """Write a batch and wait until it is on the disk."""


class SqliteClient(LocalClient):
    """A transaction for each batch."""

    def __init__(self, path: Path, role: Role) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, timeout=BUSY_TIMEOUT_S)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY, value BLOB)")

    def _append(self, batch: list[bytes]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT INTO log (value) VALUES (?)", ((value,) for value in batch))
        self._database.execute("COMMIT")

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        [(start,)] = self._database.execute("SELECT coalesce(max(position), 0) + 1 FROM log")
        for turn in range(-(-fill.records // fill.batch)):
            self._append(values[turn % len(values)])
        [(stop,)] = self._database.execute("SELECT max(position) + 1 FROM log")
        return Filled(stop - start, fill.record_bytes, (start, stop), evenly(range(start, stop)))

    def read_all(self, filled: Filled) -> int:
        rows = self._database.execute(
            "SELECT value FROM log WHERE position >= ? AND position < ? ORDER BY position", filled.start
        )
        return sum(1 for (value,) in rows if value)

    def read_one(self, filled: Filled, place: Any) -> int:
        [(value,)] = self._database.execute("SELECT value FROM log WHERE position = ?", (place,))
        return len(value)

    def clear(self) -> None:
        self._database.execute("DELETE FROM log")
        for statement in (CHECKPOINT, "VACUUM", CHECKPOINT):
            self._database.execute(statement).fetchall()

    def close(self) -> None:
        self._database.close()


class FileClient(LocalClient):
    """Each record with its length in front; one write and one sync for each batch. No checksums, no recovery."""

    def __init__(self, path: Path, role: Role) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)

    def _append(self, batch: list[bytes]) -> None:
        pieces = [piece for value in batch for piece in (LENGTH.pack(len(value)), value)]
        for begun in range(0, len(pieces), WRITE_MAX):
            some = pieces[begun : begun + WRITE_MAX]
            if (written := os.writev(self._file, some)) != (wanted := sum(map(len, some))):
                raise OSError(f"only {written} of {wanted} bytes were written")
        os.fdatasync(self._file)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        start = os.fstat(self._file).st_size
        for turn in range(-(-fill.records // fill.batch)):
            self._append(values[turn % len(values)])
        stop = os.fstat(self._file).st_size
        places = range(start, stop, LENGTH.size + fill.record_bytes)
        return Filled(len(places), fill.record_bytes, (start, stop), evenly(places))

    def read_all(self, filled: Filled) -> int:
        start, stop = filled.start
        records = 0
        with open(self._file, "rb", closefd=False) as stream:
            stream.seek(start)
            while stream.tell() < stop:
                [length] = LENGTH.unpack(stream.read(LENGTH.size))
                records += len(stream.read(length)) == length
        return records

    def read_one(self, filled: Filled, place: Any) -> int:
        [length] = LENGTH.unpack(os.pread(self._file, LENGTH.size, place))
        return len(os.pread(self._file, length, place + LENGTH.size))

    def clear(self) -> None:
        os.ftruncate(self._file, 0)

    def close(self) -> None:
        os.close(self._file)


class Sqlite(System):
    """A table whose key is the position."""

    name = "sqlite"
    copies = 1
    order = "total"
    acknowledged = "synced to one disk"

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        progress("making a database of SQLite")
        directory.mkdir(mode=0o700, parents=True)
        settings = {"journal_mode": "WAL", "synchronous": "FULL", "transactions": "one for each batch"}
        connect = partial(SqliteClient, directory / "log.db")
        yield Running(connect, tuple, sqlite3.sqlite_version, settings, cannot_follow=NOT_TOLD)


class PlainFile(System):
    """A file that is written and synced: what is left when all that a log does is taken away."""

    name = "plain file"
    copies = 1
    order = "total"
    acknowledged = "synced to one disk; no checksums, no recovery"

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        progress("making a file")
        directory.mkdir(mode=0o700, parents=True)
        version = f"Linux {os.uname().release}"
        settings = {"append": "writev and fdatasync for each batch"}
        connect = partial(FileClient, directory / "log")
        yield Running(connect, tuple, version, settings, appenders_max=1, cannot_follow=NOT_TOLD)
