"""What the parts of a leader's term use of it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

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


class Looking:
    """A look that takes its time: one at a time, until the term is over."""

    def __init__(self, what: str, look: Callable[[], Coroutine[None, None, None]]) -> None:
        """`what` it is called when it fails."""
        self._what = what
        self._look = look
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look, unless that is still under way."""
        if self._task is None:
            self._task = asyncio.create_task(self._look())
            self._task.add_done_callback(self._ended)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s failed", self._what, exc_info=task.exception())
