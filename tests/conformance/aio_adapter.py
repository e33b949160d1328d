"""The asynchronous twin, presented synchronously, so that the same tests judge both.

A loop runs in a thread of its own; every call is carried out there and waited for here. Iterators are entered
as `async with` would enter them, which is when the twin settles where they start.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from ithaca.model import interface
from ithaca.model.consumers import CommitPosition, ConsumerCommand, ConsumerInfo, ConsumerOutcome, Lag
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.interface import Batch, awaited
from ithaca.model.interface.awaited import consumers as awaited_consumers
from ithaca.model.interface.blocking.consumers import PartsChanged
from ithaca.model.interface.shared import Consumed
from ithaca.model.limits import PART_TTL_S, POLL_RECORDS_MAX
from ithaca.model.parts import Part, Published
from ithaca.model.records import Buffer, KeyFilter, Receipt, Record, Start
from ithaca.model.units import Duration

Result = TypeVar("Result")


class LoopThread:
    """One event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="conformance-loop")
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """What the coroutine returns or raises."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def call(self, function: Callable[[], Result]) -> Result:
        """What a plain function returns when it is called in the loop."""

        async def call() -> Result:
            return function()

        return self.run(call())

    def stop(self) -> None:
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class AdaptedPending(interface.Pending):
    def __init__(self, thread: LoopThread, twin: awaited.Pending) -> None:
        self._thread = thread
        self._twin = twin

    def result(self, timeout: Duration | None = None) -> Receipt:
        if timeout is not None:
            return self._thread.run(self._twin.result(timeout))

        async def wait() -> Receipt:
            return await self._twin

        return self._thread.run(wait())

    def done(self) -> bool:
        return self._thread.call(self._twin.done)

    def add_done_callback(self, callback: Callable[[interface.Pending], object]) -> None:
        called = (lambda _: callback(self)) if callable(callback) else callback
        self._thread.call(lambda: self._twin.add_done_callback(called))


class AdaptedRecords(interface.Records):
    def __init__(self, thread: LoopThread, open_twin: Callable[[], awaited.Records]) -> None:
        self._thread = thread

        async def enter() -> awaited.Records:
            return await open_twin().__aenter__()

        self._records = thread.run(enter())

    def __repr__(self) -> str:
        return repr(self._records)

    def __next__(self) -> Record:
        return self._step(self._records)

    @property
    def position(self) -> int:
        return self._thread.call(lambda: self._records.position)

    def batches(self) -> Iterator[Batch]:
        twin = self._thread.call(self._records.batches)
        while True:
            try:
                batch = self._step(twin)
            except StopIteration:
                return
            yield batch

    def take_batches(self, timeout: Duration | None = None) -> list[Batch]:
        return self._thread.run(self._records.take_batches(timeout))

    def close(self) -> None:
        self._thread.run(self._records.__aexit__(None, None, None))

    def _step(self, iterator: AsyncIterator[Result]) -> Result:
        async def step() -> list[Result]:
            try:
                return [await anext(iterator)]
            except StopAsyncIteration:
                return []

        found = self._thread.run(step())
        if not found:
            raise StopIteration
        return found[0]


class AdaptedSubscription(AdaptedRecords, interface.Subscription):
    def __init__(self, thread: LoopThread, open_twin: Callable[[], awaited.Subscription]) -> None:
        super().__init__(thread, open_twin)
        assert isinstance(self._records, awaited.Subscription)
        self._subscription = self._records

    def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        return self._thread.run(self._subscription.poll(timeout, max_records))


class AdaptedSession(interface.Session):
    def __init__(self, thread: LoopThread, twin: awaited.Session) -> None:
        self._thread = thread
        self._twin = twin
        self.name = twin.name

    @property
    def next_seq(self) -> int:
        return self._thread.call(lambda: self._twin.next_seq)

    def append(
        self,
        value: Buffer,
        *,
        key: Buffer | None = None,
        seq: int | None = None,
        timeout: Duration | None = None,
    ) -> Receipt:
        return self._thread.run(self._twin.append(value, key=key, seq=seq, timeout=timeout))

    def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        seq: int | None = None,
        timeout: Duration | None = None,
    ) -> Receipt:
        return self._thread.run(self._twin.append_many(values, keys=keys, seq=seq, timeout=timeout))


class AdaptedPartWriter(interface.PartWriter):
    def __init__(self, thread: LoopThread, twin: awaited.PartWriter) -> None:
        self._thread = thread
        self._twin = twin

    @property
    def length(self) -> int:
        return self._thread.call(lambda: self._twin.length)

    @property
    def is_finished(self) -> bool:
        return self._thread.call(lambda: self._twin.is_finished)

    def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        timeout: Duration | None = None,
    ) -> None:
        self._thread.run(self._twin.append_many(values, keys=keys, timeout=timeout))

    def finish(self, *, timeout: Duration | None = None) -> Part:
        return self._thread.run(self._twin.finish(timeout=timeout))

    def abort(self) -> None:
        self._thread.run(self._twin.abort())


class AdaptedConsumer(interface.Consumer):
    def __init__(self, thread: LoopThread, twin: awaited.Consumer) -> None:
        self._thread = thread
        self.twin = twin
        self.name = twin.name

    def __repr__(self) -> str:
        return repr(self.twin)

    def __next__(self) -> Record:
        async def step() -> list[Record]:
            try:
                return [await anext(self.twin)]
            except StopAsyncIteration:
                return []

        found = self._thread.run(step())
        if not found:
            raise StopIteration
        return found[0]

    @property
    def position(self) -> int:
        return self._thread.call(lambda: self.twin.position)

    @property
    def committed(self) -> int:
        return self._thread.call(lambda: self.twin.committed)

    def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        return self._thread.run(self.twin.poll(timeout, max_records))

    def commit(self, position: int | None = None, *, timeout: Duration | None = None) -> int:
        return self._thread.run(self.twin.commit(position, timeout=timeout))

    @property
    def epoch(self) -> int:
        return self._thread.call(lambda: self.twin.epoch)

    @property
    def parts(self) -> tuple[int, ...]:
        return self._thread.call(lambda: self.twin.parts)

    def commits(self, position: int) -> tuple[CommitPosition, ...]:
        return self._thread.call(lambda: self.twin.commits(position))

    def transaction(self) -> "AdaptedTransaction":
        return AdaptedTransaction(self._thread, self.twin.transaction())

    def lag(self) -> Lag:
        return self._thread.run(self.twin.lag())

    def close(self) -> None:
        self._thread.run(self.twin.close())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._thread.run(self.twin.__aexit__(kind, error, tb))


def awaited_callback(callback: PartsChanged | None) -> awaited_consumers.PartsChanged | None:
    """The same, called in a thread of its own, where it may wait for the loop."""
    if not callable(callback):
        return callback

    async def called(parts: tuple[int, ...]) -> object:
        return await asyncio.to_thread(callback, parts)

    return called


def twins_of(consumed: Consumed | None) -> Consumed | None:
    """What the twin knows of consumers that were handed out here."""
    if not isinstance(consumed, Mapping):
        return consumed
    return {each.twin if isinstance(each, AdaptedConsumer) else each: position for each, position in consumed.items()}


class AdaptedTransaction(interface.Transaction):
    def __init__(self, thread: LoopThread, twin: awaited.Transaction) -> None:
        self._thread = thread
        self._twin = twin

    def append_many(self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None) -> None:
        self._thread.run(self._twin.append_many(values, keys=keys))

    def __enter__(self) -> "AdaptedTransaction":
        self._thread.run(self._twin.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._thread.run(self._twin.__aexit__(kind, error, tb))


class AdaptedLog(interface.Log):
    """A synchronous face for `twin`, which was opened in `thread`'s loop."""

    def __init__(self, thread: LoopThread, twin: awaited.Log) -> None:
        self._thread = thread
        self._twin = twin

    def __repr__(self) -> str:
        return repr(self._twin)

    def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        return self._thread.run(self._twin.append(value, key=key, timeout=timeout))

    def append_many(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        timeout: Duration | None = None,
    ) -> Receipt:
        return self._thread.run(self._twin.append_many(values, keys=keys, timeout=timeout))

    def submit(self, value: Buffer, *, key: Buffer | None = None) -> interface.Pending:
        return AdaptedPending(self._thread, self._thread.run(self._twin.submit(value, key=key)))

    def submit_many(
        self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None
    ) -> interface.Pending:
        return AdaptedPending(self._thread, self._thread.run(self._twin.submit_many(values, keys=keys)))

    def flush(self, *, timeout: Duration | None = None) -> None:
        self._thread.run(self._twin.flush(timeout=timeout))

    def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        return self._thread.run(self._twin.read(position, shard=shard, wait=wait))

    def read_range(
        self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None
    ) -> interface.Records:
        return AdaptedRecords(self._thread, lambda: self._twin.read_range(start, stop, where=where))

    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> interface.Subscription:
        return AdaptedSubscription(self._thread, lambda: self._twin.subscribe(start, where=where))

    def first(self) -> int:
        return self._thread.run(self._twin.first())

    def tail(self) -> int:
        return self._thread.run(self._twin.tail())

    def trim(self, before: int) -> None:
        self._thread.run(self._twin.trim(before))

    def session(self, name: str) -> interface.Session:
        return AdaptedSession(self._thread, self._thread.run(self._twin.session(name)))

    def consumer(
        self,
        name: str,
        *,
        start: Start = "earliest",
        where: KeyFilter | None = None,
        commit_records: int | None = None,
        commit_s: Duration | None = None,
        group: bool = False,
        parts: int | None = None,
        lease: Duration | None = None,
        on_assigned: PartsChanged | None = None,
        on_revoked: PartsChanged | None = None,
    ) -> AdaptedConsumer:
        twin = self._twin.consumer(
            name,
            start=start,
            where=where,
            commit_records=commit_records,
            commit_s=commit_s,
            group=group,
            parts=parts,
            lease=lease,
            on_assigned=awaited_callback(on_assigned),
            on_revoked=awaited_callback(on_revoked),
        )
        return AdaptedConsumer(self._thread, self._thread.run(twin))

    def consumers(self) -> tuple[ConsumerInfo, ...]:
        return self._thread.run(self._twin.consumers())

    def reset_consumer(self, name: str, to: Start) -> int:
        return self._thread.run(self._twin.reset_consumer(name, to))

    def delete_consumer(self, name: str) -> None:
        self._thread.run(self._twin.delete_consumer(name))

    def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        return self._thread.run(self._twin.beat_group(beat, timeout=timeout))

    def group_members(self, name: str) -> tuple[GroupMember, ...]:
        return self._thread.run(self._twin.group_members(name))

    def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]:
        return self._thread.run(self._twin.change_consumers(commands, timeout=timeout))

    def prepare(
        self,
        values: Iterable[Buffer],
        *,
        keys: Iterable[Buffer | None] | None = None,
        shard: int | None = None,
        ttl: Duration = PART_TTL_S,
        timeout: Duration | None = None,
    ) -> Part:
        return self._thread.run(self._twin.prepare(values, keys=keys, shard=shard, ttl=ttl, timeout=timeout))

    def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> AdaptedPartWriter:
        twin = self._thread.run(self._twin.open_part(shard=shard, ttl=ttl, timeout=timeout))
        return AdaptedPartWriter(self._thread, twin)

    def publish(
        self,
        key: int,
        parts: Iterable[Part],
        *,
        writer: str,
        owner: str = "",
        consumed: Consumed | None = None,
        timeout: Duration | None = None,
    ) -> Published:
        return self._thread.run(
            self._twin.publish(key, parts, writer=writer, owner=owner, consumed=twins_of(consumed), timeout=timeout)
        )

    def publish_once(
        self, parts: Iterable[Part], *, consumed: Consumed | None = None, timeout: Duration | None = None
    ) -> Published:
        return self._thread.run(self._twin.publish_once(parts, consumed=twins_of(consumed), timeout=timeout))

    def renew(self, parts: Iterable[Part], *, ttl: Duration = PART_TTL_S, timeout: Duration | None = None) -> None:
        self._thread.run(self._twin.renew(parts, ttl=ttl, timeout=timeout))

    def abort(self, parts: Iterable[Part]) -> None:
        self._thread.run(self._twin.abort(parts))

    def close(self) -> None:
        self._thread.run(self._twin.close())
