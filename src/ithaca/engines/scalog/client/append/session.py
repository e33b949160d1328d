"""Named sessions: a producer whose numbers the caller sees."""

import asyncio
from collections.abc import Callable

from ithaca.client.deadline import Deadline
from ithaca.client.intake import Slot
from ithaca.client.outgoing import Outgoing
from ithaca.engines.scalog.client.append.appends import Appends
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.producer import Producer
from ithaca.engines.scalog.client.replicas import ASK_ANOTHER
from ithaca.engines.scalog.messages.appending import GetNextSeq, NextSeqIs
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, ProtocolError, WrongLane
from ithaca.model.interface import awaited
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.records import Compression, Keys, Receipt, Values
from ithaca.model.units import Duration, seconds
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import check_seq
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build


class AsyncClusterSession(awaited.Session):
    """A session under the epoch at which this handle opened it."""

    def __init__(
        self,
        session: Session,
        next_seq: int,
        appends: Appends,
        *,
        compression: Compression,
        timeout_s: float,
        check: Callable[[], None],
    ) -> None:
        self.name = session.name
        self._appends = appends
        self._compression: Compression = compression
        self._timeout_s = timeout_s
        self._check = check
        self._next_seq = next_seq  # behind what is ordered
        self._producer = Producer(appends.homes, session, self, one_by_one=True)
        self._producer.start()

    def __repr__(self) -> str:
        session = self._producer.session
        return f"<ithaca.aio.Session {self.name!r}, epoch {session.epoch}, home {session.home}, next {self.next_seq}>"

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

    def settled(self, batch: Batch, slot: Slot, outcome: int | IthacaError, shard: int) -> None:
        """A batch is in the log, or will never be."""
        self._appends.settled(batch.total_bytes)
        if not isinstance(outcome, IthacaError):
            self._next_seq = max(self._next_seq, batch.first_seq + batch.count)
        if slot.done():
            return
        if isinstance(outcome, IthacaError):
            slot.set_exception(outcome)
        else:
            slot.set_result(Receipt(outcome, batch.count, shard, self._producer.durability))

    # What the producer calls

    def has_room(self) -> None:
        pass

    def unreachable(self, error: IthacaError) -> None:
        pass

    def moved(self) -> None:
        pass

    def failed(self, error: IthacaError) -> None:
        pass


class _Sent:
    """A batch of a session that is under way, and who waits for it."""

    __slots__ = ("_batch", "_session", "_slot")

    def __init__(self, session: AsyncClusterSession, batch: Batch, slot: Slot) -> None:
        self._session = session
        self._batch = batch
        self._slot = slot

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._session.settled(self._batch, self._slot, outcome, shard)


async def open_session(homes: Homes, name: str, deadline: Deadline) -> tuple[Session, int]:
    """The session under a new epoch, which its home knows of, and the number that continues it."""
    session = await homes.opened(name, deadline)
    pauses = Backoff()
    while True:
        try:
            link = await homes.link(session.home)
            question = GetNextSeq(session.home, session.producer_id, session.epoch)
            answer = (await link.request(question, min(ATTEMPT_TIMEOUT_S, max(deadline.left_s, 0.001)))).message
            if not isinstance(answer, NextSeqIs):
                raise ProtocolError(f"a replica answered GetNextSeq with {type(answer).__name__}")
            return session, answer.next_seq
        except (*ASK_ANOTHER, WrongLane):
            if deadline.passed:
                raise
        await pauses.pause(deadline)
        session, _ = await homes.settled(session)
