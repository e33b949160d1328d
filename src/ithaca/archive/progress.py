"""How far a backup, a restore or a copy is."""

from collections.abc import Callable
from typing import NamedTuple


class Done(NamedTuple):
    """What was done since the last call: positions passed, bytes of records; and the positions in all, if known."""

    positions: int
    bytes: int
    of: int | None


Advance = Callable[[Done], object]
"""Told now and then what was done."""
