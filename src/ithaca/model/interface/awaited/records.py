"""Records that are read one after the other, awaited: a range, which ends, and a subscription, which does not."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from ithaca.model.errors import InvalidInput
from ithaca.model.interface.shared import Batch
from ithaca.model.interface.tables import arrow_table, package
from ithaca.model.limits import POLL_RECORDS_MAX
from ithaca.model.records import Record
from ithaca.model.units import Duration


class Closing(ABC):
    """What is closed when its context is left."""

    @abstractmethod
    async def close(self) -> None:
        """Release everything."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


class Records(Closing, AsyncIterator[Record]):
    """Records in the order of their positions; also a context manager.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> list[bytes]:
    ...     async with ithaca.aio.open("./events") as log:
    ...         receipt = await log.append_many([b"a", b"b"])
    ...         return [record.value async for record in log.read_range(1)]
    >>> asyncio.run(main())
    [b'a', b'b']
    """

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the next record will be looked for: resume with `start=records.position`."""

    @abstractmethod
    def batches(self) -> AsyncIterator[Batch]:
        """The same records, a batch at a time; goes on where the iteration stands."""

    @abstractmethod
    async def take_batches(self, timeout: Duration | None = None) -> list[Batch]:
        """The next batches, all that can be had at once; waits up to `timeout` seconds for the first (None: for ever).

        An empty list means the end, or that nothing arrived in time. It goes on where the iteration stands.
        """

    async def to_arrow(self) -> Any:
        """All that is left of it as a `pyarrow.Table`: position, shard, timestamp, key, value.

        `Unsupported` says how to get a package that is missing.
        """
        found: list[Batch] = []
        while more := await self.take_batches():
            found += more
        return arrow_table(found)

    async def to_pandas(self) -> Any:
        """The same as a `pandas.DataFrame`."""
        package("pandas")
        return (await self.to_arrow()).to_pandas()

    async def to_polars(self) -> Any:
        """The same as a `polars.DataFrame`."""
        polars = package("polars")
        return polars.from_arrow(await self.to_arrow())

    @abstractmethod
    async def close(self) -> None:
        """Stop: an iteration waiting in another task ends. Idempotent."""


class Subscription(Records):
    """Records as they are appended, without end: iteration waits for the next.

    >>> import asyncio, ithaca.aio
    >>> async def main() -> tuple[bytes, list[ithaca.Record]]:
    ...     async with ithaca.aio.open("./events") as log, log.subscribe(start="earliest") as subscription:
    ...         receipt = await log.append(b"hello")
    ...         return (await anext(subscription)).value, await subscription.poll(timeout=0)
    >>> asyncio.run(main())
    (b'hello', [])
    """

    async def to_arrow(self) -> Any:
        """A subscription has no end: use `read_range`, or `to_arrow` of each batch."""
        raise InvalidInput("a subscription has no end: use read_range, or to_arrow() of each of its batches()")

    @abstractmethod
    async def poll(self, timeout: Duration | None = 0, max_records: int = POLL_RECORDS_MAX) -> list[Record]:
        """Up to `max_records` records, waiting up to `timeout` seconds for the first (None: for ever).

        An empty list means that nothing arrived in time; `LogClosed`, that nothing will.
        """
