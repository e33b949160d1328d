"""Whoever plays the log: up to the tail at first, then along with it, in the background."""

from abc import abstractmethod
from typing import Self

from ithaca.model.arguments import instance
from ithaca.model.errors import IthacaError, LogClosed, Unavailable
from ithaca.model.interface.awaited.log import Log
from ithaca.model.interface.awaited.records import Subscription
from ithaca.model.interface.shared import Batch
from ithaca.model.records import KeyFilter
from ithaca.objects.awaited.opening import Opening
from ithaca.objects.awaited.waiting import Bell, Lock, Promise, Worker
from ithaca.objects.limit import Limit
from ithaca.objects.limits import OBJECT_PATIENCE_S, OBJECT_RETRY_S_MAX, OBJECT_RETRY_S_MIN
from ithaca.objects.shared.following import Chore, Following, _log
from ithaca.runtime.backoff import Backoff


class Follower(Following[Chore], Opening):
    """Records of one filter in the order of their positions, each given to `_take` once.

    They come from a subscription. A read that must be fresh does not depend on it: records of others at the tail would
    keep it waiting, since a filter passes over them in silence. So it reads the range up to the tail itself, and what
    the subscription brings late is passed over.
    """

    def __init__(self, log: Log, where: KeyFilter, name: str) -> None:
        super().__init__(where, name)
        self.log = instance(log, Log, "log", "a log of ithaca.aio.open or ithaca.aio.connect")
        self._reading = Lock()
        self._subscription: Subscription | None = None
        self._worker: Worker | None = None
        self._bell = Bell()

    @abstractmethod
    async def _perform(self, chore: Chore) -> None:
        """Do what was to be done, without the lock."""

    @abstractmethod
    async def _begin(self) -> None:
        """Begin where the log has to be played from."""

    # Playing

    async def open(self) -> Self:
        if self.failure is not None:
            raise self.failure
        if not self.is_open:
            try:
                await self._begin()
            except BaseException:
                await self.close()
                raise
        return self

    async def close(self) -> None:
        self.is_open = False
        self._bell.ring()
        self.fail(LogClosed(f"{self.name} was closed"))
        subscription, worker, self._worker = self._subscription, self._worker, None
        if subscription is not None:
            await subscription.close()
        if worker is not None:
            await worker.stop()

    async def begin(self, start: int) -> None:
        """Play from here up to the tail as it is now, then follow."""
        self.covered = start
        self.is_open = True
        await self._read_to(await self.log.tail())
        self.is_live = True
        self._worker = Worker(f"ithaca-{self.name}", self._follow)

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
        if not self._waits_for(target, promise):
            return
        try:
            if not await promise.came(limit.within(OBJECT_PATIENCE_S)):
                await self._read_to(min(target, await self.log.tail()))
            await promise.wait(limit.left_s, f"{self.name} at position {self.covered}, waiting for {target},")
        finally:
            self._leaves(promise)

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
                self._stopped(error)
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
        for chore in self._taken(batches, covered):
            try:
                await self._perform(chore)
            except IthacaError as error:
                self._chore_failed(error)
