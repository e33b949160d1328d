"""The database of a speculative task: states that may be taken back, and alerts that are final.

```
states    key, state                     what is known, with what is not final yet
pending   position, key, before, alert   what each record that is not final has changed, and what it would tell
alerts    position, alert                what was told
progress  position                       where to start again
```

`pending` makes a start after a crash what a failed speculation is: everything in it is taken back.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ithaca.model.records import Record

State = Any
"""What a rule knows of a key: lists, numbers and texts, as JSON has them."""

_TABLES = """
CREATE TABLE IF NOT EXISTS states (key TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pending (position INTEGER PRIMARY KEY, key TEXT NOT NULL, before TEXT, alert TEXT);
CREATE TABLE IF NOT EXISTS alerts (position INTEGER PRIMARY KEY, alert TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL);
INSERT OR IGNORE INTO progress VALUES (1, 1);
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """An application: whose state a record changes, into what, and the alert that it raises, if any."""

    name: str
    key_of: Callable[[Record], str]
    judge: Callable[[State | None, Record], tuple[State, tuple[Any, ...] | None]]


class Applied(NamedTuple):
    """What a record has changed: the state before, as text, and the alert to tell."""

    key: str
    before: str | None
    alert: str | None


class Desk:
    """One task's database; `apply`, `undo` and `publish` are what `ithaca.speculation.run` wants."""

    def __init__(self, path: Path, rule: Rule) -> None:
        self._rule = rule
        # One thread at a time uses it, not always the one that opened it.
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(_TABLES)
        self.undone = 0
        """Records that were taken back."""
        for position, *applied in self._rows("SELECT * FROM pending ORDER BY position DESC"):
            self._take_back(position, Applied(*applied))

    @property
    def position(self) -> int:
        """Where to start again: everything below is final, and told."""
        ((position,),) = self._rows("SELECT position FROM progress")
        return int(position)

    def apply(self, record: Record) -> Applied:
        """Write the new state, and what it takes to take it back, in one transaction."""
        key = self._rule.key_of(record)
        rows = self._rows("SELECT state FROM states WHERE key = ?", key)
        before = rows[0][0] if rows else None
        state, alert = self._rule.judge(None if before is None else json.loads(before), record)
        applied = Applied(key, before, None if alert is None else json.dumps(alert))
        self._change(
            ("INSERT OR REPLACE INTO states VALUES (?, ?)", (key, json.dumps(state))),
            ("INSERT INTO pending VALUES (?, ?, ?, ?)", (record.position, *applied)),
        )
        return applied

    def undo(self, record: Record, applied: Applied) -> None:
        self._take_back(record.position, applied)

    def publish(self, record: Record, applied: Applied) -> None:
        """The record's place is final: tell its alert, and never take it back."""
        told = [("INSERT INTO alerts VALUES (?, ?)", (record.position, applied.alert))] if applied.alert else []
        self._change(
            ("DELETE FROM pending WHERE position = ?", (record.position,)),
            ("UPDATE progress SET position = ?", (record.position + 1,)),
            *told,
        )

    def alerts(self) -> list[tuple[Any, ...]]:
        """What was told, in the order of the log."""
        return [tuple(json.loads(alert)) for (alert,) in self._rows("SELECT alert FROM alerts ORDER BY position")]

    def states(self) -> dict[str, State]:
        """What is known of each key."""
        return {key: json.loads(state) for key, state in self._rows("SELECT * FROM states ORDER BY key")}

    def close(self) -> None:
        self._database.close()

    def _take_back(self, position: int, applied: Applied) -> None:
        self.undone += 1
        if applied.before is None:
            restore: tuple[str, tuple[Any, ...]] = ("DELETE FROM states WHERE key = ?", (applied.key,))
        else:
            restore = ("UPDATE states SET state = ? WHERE key = ?", (applied.before, applied.key))
        self._change(restore, ("DELETE FROM pending WHERE position = ?", (position,)))

    def _change(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        with self._database:
            self._database.execute("BEGIN")
            for text, values in statements:
                self._database.execute(text, values)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with closing(self._database.execute(query, values)) as found:
            return found.fetchall()
