"""The database of the fraud desk: what is known of users, alerts, and which micro-batches are in it."""

from collections.abc import Iterable
from pathlib import Path

from ithaca.apps.fraud.plain import Alert, UserState
from ithaca.apps.pipelines.store import BatchStore

_TABLES = """
CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY, records INTEGER);
CREATE TABLE IF NOT EXISTS alerts (
    position INTEGER PRIMARY KEY, user TEXT, amount_cents INTEGER, country TEXT, reason TEXT
);
CREATE TABLE IF NOT EXISTS users (
    user TEXT PRIMARY KEY, payments INTEGER, total INTEGER, squares TEXT, country TEXT, at_s INTEGER
);
"""  # a sum of squares may be larger than SQLite's integers, and is kept as text


class FraudStore(BatchStore):
    """Everything that a micro-batch changes is changed in one transaction, together with its number."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLES)

    def commit(self, batch: int, records: int, alerts: Iterable[Alert], states: Iterable[UserState]) -> None:
        """A batch's alerts, and the new states of its users."""
        rows = [(*state[:3], str(state.squares), *state[4:]) for state in states]
        with self._store.transaction() as connection:
            connection.execute("INSERT INTO batches VALUES (?, ?)", (batch, records))
            connection.executemany("INSERT INTO alerts VALUES (?, ?, ?, ?, ?)", alerts)
            connection.executemany("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?, ?, ?)", rows)

    def states(self) -> list[UserState]:
        """Of all users that are known, by name."""
        rows = self._store.rows("SELECT * FROM users ORDER BY user")
        return [UserState.of(row) for row in rows]

    def alerts(self) -> list[Alert]:
        """All of them, by position."""
        return [Alert(*row) for row in self._store.rows("SELECT * FROM alerts ORDER BY position")]

    def most_alarming_user(self) -> str | None:
        """Who has the most alerts; of equals the first by name."""
        rows = self._store.rows("SELECT user FROM alerts GROUP BY user ORDER BY count(*) DESC, user LIMIT 1")
        return str(rows[0][0]) if rows else None
