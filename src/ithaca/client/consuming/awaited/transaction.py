"""What was consumed and what was written, in one step, awaited: a prepared part, published with a commit."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from ithaca.model.errors import InvalidInput
from ithaca.model.interface.awaited.consumers import Consumer, Transaction
from ithaca.model.interface.awaited.log import Log
from ithaca.model.interface.awaited.parts import PartWriter
from ithaca.model.records import Buffer, Keys, Values


class PartTransaction(Transaction):
    """`Consumer.transaction`: its records are a part of their own until they are published."""

    def __init__(
        self,
        log: Log,
        consumer: Consumer,
        committed: Callable[[int], None],
        undone: Callable[[bool], Awaitable[None]],
    ) -> None:
        """`committed` is told the position that was committed with it, `undone` that it failed: for certain, or perhaps
        not."""
        self._log = log
        self._consumer = consumer
        self._committed = committed
        self._undone = undone
        self._writer: PartWriter | None = None

    async def append(self, value: Buffer, *, key: Buffer | None = None) -> None:
        await self.append_many([value], keys=None if key is None else [key])

    async def append_many(self, values: Values, *, keys: Keys | None = None) -> None:
        await self._begun().append_many(values, keys=keys)

    def _begun(self) -> PartWriter:
        if self._writer is None:
            raise InvalidInput("a transaction takes records within its context alone: use `with`")
        return self._writer

    async def __aenter__(self) -> Self:
        if self._writer is not None:
            raise InvalidInput("a transaction has one context: begin another one")
        self._writer = await self._log.open_part()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        writer = self._begun()
        if error is not None:
            try:
                await writer.abort()
            finally:
                await self._undone(True)
            return
        try:
            await self._publish(writer)
        except BaseException:
            await self._undone(False)
            raise

    async def _publish(self, writer: PartWriter) -> None:
        position = self._consumer.position
        if not writer.length:
            await writer.abort()
            await self._consumer.commit()
            return
        part = await writer.finish()
        await self._log.publish_once([part], consumed={self._consumer: position})
        self._committed(position)
