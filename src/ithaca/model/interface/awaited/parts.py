"""Prepared appends, awaited: atomic across shards, idempotent by key (design §5)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from ithaca.model.engine import Feature
from ithaca.model.interface.shared import Consumed
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import PART_TTL_S
from ithaca.model.parts import Part, Published
from ithaca.model.records import Keys, Values
from ithaca.model.units import Duration


class PartWriter(ABC):
    """A part that is being prepared, piece by piece; leaving its context without `finish` aborts it.

    >>> import ithaca.aio
    >>> async def prepared(log: ithaca.aio.Log, chunks: list[list[bytes]]) -> ithaca.Part:
    ...     async with await log.open_part() as writer:
    ...         for values in chunks:
    ...             await writer.append_many(values)
    ...         return await writer.finish()
    """

    def __repr__(self) -> str:
        return f"<ithaca.PartWriter of {self.length} records, {'finished' if self.is_finished else 'open'}>"

    @property
    @abstractmethod
    def length(self) -> int:
        """Records that were written so far."""

    @abstractmethod
    async def append_many(self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None) -> None:
        """Write the next records, at most one batch of them; waits only while too much is under way.

        Raises what an earlier call failed with: `PartGone`, after which the part is to be prepared again.
        """

    @abstractmethod
    async def finish(self, *, timeout: Duration | None = None) -> Part:
        """Wait until all of it is durable on as many replicas as an append needs. It may be called again."""

    @abstractmethod
    async def abort(self) -> None:
        """Give it up. Idempotent; a part that was published stays."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether `finish` has returned."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if not self.is_finished:
            await self.abort()


class PreparedAppends:
    """Appends in two steps, atomic across shards: parts are prepared by anybody, and published together by one.

    >>> import ithaca.aio
    >>> async def copy(log: ithaca.aio.Log, partitions: list[list[bytes]], number: int) -> range:
    ...     parts = [await log.prepare(values) for values in partitions]
    ...     return (await log.publish(number, parts, writer="copier")).positions
    """

    async def prepare(
        self,
        values: Values,
        *,
        keys: Keys | None = None,
        shard: int | None = None,
        ttl: Duration = PART_TTL_S,
        timeout: Duration | None = None,
    ) -> Part:
        """Make records durable without ordering them: one part of at most one batch; `open_part` takes more.

        It goes where the shard policy says, or to `shard`. Unless it is published within `ttl` seconds it expires.
        """
        raise unsupported(Feature.PREPARED)

    async def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> PartWriter:
        """Begin a part of any size, to be written piece by piece."""
        raise unsupported(Feature.PREPARED)

    async def publish(
        self,
        key: int,
        parts: Iterable[Part],
        *,
        writer: str,
        owner: str = "",
        consumed: Consumed | None = None,
        timeout: Duration | None = None,
    ) -> Published:
        """Give all records of all parts consecutive positions, in this order, or none of them any.

        With `consumed`, named consumers are committed up to these positions in the same step: both happen, or neither.
        `ConsumerFenced` when one of them was opened again, or reset.

        Once for each key of a writer: the same key again, by the same owner, gives what it gave the first time,
        whatever the parts. Keys of a writer rise: an older one, or the newest by another owner, is `PublishConflict`.
        `PartGone` when one of them expired or was aborted.
        """
        raise unsupported(Feature.PREPARED)

    async def publish_once(
        self, parts: Iterable[Part], *, consumed: Consumed | None = None, timeout: Duration | None = None
    ) -> Published:
        """The same without a writer, for whoever does not come back: the log remembers no name.

        The same parts again are where they were the first time, for as long as they are not trimmed: no part is ever
        published twice. What was prepared again is published again.
        """
        raise unsupported(Feature.PREPARED)

    async def renew(
        self, parts: Iterable[Part], *, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> None:
        """Have finished parts wait for so many seconds from now on; never for less than before.

        A part that is being written is renewed by its writer. `PartGone` when one of them expired or was aborted.
        """
        raise unsupported(Feature.PREPARED)

    async def abort(self, parts: Iterable[Part]) -> None:
        """Give up parts that will not be published; those that were stay. May be repeated."""
        raise unsupported(Feature.PREPARED)
