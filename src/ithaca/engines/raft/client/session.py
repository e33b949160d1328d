"""Named sessions: a producer whose numbers the caller sees."""

import asyncio
from collections.abc import Callable

from ithaca.client.intake import Slot
from ithaca.client.outgoing import Outgoing
from ithaca.engines.raft.client.appends import Appends
from ithaca.engines.raft.client.producer import SHARD, Producer
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import SessionIs
from ithaca.model.errors import IthacaError
from ithaca.model.interface import awaited
from ithaca.model.records import Compression, Keys, Receipt, Values
from ithaca.model.units import Duration, seconds
from ithaca.runtime.checks import check_seq
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


class RaftSession(awaited.Session):
    """A session under the epoch at which this handle opened it."""

    def __init__(
        self,
        name: str,
        session: SessionIs,
        servers: Servers,
        appends: Appends,
        *,
        compression: Compression,
        timeout_s: float,
        check: Callable[[], None],
    ) -> None:
        self.name = name
        self._appends = appends
        self._compression: Compression = compression
        self._timeout_s = timeout_s
        self._check = check
        self._next_seq = session.next_seq  # behind what is in the log
        self._producer = Producer(servers, session, one_by_one=True, has_room=_nothing, failed=_nothing)

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
        if self._appends.inflight.is_full:
            await self._appends.inflight.wait_for_room()
            self._check()
        session = self._producer.session
        producer = (session.producer_id, session.epoch, self.next_seq if seq is None else seq)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression, producer=producer)
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._appends.count_session(batch.total_bytes, future)
        self._producer.send(Outgoing(batch, _Sent(self, batch, future)))
        return await within(future, timeout_s)

    async def close(self, error: IthacaError) -> None:
        await self._producer.close(error)

    def settled(self, batch: Batch, slot: Slot, outcome: int | IthacaError) -> None:
        """A batch is in the log, or will never be."""
        self._appends.inflight.settle(batch.total_bytes)
        if not isinstance(outcome, IthacaError):
            self._next_seq = max(self._next_seq, batch.first_seq + batch.count)
        if slot.done():
            return
        if isinstance(outcome, IthacaError):
            slot.set_exception(outcome)
        else:
            slot.set_result(Receipt(outcome, batch.count, SHARD, self._producer.durability))


class _Sent:
    """A batch of a session that is under way, and who waits for it."""

    __slots__ = ("_batch", "_session", "_slot")

    def __init__(self, session: RaftSession, batch: Batch, slot: Slot) -> None:
        self._session = session
        self._batch = batch
        self._slot = slot

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._session.settled(self._batch, self._slot, outcome)


def _nothing() -> None:
    """Callers wait for their batches themselves."""
