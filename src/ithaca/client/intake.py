"""Where the synchronous twin hands appends over to the asynchronous log, and how answers come back.

Everything happens on the loop of the portal. A record costs two plain calls, one in each direction: no
coroutine, no task, no future.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from ithaca.client.inflight import InflightBytes
from ithaca.model.errors import IthacaError
from ithaca.model.records import Durability, Receipt
from ithaca.wire.batch import Batch


class Slot(Protocol):
    """Where the answer to one append goes: a `Pending` of the synchronous twin, or an `asyncio.Future`."""

    def done(self) -> bool:
        """Whether there is an answer, or nobody wants one any more."""

    def set_result(self, receipt: Receipt, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


class RecordSlot(ABC):
    """One record that was checked, and that is itself where its answer goes: nothing else is made for it."""

    __slots__ = ()
    value: bytes
    key: bytes | None
    size_bytes: int
    """What it counts for while it is under way."""
    shard: int | None = None
    """Where it must go; None leaves that to others."""
    records = 1

    @property
    def slot(self) -> Slot:
        return self

    @abstractmethod
    def done(self) -> bool: ...

    @abstractmethod
    def set_result(self, receipt: Receipt, /) -> None: ...

    @abstractmethod
    def set_exception(self, error: BaseException, /) -> None: ...

    @abstractmethod
    def set_results(self, run: "Sequence[RecordSlot]", position: int, shard: int, durability: Durability) -> None:
        """This one and all others of the run, which are of one log, are in it one behind the other from there on."""


class Intake(Protocol):
    """What an asynchronous log offers beside its public face. Called on its loop; never waits.

    Each slot is answered exactly once, at the latest when the log is closed, and in a later turn or in this
    one. Appends that were taken in some order are sent in that order.
    """

    @property
    def inflight(self) -> InflightBytes:
        """What was taken and is not settled."""

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        """Append one record, which `wire.build.checked_record` has checked."""

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        """Append these one behind the other, each by itself. What goes wrong with one is its answer."""

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        """Append one atomic batch, which `wire.build.build` has made for no producer yet."""


def take_each(run: Sequence[RecordSlot], take: Callable[[RecordSlot], None]) -> None:
    """Take records one by one; what is raised is the answer of that one."""
    for each in run:
        try:
            take(each)
        except Exception as error:  # a policy of the user's may raise anything
            each.set_exception(error)


def refuse(slot: Slot, error: IthacaError) -> None:
    """Answer a slot with an error of its own, since many may raise it."""
    if not slot.done():
        slot.set_exception(copy.copy(error))
