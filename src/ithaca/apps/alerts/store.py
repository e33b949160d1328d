"""The database of the stream: what is pending, what was told, and which micro-batches are in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from ithaca.apps.pipelines.store import BatchStore

_TABLES = """
CREATE TABLE IF NOT EXISTS batches (batch INTEGER PRIMARY KEY, confirmed INTEGER);
CREATE TABLE IF NOT EXISTS pending (position INTEGER PRIMARY KEY, user TEXT, amount_cents INTEGER);
CREATE TABLE IF NOT EXISTS alerts (position INTEGER PRIMARY KEY, user TEXT, amount_cents INTEGER);
"""


class Alert(NamedTuple):
    """A payment over the limit."""

    position: int
    user: str
    amount_cents: int


class Step(NamedTuple):
    """What became known, in the order of the stream's events."""

    number: int
    event: Literal["delivered", "confirmed", "failed"]
    position: int
    alert: Alert | None = None


class AlertStore(BatchStore):
    """Everything that a micro-batch changes is changed in one transaction, together with its number."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _TABLES)

    def commit(self, batch: int, steps: Iterable[Step]) -> int:
        """What a batch brought; returns how many rows were taken back."""
        taken_back = 0
        with self._store.transaction() as connection:
            confirmed = connection.execute("SELECT coalesce(max(confirmed), 0) FROM batches").fetchone()[0]
            for step in sorted(steps, key=lambda step: step.number):
                match step.event:
                    case "delivered":
                        assert step.alert is not None
                        connection.execute("INSERT INTO pending VALUES (?, ?, ?)", step.alert)
                    case "confirmed":
                        confirmed = step.position
                        connection.execute("INSERT INTO alerts SELECT * FROM pending WHERE position <= ?", (confirmed,))
                        connection.execute("DELETE FROM pending WHERE position <= ?", (confirmed,))
                    case "failed":
                        gone = connection.execute("DELETE FROM pending WHERE position > ?", (step.position,))
                        taken_back += gone.rowcount
            connection.execute("INSERT INTO batches VALUES (?, ?)", (batch, confirmed))
        return taken_back

    @property
    def confirmed(self) -> int:
        """Up to here all is final, and told."""
        return int(self._store.rows("SELECT coalesce(max(confirmed), 0) FROM batches")[0][0])

    def alerts(self) -> list[Alert]:
        """What was told, by position."""
        return [Alert(*row) for row in self._store.rows("SELECT * FROM alerts ORDER BY position")]
