"""What the parts of a leader's term use of it."""

import logging
from collections.abc import Callable

from ithaca.engines.scalog.ordering.entries import OrderingEntry
from ithaca.engines.scalog.ordering.outcomes import Outcome
from ithaca.model.errors import IthacaError

_log = logging.getLogger("ithaca.orderer")

Submit = Callable[[OrderingEntry, Callable[[list[Outcome]], None], Callable[[IthacaError], None]], None]
"""Has an entry ordered; then one of the two is called."""

Plan = Callable[[float, Callable[[], None]], None]
"""Has something called after so many seconds; a plan for the same replaces this one."""


class Warnings:
    """What people are told in the log, each once in a term."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            _log.warning("%s", text)
