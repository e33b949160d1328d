"""Results in SQLite, where an application would look for them."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any


class ResultStore:
    """Tables of one file; each call is a transaction, and may come from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            yield connection

    def write(self, table: str, columns: str, rows: Iterable[Sequence[Any]]) -> None:
        """A table with these columns (`name TYPE, …`) and rows, in the place of one that was there before."""
        width = columns.count(",") + 1
        with self.transaction() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {table}")
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", map(tuple, rows))

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with self.transaction() as connection:
            return connection.execute(query, values).fetchall()


class BatchStore:
    """What micro-batches changed: each in one transaction, together with its number in the table `batches`."""

    def __init__(self, path: Path, tables: str) -> None:
        self._store = ResultStore(path)
        with self._store.transaction() as connection:
            connection.executescript(tables)

    def has(self, batch: int) -> bool:
        """Whether a batch is in already: Spark repeats the last one after a crash."""
        return bool(self._store.rows("SELECT 1 FROM batches WHERE batch = ?", batch))
