"""The log, awaited: its appends, its sessions, and what a cluster's log has besides."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator
from typing import Any, overload

from ithaca.model.engine import Feature
from ithaca.model.interface.awaited.admin import Admin
from ithaca.model.interface.awaited.consumers import Consuming
from ithaca.model.interface.awaited.parts import PreparedAppends
from ithaca.model.interface.awaited.records import Closing, Records, Subscription
from ithaca.model.interface.awaited.speculation import Speculation
from ithaca.model.interface.positions import NotSequence, range_of
from ithaca.model.interface.shared import ClusterStatus, ShardPolicy
from ithaca.model.interface.unsupported import refuses, unsupported
from ithaca.model.records import Buffer, KeyFilter, Keys, Receipt, Record, Start, Values
from ithaca.model.units import Duration


class Pending(ABC):
    """An append under way: `await` it, or its `result`, for the receipt.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> int:
    ...     async with ithaca.aio.open("./events") as log:
    ...         pending = await log.submit(b"hello")
    ...         return (await pending.result()).position
    >>> asyncio.run(main())
    1
    """

    __slots__ = ()

    @abstractmethod
    async def result(self, timeout: Duration | None = None) -> Receipt:
        """Wait for the receipt; raises what the append raised, or `DeadlineExceeded`."""

    def __repr__(self) -> str:
        return f"<ithaca.Pending, {'done' if self.done() else 'under way'}>"

    @abstractmethod
    def done(self) -> bool:
        """Whether `result` would return or raise at once."""

    @abstractmethod
    def add_done_callback(self, callback: Callable[["Pending"], object]) -> None:
        """Call `callback(self)` in the event loop when done; in its next turn if it is done already."""

    def __await__(self) -> Generator[Any, None, Receipt]:
        return self.result().__await__()


class Session(ABC):
    """A named producer whose retries are recognised: same sequence number, same receipt.

    Numbers count records. The name, the number and the last receipts survive restarts; opening the name
    again fences this handle. A program that stores `next_seq` with its own progress, or derives numbers
    from its input, appends each record exactly once, whatever crashes.

    A cluster keeps a name until somebody has it expire, or until it was idle for as long as its file says. An embedded
    log keeps the 4,096 names that were used last. A name that is gone begins again, with number 1.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> tuple[bool, int]:
    ...     async with ithaca.aio.open("./events") as log:
    ...         session = await log.session("importer")
    ...         first = await session.append(b"row 1", seq=1)
    ...         return await session.append(b"row 1", seq=1) == first, session.next_seq
    >>> asyncio.run(main())
    (True, 2)
    """

    name: str

    def __repr__(self) -> str:
        return f"<ithaca.Session {self.name!r}, next number {self.next_seq}>"

    @property
    @abstractmethod
    def next_seq(self) -> int:
        """The number that the next new record must have; 1 at first."""

    async def append(
        self, value: Buffer, *, key: Buffer | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        """Append one record under `seq` (default: the next number)."""
        return await self.append_many([value], keys=None if key is None else [key], seq=seq, timeout=timeout)

    @abstractmethod
    async def append_many(
        self, values: Values, *, keys: Keys | None = None, seq: int | None = None, timeout: Duration | None = None
    ) -> Receipt:
        """Append one atomic batch whose first record has the number `seq` (default: the next number)."""


class Log(PreparedAppends, Consuming, Closing, NotSequence):
    """A totally ordered log of records. `ithaca.aio.open` gives one; `close` is idempotent.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> bytes:
    ...     async with ithaca.aio.open("./events") as log:
    ...         receipt = await log.append(b"hello", key=b"user-7")
    ...         return (await log.read(receipt.position)).value
    >>> asyncio.run(main())
    b'hello'
    """

    @abstractmethod
    async def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        """Append one record; returns once it is durable and ordered."""

    @abstractmethod
    async def append_many(
        self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None
    ) -> Receipt:
        """Append one atomic batch with consecutive positions; `BatchTooLarge`, never split."""

    @abstractmethod
    async def submit(self, value: Buffer, *, key: Buffer | None = None) -> Pending:
        """Append without waiting for the receipt; waits only while too many bytes are in flight."""

    @abstractmethod
    async def submit_many(self, values: Values, *, keys: Keys | None = None) -> Pending:
        """`append_many` without waiting for the receipt."""

    @abstractmethod
    async def flush(self, *, timeout: Duration | None = None) -> None:
        """Wait for everything submitted before; raises the first failure since the last flush."""

    @abstractmethod
    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        """The record at `position`; `NotWritten` unless it appears within `wait` seconds.

        `EmptyPosition` where there is none and never will be, which some engines have.
        """

    @abstractmethod
    def read_range(self, start: Start, stop: Start | None = None, *, where: KeyFilter | None = None) -> Records:
        """The records of `[start, stop)`, by default up to the tail at the time of the call.

        Either is a position, "earliest", "latest" or an aware datetime, which stands for the first position of that
        time or a later one.
        """

    @abstractmethod
    def subscribe(self, start: Start = "latest", *, where: KeyFilter | None = None) -> Subscription:
        """Records from `start` on, for ever: a position, "earliest", "latest" or an aware datetime."""

    @abstractmethod
    async def first(self) -> int:
        """The first position that can be read; equal to `tail()` when there is none."""

    @abstractmethod
    async def tail(self) -> int:
        """The next position to be written; 1 when nothing ever was."""

    async def trim(self, before: int) -> None:
        """Give up every record below `before`, for good."""
        raise unsupported(Feature.TRIM)

    async def session(self, name: str) -> Session:
        """Open the named exactly-once session, fencing whoever had it open."""
        raise unsupported(Feature.SESSIONS)

    @abstractmethod
    async def close(self) -> None:
        """Flush, release everything; raises what failed. Idempotent."""

    @overload
    def __getitem__(self, at: int) -> Awaitable[Record]: ...
    @overload
    def __getitem__(self, at: slice) -> Records: ...
    def __getitem__(self, at: int | slice) -> "Awaitable[Record] | Records":
        """`log[5]` is `read(5)`, and `log[5:9]` is `read_range(5, 9)`: positions begin with 1."""
        if not isinstance(at, slice):
            return self.read(at)
        return self.read_range(*range_of(at))

    def __dir__(self) -> list[str]:
        """Without what this log cannot do."""
        return [name for name in super().__dir__() if not refuses(type(self), name, (Log, PreparedAppends, Consuming))]


class ClusterLog(Log):
    """The log of a cluster. `ithaca.aio.connect` gives one.

    >>> import ithaca.aio
    >>> async def copy(bootstrap: str, values: list[bytes]) -> int:
    ...     async with ithaca.aio.connect(bootstrap) as log:
    ...         return (await log.append_many(values)).position
    """

    @property
    def admin(self) -> Admin:
        """What changes the cluster: its shards."""
        return Admin()

    async def append_to_shard(
        self, shard: int, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None
    ) -> Receipt:
        """Append one record to this shard, whatever the policy says.

        `NoSuchShard`, or `ShardFinalized` when it takes no more. If that comes while the record is under way it goes
        to another shard, as the receipt says.
        """
        raise unsupported(Feature.SHARDS)

    def set_shard_policy(self, policy: ShardPolicy) -> None:
        """Where records go from now on."""
        raise unsupported(Feature.SHARDS)

    def speculate(self, start: Start = "latest", *, where: KeyFilter | None = None) -> Speculation:
        """Records from `start` on as soon as they are durable, and later whether their places are final.

        >>> import ithaca.aio
        >>> async def shown(bootstrap: str) -> None:
        ...     async with ithaca.aio.connect(bootstrap) as log, log.speculate("earliest") as speculation:
        ...         async for event in speculation:
        ...             print(event)
        """
        raise unsupported(Feature.SPECULATION)

    async def write(
        self, position: int, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None
    ) -> Receipt:
        """Write one atomic batch at a position of your own choice, which must be one at which an append can begin: 1,
        1048577, 2097153 and so on. For those who bring their own order; the same records again are the same.

        It may lie beyond the tail, by 65,536 appends at most: then nobody who appends gets a position before it any
        more, and those in between stay free for whoever names them, until a reader fills them. A log that has no
        sequencer takes the next one alone. `PositionTaken` when somebody else has it, `EmptyPosition` when it was
        filled, `Trimmed` when it is gone, `BatchTooLarge`, and `InvalidInput` for any other position.

        >>> import ithaca.aio
        >>> async def place(bootstrap: str, number: int, values: list[bytes]) -> int:
        ...     async with ithaca.aio.connect(bootstrap) as log:
        ...         return (await log.write(1 + 1_048_576 * number, values)).position
        """
        raise unsupported(Feature.POSITIONS)

    async def fill(self, position: int) -> bool:
        """Settle a position that somebody has taken and not written: what was begun is completed, else it stays empty
        for ever, with all that the same append would have had. Says whether there are records now.

        `NotWritten` for positions that nobody has taken yet, `Trimmed` for what is gone.
        """
        raise unsupported(Feature.POSITIONS)

    async def trim_position(self, start: int, stop: int | None = None) -> None:
        """Let go of the append that has this position, or of all that lie within `[start, stop)`, for ever.

        What lies before and behind it stays. `NotWritten` for positions that nobody has taken yet.
        """
        raise unsupported(Feature.POSITIONS)

    @abstractmethod
    async def status(self) -> ClusterStatus:
        """How the cluster is; every server is asked."""
