"""Where the synchronous twin hands appends over to the asynchronous log, and how answers come back.

Everything happens on the loop of the portal. A record costs two plain calls, one in each direction: no
coroutine, no task, no future.
"""

import copy
from typing import Protocol

from ithaca.client.inflight import InflightBytes
from ithaca.model.errors import IthacaError
from ithaca.model.records import Receipt
from ithaca.wire.batch import Batch


class Slot(Protocol):
    """Where the answer to one append goes: a `Pending` of the synchronous twin, or an `asyncio.Future`."""

    def done(self) -> bool:
        """Whether there is an answer, or nobody wants one any more."""

    def set_result(self, receipt: Receipt, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


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

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        """Append one atomic batch, which `wire.build.build` has made for no producer yet."""


def refuse(slot: Slot, error: IthacaError) -> None:
    """Answer a slot with an error of its own, since many may raise it."""
    if not slot.done():
        slot.set_exception(copy.copy(error))
