"""Where a follower of the log stands, and who waits for it to get further."""

import heapq
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import count
from typing import Generic, Protocol, TypeVar

from ithaca.model.errors import InvalidInput, IthacaError, LogClosed
from ithaca.model.interface.shared import Batch
from ithaca.model.records import KeyFilter, Record

Chore = TypeVar("Chore")
Returned = TypeVar("Returned")
Given = TypeVar("Given", contravariant=True)

_log = logging.getLogger("ithaca.objects")


class Waiter(Protocol[Given]):
    """A promise, to a task or to a thread."""

    def give(self, value: Given) -> None: ...

    def fail(self, error: BaseException) -> None: ...

    def done(self) -> bool: ...


class Following(ABC, Generic[Chore]):
    """Records of one filter in the order of their positions, each given to `_take` once."""

    def __init__(self, where: KeyFilter, name: str) -> None:
        self.name = name
        self.where = where
        self.covered = 1
        """Everything below was taken."""
        self.lock = threading.Lock()
        """Held while records are taken, and by whoever looks at what came of them."""
        self.failure: BaseException | None = None
        self.is_open = False
        self.is_live = False
        """Whether it has come to the tail as it was when it was opened."""
        self._holder = 0
        """The thread in which a command or a query runs; it must not ask for what waits for it."""
        self._waiting: list[tuple[int, int, Waiter[None]]] = []
        self._numbers = count()

    @abstractmethod
    def _take(self, records: Sequence[Record], covered: int, live: bool) -> list[Chore]:
        """Apply records, under the lock; what has to be waited for is a chore."""

    def fail(self, error: BaseException) -> None:
        """Nobody who waits, or asks from now on, gets anything else."""
        with self.lock:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The same, under the lock."""
        self.failure = error
        waiting, self._waiting = self._waiting, []
        for _, _, waiter in waiting:
            waiter.fail(error)

    def check(self) -> None:
        """Raise what makes this replica useless."""
        if self._holder and self._holder == threading.get_ident():
            raise InvalidInput(
                f"a command, a query or a transaction of {self.name} may not call {self.name} itself: "
                "use the state, or the transaction, that it is given"
            )
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            raise LogClosed(f"{self.name} is not open: enter its context, or call its open()")

    def _query(self, query: Callable[[], Returned]) -> Returned:
        """What a query returns, of a state that does not change meanwhile."""
        if self.failure is not None or not self.is_open or self._holder:
            self.check()
        with self.lock:
            self._holder = threading.get_ident()
            try:
                return query()
            finally:
                self._holder = 0

    def _waits_for(self, target: int, waiter: Waiter[None]) -> bool:
        """Have it told once everything below `target` was taken; False when that is so already."""
        with self.lock:
            if self.covered >= target:
                return False
            heapq.heappush(self._waiting, (target, next(self._numbers), waiter))
        return True

    def _leaves(self, waiter: Waiter[None]) -> None:
        """It waits no more."""
        if not waiter.done():
            with self.lock:
                self._waiting = [each for each in self._waiting if each[2] is not waiter]
                heapq.heapify(self._waiting)

    def _taken(self, batches: list[Batch], covered: int) -> list[Chore]:
        """Take what came, and tell who waited for it; what has to be done now."""
        records: list[Record] = []
        for batch in batches:
            records += batch.records()
        with self.lock:
            if self.failure is not None and not self.is_open:
                return []
            self._holder = threading.get_ident()
            try:
                chores = self._take(records, covered, self.is_live)
            except Exception as error:
                self._fail(error)
                raise
            finally:
                self._holder = 0
            self.covered = max(self.covered, covered)
            while self._waiting and self._waiting[0][0] <= self.covered:
                heapq.heappop(self._waiting)[2].give(None)
        return chores

    def _chore_failed(self, error: IthacaError) -> None:
        """What could not be done may be done later, by this replica or by another; else it raises."""
        if not error.retry:
            self.fail(error)
            raise error
        _log.warning("%s could not do what it should: %s", self.name, error)

    def _stopped(self, error: Exception) -> None:
        """The log cannot be followed any more."""
        if self.is_open and self.failure is None:
            _log.error("%s stopped at position %d: %s", self.name, self.covered, error)
            self.fail(error)
