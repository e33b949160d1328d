"""Whoever plays the log: up to the tail at first, then along with it, in the background."""

import heapq
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import count
from typing import Generic, TypeVar

from ithaca.model.errors import InvalidInput, IthacaError, LogClosed, Unavailable
from ithaca.model.interface.awaited.log import Log
from ithaca.model.interface.awaited.records import Subscription
from ithaca.model.interface.shared import Batch
from ithaca.model.records import KeyFilter, Record
from ithaca.objects.awaited.waiting import Bell, Lock, Promise, Worker
from ithaca.objects.limit import Limit
from ithaca.objects.limits import OBJECT_PATIENCE_S, OBJECT_RETRY_S_MAX, OBJECT_RETRY_S_MIN
from ithaca.runtime.backoff import Backoff

Chore = TypeVar("Chore")

_log = logging.getLogger("ithaca.objects")


class Follower(ABC, Generic[Chore]):
    """Records of one filter in the order of their positions, each given to `_take` once.

    They come from a subscription. A read that must be fresh does not depend on it: records of others at the tail would
    keep it waiting, since a filter passes over them in silence. So it reads the range up to the tail itself, and what
    the subscription brings late is passed over.
    """

    def __init__(self, log: Log, where: KeyFilter, name: str) -> None:
        self.log = log
        self.name = name
        self.where = where
        self.covered = 1
        """Everything below was taken."""
        self.lock = threading.Lock()
        """Held while records are taken, and by whoever looks at what came of them."""
        self.failure: BaseException | None = None
        self.is_open = False
        self.holder = 0
        """The thread in which a command or a query runs; it must not ask for what waits for it."""
        self._live = False
        self._reading = Lock()
        self._waiting: list[tuple[int, int, Promise[None]]] = []
        self._numbers = count()
        self._subscription: Subscription | None = None
        self._worker: Worker | None = None
        self._bell = Bell()

    @abstractmethod
    def _take(self, records: Sequence[Record], covered: int, live: bool) -> list[Chore]:
        """Apply records, under the lock; what has to be waited for is a chore."""

    @abstractmethod
    async def _perform(self, chore: Chore) -> None:
        """Do what was to be done, without the lock."""

    # Playing

    async def begin(self, start: int) -> None:
        """Play from here up to the tail as it is now, then follow."""
        self.covered = start
        self.is_open = True
        await self._read_to(await self.log.tail())
        self._live = True
        self._worker = Worker(f"ithaca-{self.name}", self._follow)

    async def end(self) -> None:
        """Follow no more. Idempotent."""
        self.is_open = False
        self._bell.ring()
        self.fail(LogClosed(f"{self.name} was closed"))
        subscription, worker, self._worker = self._subscription, self._worker, None
        if subscription is not None:
            await subscription.close()
        if worker is not None:
            await worker.stop()

    def fail(self, error: BaseException) -> None:
        """Nobody who waits, or asks from now on, gets anything else."""
        with self.lock:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """The same, under the lock."""
        self.failure = error
        waiting, self._waiting = self._waiting, []
        for _, _, promise in waiting:
            promise.fail(error)

    def check(self) -> None:
        """Raise what makes this replica useless."""
        if self.holder and self.holder == threading.get_ident():
            raise InvalidInput(
                f"a command, a query or a transaction of {self.name} may not call {self.name} itself: "
                "use the state, or the transaction, that it is given"
            )
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            raise LogClosed(f"{self.name} is not open: enter its context, or call its open()")

    # Waiting

    async def fresh(self, limit: Limit) -> int:
        """Until everything that was appended before this call was taken; returns the tail."""
        tail = await self.log.tail()
        await self.reach(tail, limit)
        return tail

    async def reach(self, target: int, limit: Limit) -> None:
        """Until everything below `target` was taken."""
        self.check()
        if self.covered >= target:
            return
        promise: Promise[None] = Promise()
        with self.lock:
            if self.covered >= target:
                return
            heapq.heappush(self._waiting, (target, next(self._numbers), promise))
        try:
            if not await promise.came(limit.within(OBJECT_PATIENCE_S)):
                await self._read_to(min(target, await self.log.tail()))
            await promise.wait(limit.left_s, f"{self.name} at position {self.covered}, waiting for {target},")
        finally:
            if not promise.done():
                with self.lock:
                    self._waiting = [each for each in self._waiting if each[2] is not promise]
                    heapq.heapify(self._waiting)

    async def _read_to(self, target: int) -> None:
        """Read up to here by ourselves; the tail must have been as far."""
        async with self._reading:
            if self.covered >= target:
                return
            async with self.log.read_range(self.covered, target, where=self.where) as records:
                while batches := await records.take_batches(None):
                    await self._arrived(batches, records.position)
            await self._arrived([], target)

    # Following

    async def _follow(self) -> None:
        backoff = Backoff(OBJECT_RETRY_S_MIN, OBJECT_RETRY_S_MAX)
        while self.is_open:
            try:
                await self._subscribed(backoff)
            except Unavailable as error:
                _log.warning("%s cannot follow the log: %s; it tries again", self.name, error)
                await self._bell.pause(backoff.next_s())
            except Exception as error:
                if self.is_open and self.failure is None:
                    _log.error("%s stopped at position %d: %s", self.name, self.covered, error)
                    self.fail(error)
                return

    async def _subscribed(self, backoff: Backoff) -> None:
        async with self.log.subscribe(self.covered, where=self.where) as subscription:
            self._subscription = subscription
            while self.is_open:
                batches = await subscription.take_batches(None)
                if not batches:
                    return
                backoff.reset()
                await self._arrived(batches, subscription.position)

    async def _arrived(self, batches: list[Batch], covered: int) -> None:
        records: list[Record] = []
        for batch in batches:
            records += batch.records()
        with self.lock:
            if self.failure is not None and not self.is_open:
                return
            self.holder = threading.get_ident()
            try:
                chores = self._take(records, covered, self._live)
            except Exception as error:
                self._fail(error)
                raise
            finally:
                self.holder = 0
            self.covered = max(self.covered, covered)
            while self._waiting and self._waiting[0][0] <= self.covered:
                heapq.heappop(self._waiting)[2].give(None)
        for chore in chores:
            try:
                await self._perform(chore)
            except IthacaError as error:
                if not error.retry:
                    self.fail(error)
                    raise
                _log.warning("%s could not do what it should: %s", self.name, error)
