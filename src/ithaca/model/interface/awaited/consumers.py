"""Named consumers, awaited: readers whose positions the log remembers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Self

from ithaca.model.consumers import CommitPosition, ConsumerCommand, ConsumerInfo, ConsumerOutcome, Lag
from ithaca.model.engine import Feature
from ithaca.model.groups import GroupBeat, GroupMember, GroupTold
from ithaca.model.interface.awaited.records import Closing
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import Buffer, KeyFilter, Keys, Record, Start, Values
from ithaca.model.units import Duration

PartsChanged = Callable[[tuple[int, ...]], Awaitable[object]]
"""What is called with the parts of a group that a member gets, or has to give back."""


class Consumer(Closing, AsyncIterator[Record]):
    """Records from where the consumer of this name was, without end: iteration waits for the next.

    What was committed is remembered by the log. A program that ends, or crashes, goes on behind the last commit when it
    opens the name again, so that every record is processed at least once. Opening it again fences this handle: its
    `commit` is `ConsumerFenced` from then on.

    Asking for the next record says that those before it were processed. With `commit_records` or `commit_s` the
    consumer commits by itself then, and when its context is left without an error; otherwise `commit` does.

    A member of a group has some of its `parts`, which change as members come and go. A member that asks for no record
    for as long as its lease loses them. What it was handed out of a part that another member has now cannot be
    committed: `commit` is `ConsumerFenced` then, has committed the rest, and the member goes on with the parts that it
    has.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> tuple[bytes, int]:
    ...     async with ithaca.aio.open("./events") as log:
    ...         receipt = await log.append_many([b"a", b"b"])
    ...         async with await log.consumer("billing") as consumer:
    ...             record = await anext(consumer)
    ...             return record.value, await consumer.commit()
    >>> asyncio.run(main())
    (b'a', 2)
    """

    name: str

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the next record will be looked for: behind the last one that was handed out."""

    @property
    @abstractmethod
    def committed(self) -> int:
        """Everything below was processed, as the log knows: here the next handle goes on."""

    @abstractmethod
    async def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        """Up to `max_records` records, waiting up to `timeout` seconds for the first (None: for ever).

        An empty list means that nothing arrived in time; `LogClosed`, that nothing will.
        """

    @abstractmethod
    async def commit(self, position: int | None = None, *, timeout: Duration | None = None) -> int:
        """Have everything below `position` (default: all that was handed out) remembered as processed.

        Returns what is committed once that is durable: never less than before. `ConsumerFenced` if the consumer was
        opened again, or reset; then nothing changed.
        """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Of this handle: its commits count until the consumer is opened again, or reset."""

    @property
    @abstractmethod
    def parts(self) -> tuple[int, ...]:
        """The parts of a group that this member has now; of a consumer that is no group, the only one."""

    @abstractmethod
    def commits(self, position: int) -> tuple[CommitPosition, ...]:
        """What a publication has to carry to commit this position: what `publish` makes of `consumed`."""

    @abstractmethod
    def transaction(self) -> "Transaction":
        """What is appended in it, and what was handed out so far, are committed in one step, or neither is.

        `Unsupported` on entering it where the engine has no prepared appends.

        >>> import ithaca.aio
        >>> async def enrich(log: ithaca.aio.Log) -> None:
        ...     async with await log.consumer("enricher") as consumer:
        ...         while records := await consumer.poll(timeout=1):
        ...             async with consumer.transaction() as transaction:
        ...                 for record in records:
        ...                     await transaction.append(record.value.upper(), key=record.key)
        """

    @abstractmethod
    async def lag(self) -> Lag:
        """How far `position` is behind the tail, now."""

    @abstractmethod
    async def close(self) -> None:
        """Stop: an iteration waiting in another task ends. Nothing is committed. Idempotent."""


class Transaction(ABC):
    """Records that are appended together with a commit; leaving its context publishes both, an error neither.

    >>> import ithaca.aio
    >>> async def moved(consumer: ithaca.aio.Consumer, values: list[bytes]) -> int:
    ...     async with consumer.transaction() as transaction:
    ...         await transaction.append_many(values)
    ...     return consumer.committed
    """

    async def append(self, value: Buffer, *, key: Buffer | None = None) -> None:
        """Append one record, if the transaction is published."""
        await self.append_many([value], keys=None if key is None else [key])

    @abstractmethod
    async def append_many(self, values: Values, *, keys: Keys | None = None) -> None:
        """Append records, with consecutive positions, if the transaction is published."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Begin it."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Publish it, unless there was an error."""


class Consuming:
    """What a log has for named consumers; `Log` inherits it.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> int:
    ...     async with ithaca.aio.open("./events") as log:
    ...         consumer = await log.consumer("billing")
    ...         receipt = await log.append_many([b"a", b"b"])
    ...         return await log.reset_consumer("billing", "latest")
    >>> asyncio.run(main())
    3
    """

    async def consumer(
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
    ) -> Consumer:
        """Go on as the consumer of this name, fencing whoever had it open.

        A name that there is none of begins at `start`. With `commit_records` it commits by itself after so many
        records, with `commit_s` after so much time, if there is something to commit.

        With `group` become one of those who share its records by their keys, in so many `parts` (default: 16, or as
        many as the group has). A member that asks for no record for as long as its `lease` (default: 10 seconds) loses
        its parts. `on_assigned` is called with parts that it gets; `on_revoked` with those that another member waits
        for, before they are handed over, so that what was handed out of them can be committed, and with those that it
        has lost.

        >>> import asyncio, ithaca.aio
        >>> async def main() -> int:
        ...     async with ithaca.aio.open("./events") as log:
        ...         receipt = await log.append_many([b"a", b"b", b"c"])
        ...         async with await log.consumer("billing", commit_records=1) as consumer:
        ...             records = await consumer.poll(max_records=2)
        ...         return (await log.consumer("billing")).position
        >>> asyncio.run(main())
        3
        """
        raise unsupported(Feature.CONSUMERS)

    async def consumers(self) -> tuple[ConsumerInfo, ...]:
        """The named consumers, in the order of their names: where they stand, and how far behind the tail.

        >>> import asyncio, ithaca.aio
        >>> async def main() -> list[str]:
        ...     async with ithaca.aio.open("./events") as log:
        ...         consumer = await log.consumer("billing")
        ...         return [each.name for each in await log.consumers()]
        >>> asyncio.run(main())
        ['billing']
        """
        raise unsupported(Feature.CONSUMERS)

    async def reset_consumer(self, name: str, to: Start) -> int:
        """Have the consumer go on at a position, "earliest", "latest" or a time; returns the position.

        Whoever has it open is fenced. `NoSuchConsumer`, `Trimmed` for what is gone.
        """
        raise unsupported(Feature.CONSUMERS)

    async def delete_consumer(self, name: str) -> None:
        """Forget the consumer, whoever has it open; `NoSuchConsumer` if there is none."""
        raise unsupported(Feature.CONSUMERS)

    async def group_members(self, name: str) -> tuple[GroupMember, ...]:
        """The members of a group, as whoever assigns its parts has heard of them; `NoSuchConsumer` if there is none.

        >>> import asyncio, ithaca.aio
        >>> async def main() -> list[tuple[int, ...]]:
        ...     async with ithaca.aio.open("./events") as log:
        ...         async with await log.consumer("billing", group=True, parts=4) as consumer:
        ...             return [each.parts for each in await log.group_members("billing")]
        >>> asyncio.run(main())
        [(0, 1, 2, 3)]
        """
        raise unsupported(Feature.CONSUMERS)

    async def beat_group(self, beat: GroupBeat, *, timeout: Duration | None = None) -> GroupTold:
        """What members of groups are made of: say that one is alive, and learn which parts are its own."""
        raise unsupported(Feature.CONSUMERS)

    async def change_consumers(
        self, commands: Sequence[ConsumerCommand], *, timeout: Duration | None = None
    ) -> tuple[ConsumerOutcome, ...]:
        """What handles of consumers are made of: each command is agreed on, and durable, with one outcome for each."""
        raise unsupported(Feature.CONSUMERS)
