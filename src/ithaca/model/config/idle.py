"""After how long without a sign a name goes, as the file says it: sessions, writers, consumers. By default never."""

from collections.abc import Mapping
from typing import Any, Final

from ithaca.model.config.rules import Amount, Number, Rule
from ithaca.model.limits import IDLE_S_MAX, IDLE_S_MIN

RULES: Final[Mapping[str, Rule]] = {"idle_s": Amount(Number(IDLE_S_MIN, IDLE_S_MAX), "s")}


def idle_s(table: Mapping[str, Any]) -> int | None:
    """What a table that was checked says; None when it says nothing."""
    return table.get("idle_s")


def dump_idle(table: str, idle_s: int | None) -> list[str]:
    """The lines of the table that says so.

    >>> dump_idle("sessions", 3600), dump_idle("writers", None)
    (['', '[sessions]', 'idle_s = 3600'], [])
    """
    return [] if idle_s is None else ["", f"[{table}]", f"idle_s = {idle_s}"]
