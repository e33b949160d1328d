"""Where a store keeps its keys: in memory, or in a file of SQLite. Both say the same.

The file has `entries (key, value, position)`, and in `progress` how far it has come. Both change together, so that
after a crash it is at some position of the log, from which it goes on. It needs no sync for that: the log is durable.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from ithaca.model.errors import Corrupt, StorageError


class Entry(NamedTuple):
    """A value, and the position of the command that put it there."""

    value: bytes
    position: int


class Table(Protocol):
    """Keys, each with its value and the position that gave it."""

    def get(self, key: bytes) -> Entry | None: ...

    def put(self, key: bytes, value: bytes, position: int) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, Entry]]:
        """In the order of keys; it must be used up before anything changes."""

    def __len__(self) -> int: ...

    def kept(self) -> tuple[bytes, int] | None:
        """What `keep` was told last, and survives the process; None when nothing does."""

    def keep(self, head: bytes, digest: int) -> None:
        """Everything so far belongs to this."""

    def release(self) -> None:
        """Let go of files."""


class MemoryTable:
    """A dictionary; keys are sorted when somebody asks for their order."""

    def __init__(self, entries: dict[bytes, Entry] | None = None) -> None:
        self.entries: dict[bytes, Entry] = {} if entries is None else entries
        self._sorted: list[bytes] = []
        self._new: list[bytes] = list(self.entries)
        self._gone = False

    def get(self, key: bytes) -> Entry | None:
        return self.entries.get(key)

    def put(self, key: bytes, value: bytes, position: int) -> None:
        if key not in self.entries:
            self._new.append(key)
        self.entries[key] = Entry(value, position)

    def delete(self, key: bytes) -> None:
        if self.entries.pop(key, None) is not None:
            self._gone = True

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, Entry]]:
        keys = self._ordered()
        at = bisect_left(keys, prefix if after is None else after + b"\0")
        while at < len(keys) and keys[at].startswith(prefix):
            yield keys[at], self.entries[keys[at]]
            at += 1

    def __len__(self) -> int:
        return len(self.entries)

    def kept(self) -> tuple[bytes, int] | None:
        return None

    def keep(self, head: bytes, digest: int) -> None:
        pass

    def release(self) -> None:
        pass

    def _ordered(self) -> list[bytes]:
        if self._gone or self._new:
            # Sorting what is sorted already takes one pass, and so does merging a few new ones.
            known = self._sorted + self._new if not self._gone else list(self.entries)
            self._sorted = sorted(known)
            self._new, self._gone = [], False
        return self._sorted


class SqliteTable:
    """A file that can hold more than memory, and from which a store starts again where it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        except sqlite3.DatabaseError as error:
            raise self._failed(error) from error
        try:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, value BLOB, position INTEGER) WITHOUT ROWID"
            )
            self._file.execute("CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY, head BLOB, digest TEXT)")
            self._file.execute("BEGIN")
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise self._failed(error) from error

    def get(self, key: bytes) -> Entry | None:
        row = self._file.execute("SELECT value, position FROM entries WHERE key = ?", (key,)).fetchone()
        return None if row is None else Entry(*row)

    def put(self, key: bytes, value: bytes, position: int) -> None:
        self._file.execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", (key, value, position))

    def delete(self, key: bytes) -> None:
        self._file.execute("DELETE FROM entries WHERE key = ?", (key,))

    def scan(self, prefix: bytes, after: bytes | None = None) -> Iterator[tuple[bytes, Entry]]:
        start = prefix if after is None else after + b"\0"
        rows = self._file.execute("SELECT key, value, position FROM entries WHERE key >= ? ORDER BY key", (start,))
        for key, value, position in rows:
            if not key.startswith(prefix):
                break
            yield key, Entry(value, position)

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM entries").fetchone()[0])

    def kept(self) -> tuple[bytes, int] | None:
        try:
            row = self._file.execute("SELECT head, digest FROM progress").fetchone()
        except sqlite3.DatabaseError as error:
            raise self._failed(error) from error
        return None if row is None else (row[0], int(row[1]))

    def keep(self, head: bytes, digest: int) -> None:
        try:
            self._file.execute("INSERT OR REPLACE INTO progress VALUES (1, ?, ?)", (head, str(digest)))
            self._file.execute("COMMIT")
            self._file.execute("BEGIN")
        except sqlite3.DatabaseError as error:
            raise self._failed(error) from error

    def release(self) -> None:
        self._file.close()

    def _failed(self, error: sqlite3.DatabaseError) -> StorageError:
        if isinstance(error, sqlite3.OperationalError):
            return StorageError(f"{self._path} cannot be used: {error}")
        return Corrupt(
            f"no file of SQLite, or a damaged one ({error}): delete it to build it again", file=str(self._path)
        )
