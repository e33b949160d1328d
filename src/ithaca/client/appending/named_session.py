"""Named sessions: a producer whose numbers the caller sees."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ithaca.client.appending.outgoing import Outgoing
from ithaca.client.appending.under_way import UnderWay
from ithaca.client.intake import Slot
from ithaca.model.errors import IthacaError
from ithaca.model.interface import awaited
from ithaca.model.records import Compression, Durability, Keys, Receipt, Values
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import check_seq
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


class OpenSession(Protocol):
    """A session under the epoch at which this handle opened it."""

    @property
    def producer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class NumberedProducer(Protocol):
    """What sends the batches of one session, in order, until each is settled."""

    @property
    def session(self) -> OpenSession: ...

    @property
    def durability(self) -> Durability: ...

    def unsettled(self) -> list[tuple[int, int]]:
        """(first number, records) of the batches that are not settled, in order."""

    def send(self, outgoing: Outgoing) -> None: ...

    async def close(self, error: IthacaError) -> None: ...


class NamedSession(awaited.Session):
    """A session under the epoch at which this handle opened it."""

    def __init__(
        self,
        name: str,
        next_seq: int,
        producer: NumberedProducer,
        under_way: UnderWay,
        *,
        compression: Compression,
        timeout_s: float,
        check: Callable[[], None],
    ) -> None:
        """`next_seq` is behind what is in the log; `check` raises when the handle is closed."""
        self.name = name
        self._next_seq = next_seq
        self._producer = producer
        self._under_way = under_way
        self._compression: Compression = compression
        self._timeout_s = timeout_s
        self._check = check

    @property
    def next_seq(self) -> int:
        next_seq = self._next_seq
        for first_seq, count in self._producer.unsettled():
            if first_seq == next_seq:
                next_seq += count
        return next_seq

    async def append_many(
        self, values: Values, *, keys: Keys | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        self._check()
        timeout_s = self._timeout_s if timeout is None else seconds(timeout)
        if seq is not None:
            check_seq(seq)
        if self._under_way.inflight.is_full:
            await self._under_way.inflight.wait_for_room()
            self._check()
        session = self._producer.session
        producer = (session.producer_id, session.epoch, self.next_seq if seq is None else seq)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression, producer=producer)
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._under_way.add_of_session(batch.total_bytes, future)
        self._producer.send(Outgoing(batch, _Sent(self, batch, future)))
        return await within(future, timeout_s)

    async def close(self, error: IthacaError) -> None:
        """Nothing more is sent; what is not settled fails with this."""
        await self._producer.close(error)

    def settled(self, batch: Batch, slot: Slot, outcome: int | IthacaError, shard: int) -> None:
        """A batch is in the log, or will never be."""
        self._under_way.settle(batch.total_bytes)
        if not isinstance(outcome, IthacaError):
            self._next_seq = max(self._next_seq, batch.first_seq + batch.count)
        if slot.done():
            return
        if isinstance(outcome, IthacaError):
            slot.set_exception(outcome)
        else:
            slot.set_result(Receipt(outcome, batch.count, shard, self._producer.durability))


class _Sent:
    """A batch of a session that is under way, and who waits for it."""

    __slots__ = ("_batch", "_session", "_slot")

    def __init__(self, session: NamedSession, batch: Batch, slot: Slot) -> None:
        self._session = session
        self._batch = batch
        self._slot = slot

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._session.settled(self._batch, self._slot, outcome, shard)
