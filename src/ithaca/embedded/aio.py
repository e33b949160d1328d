"""The asynchronous face of the embedded log: commits in the disk thread, one wake-up of the loop per group."""

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Literal

from ithaca.client.consuming.awaited.book import ConsumerBook
from ithaca.client.consuming.known import Known
from ithaca.embedded.aio_records import AsyncEmbeddedRecords, AsyncEmbeddedSubscription
from ithaca.embedded.engine import Engine
from ithaca.embedded.opening import open_engine
from ithaca.model.consumers import ConsumerCommand, ConsumerOutcome, check_consumer_name
from ithaca.model.errors import IthacaError, NotWritten
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.interface import awaited
from ithaca.model.paths import AnyPath
from ithaca.model.records import (
    Buffer,
    Compression,
    Durability,
    KeyFilter,
    Keys,
    Receipt,
    Record,
    Retention,
    Start,
    Values,
)
from ithaca.model.units import Duration, Size, optional_seconds, seconds
from ithaca.runtime.checks import check_position
from ithaca.runtime.futures import FuturePending, Opening, Submitted, within
from ithaca.runtime.group_commit import Ticket


class _Tickets:
    """Tickets of one loop: those that a group has done are answered by one call into the loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._done: deque[tuple[Ticket, asyncio.Future[Receipt]]] = deque()
        self._called = False

    def commit(self, ticket: Ticket) -> "asyncio.Future[Receipt]":
        """The receipt to come; the disk thread commits."""
        future: asyncio.Future[Receipt] = self._loop.create_future()
        commits = self._engine.commits()
        commits.when_done(ticket, lambda done: self._tell(done, future))
        commits.add_in_background(ticket)
        return future

    def _tell(self, ticket: Ticket, future: "asyncio.Future[Receipt]") -> None:
        self._done.append((ticket, future))
        if not self._called and not self._loop.is_closed():
            self._called = True
            self._loop.call_soon_threadsafe(self._answer)

    def _answer(self) -> None:
        self._called = False
        while self._done:
            ticket, future = self._done.popleft()
            if future.cancelled():
                continue
            try:
                future.set_result(self._engine.receipt(ticket))
            except IthacaError as error:
                future.set_exception(error)


class AsyncEmbeddedSession(awaited.Session):
    """A session under the epoch at which this handle opened it."""

    def __init__(self, engine: Engine, tickets: _Tickets, name: str, producer_id: int, epoch: int) -> None:
        self.name = name
        self._engine = engine
        self._tickets = tickets
        self._producer_id = producer_id
        self._epoch = epoch

    def __repr__(self) -> str:
        return f"<ithaca.aio.Session {self.name!r} of {self._engine.path}, epoch {self._epoch}>"

    @property
    def next_seq(self) -> int:
        return self._engine.next_seq(self._producer_id, self._epoch)

    async def append_many(
        self, values: Values, *, keys: Keys | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        if seq is None:
            seq = self.next_seq
        timeout_s = optional_seconds(timeout)
        ticket = self._engine.session_ticket(self.name, self._producer_id, self._epoch, seq, values, keys)
        return await within(self._tickets.commit(ticket), timeout_s)


class AsyncEmbeddedLog(ConsumerBook):
    """`ithaca.aio.open`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tickets = _Tickets(engine)
        self._submitted = Submitted()

    def __repr__(self) -> str:
        return f"<ithaca.aio.Log {self._engine}>"

    async def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        timeout_s = optional_seconds(timeout)
        return await within(self._tickets.commit(self._engine.record_ticket(value, key)), timeout_s)

    async def append_many(
        self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None
    ) -> Receipt:
        self._engine.commits()
        timeout_s = optional_seconds(timeout)
        return await within(self._tickets.commit(self._engine.batch_ticket(values, keys)), timeout_s)

    async def submit(self, value: Buffer, *, key: Buffer | None = None) -> FuturePending:
        return await self._submit(self._engine.record_ticket(value, key))

    async def submit_many(self, values: Values, *, keys: Keys | None = None) -> FuturePending:
        self._engine.commits()
        return await self._submit(self._engine.batch_ticket(values, keys))

    async def _submit(self, ticket: Ticket) -> FuturePending:
        commits = self._engine.commits()
        if commits.crowded:
            await asyncio.to_thread(commits.relieve)
        return self._submitted.add(self._tickets.commit(ticket))

    async def flush(self, *, timeout: Duration | None = None) -> None:
        self._engine.commits()
        await self._submitted.flush(optional_seconds(timeout))

    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        engine = self._engine
        check_position(position)
        engine.check_shard(shard)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + seconds(wait, "wait")
        while True:
            try:
                if engine.in_memory(position):
                    return engine.read(position)
                return await asyncio.to_thread(engine.read, position)
            except NotWritten as error:
                left_s = deadline_s - loop.time()
                if left_s <= 0:
                    raise
                async with AsyncEmbeddedSubscription(engine, engine.scan_from(error.tail, None)) as newer:
                    await newer.poll(left_s, max_records=1)

    def read_range(
        self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None
    ) -> AsyncEmbeddedRecords:
        found = AsyncEmbeddedRecords(self._engine, self._engine.scan(start, stop, where))
        return found.told(self._engine.path, stop)

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> AsyncEmbeddedSubscription:
        found = AsyncEmbeddedSubscription(self._engine, self._engine.scan_from(start, where))
        return found.told(self._engine.path)

    async def first(self) -> int:
        return self._engine.first()

    async def tail(self) -> int:
        return self._engine.tail()

    async def trim(self, before: int) -> None:
        await self._tickets.commit(self._engine.trim_ticket(before))

    async def session(self, name: str) -> AsyncEmbeddedSession:
        self._engine.commits()
        ticket, opened = self._engine.opening_ticket(name)
        await self._tickets.commit(ticket)
        return AsyncEmbeddedSession(self._engine, self._tickets, name, opened[0].producer_id, opened[0].epoch)

    @property
    def has_dense_positions(self) -> bool:
        return True

    async def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]:
        timeout_s = optional_seconds(timeout)
        self._engine.commits()
        ticket, outcomes = self._engine.consumers_ticket(commands)
        await within(self._tickets.commit(ticket), timeout_s)
        return tuple(outcomes)

    async def known_consumers(self) -> Known:
        return self._engine.known_consumers()

    async def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        optional_seconds(timeout)
        return self._engine.beat_group(beat)

    async def group_members(self, name: str) -> tuple[GroupMember, ...]:
        check_consumer_name(name)
        return self._engine.group_members(name)

    async def close(self) -> None:
        await asyncio.to_thread(self._engine.close)
        await self._submitted.flush(None)


def open(
    path: AnyPath,
    *,
    mode: Literal["a", "r"] = "a",
    durability: Durability | None = None,
    compression: Compression | None = None,
    retention: Retention | None = None,
    segment_bytes: Size | None = None,
    consumer_idle_s: Duration | None = None,
) -> Opening[awaited.Log]:
    """`ithaca.open`, awaited: `log = await ithaca.aio.open(path)` or `async with ithaca.aio.open(path) as log`.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> int:
    ...     async with ithaca.aio.open("./events") as log:
    ...         return (await log.append(b"hello")).position
    >>> asyncio.run(main())
    1
    """

    async def opened() -> awaited.Log:
        opener = partial(open_engine, path, mode, durability, compression, retention, segment_bytes, consumer_idle_s)
        return AsyncEmbeddedLog(await asyncio.to_thread(opener))

    return Opening(opened)
