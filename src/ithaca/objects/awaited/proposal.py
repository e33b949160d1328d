"""A command under way, and what comes of it."""

from typing import Any, Generic, TypeVar

from ithaca.model.interface.awaited.log import Pending
from ithaca.model.units import Duration
from ithaca.objects.awaited.waiting import Promise
from ithaca.objects.limit import Limit
from ithaca.objects.limits import OBJECT_APPLIED_S
from ithaca.objects.machine import Outcome
from ithaca.objects.shared.replica import ReplicaBase

Returned = TypeVar("Returned")


class Proposal(Generic[Returned]):
    """A command under way: its `result` is what the method returned, or raises what it raised.

    >>> async def twice(counter: "Replica[Any]") -> list[int]:
    ...     proposals = [await counter.submit("add", 1) for _ in range(2)]
    ...     return [await each.result() for each in proposals]
    """

    def __init__(self, replica: ReplicaBase[Any], number: int, promise: Promise[Outcome], pending: Pending) -> None:
        self._replica = replica
        self._number = number
        self._promise = promise
        self._pending = pending

    async def result(self, timeout: Duration | None = None) -> Returned:
        """Wait until the command was applied here; `DeadlineExceeded` when that takes longer, and it may still be."""
        promise = self._promise
        if promise.done():
            done: Returned = (await promise.wait(None, "the command")).get()
            return done
        limit = Limit(self._replica.timeout if timeout is None else timeout)
        # Mostly the command is applied soon: to wait for the append first would be to be woken twice.
        if not await promise.came(limit.within(OBJECT_APPLIED_S)):
            try:
                await self._pending.result(limit.left_s)
            except BaseException:
                self._replica.forget(self._number)
                raise
        returned: Returned = (await promise.wait(limit.left_s, "the command")).get()
        return returned

    def done(self) -> bool:
        """Whether it was applied here."""
        return self._promise.done()
