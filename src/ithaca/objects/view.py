"""A store as it was at one position, for good."""

from collections.abc import Iterable
from typing import NamedTuple

from ithaca.objects.store_state import StoreState, table_of


class View:
    """All keys as they were behind the record before `position`: nothing that happens later is seen.

    >>> from ithaca.objects.store_state import StoreState
    >>> View(StoreState(), 1).get(b"a") is None
    True
    """

    def __init__(self, state: StoreState, position: int) -> None:
        self.position = position
        """Everything below was applied."""
        self._table = table_of(state)

    def __repr__(self) -> str:
        return f"<View of {len(self)} keys before position {self.position}>"

    def __len__(self) -> int:
        return len(self._table)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        entry = self._table.get(key)
        return None if entry is None else entry.value

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """The values of several keys."""
        return {key: self.get(key) for key in keys}

    def scan(self, prefix: bytes = b"") -> list[tuple[bytes, bytes]]:
        """The keys that begin so, with their values, in order."""
        return [(key, entry.value) for key, entry in self._table.scan(prefix)]


class Progress(NamedTuple):
    """How far a store has come: up to `position` of a log whose tail is `tail`, the last command being of `time_us`.

    >>> Progress(position=7, tail=7, time_us=0).is_current
    True
    """

    position: int
    tail: int
    time_us: int

    @property
    def is_current(self) -> bool:
        """Whether nothing is missing. Positions may be empty: their difference is no count of commands."""
        return self.position >= self.tail
