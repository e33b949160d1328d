"""A client that speaks the protocol and nothing else: for what the library's own client would never send."""

import asyncio
from collections.abc import Sequence
from typing import Any

from ithaca.engines.scalog.messages.appending import Acks, Append
from ithaca.engines.scalog.messages.order import Applied, GetTail, GetView, TailReply, ViewIs
from ithaca.engines.scalog.messages.requests import request_of
from ithaca.engines.scalog.ordering.entries import OpenSession, OrderingEntry
from ithaca.engines.scalog.ordering.outcomes import Session, SessionOpened
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Failure, Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.wire.batch import Batch
from ithaca.wire.build import build

HELLO = Hello(VERSION_MIN, VERSION_MAX, "client", "raw")


class RawClient:
    """One connection; what comes unasked is queued."""

    def __init__(self) -> None:
        self.connection: Connection
        self.unasked: asyncio.Queue[Received] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[int]] = {}

    @classmethod
    async def connect(cls, address: Address) -> "RawClient":
        client = cls()
        client.connection = await dial(address, HELLO, client)
        return client

    async def ask(self, message: Message, payload: Sequence[Any] = ()) -> Any:
        """The message that answers this one; a failure is raised."""
        return (await self.connection.request(message, payload, timeout=10)).message

    def append(self, lane: LaneId, batch: Batch) -> "asyncio.Future[int]":
        """The position to come."""
        correlation = self.connection.next_correlation()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._answers[correlation] = future
        self.connection.send(Append(lane), correlation=correlation, payload=batch.buffers())
        return future

    def on_message(self, connection: Connection, received: Received) -> None:
        match received.message:
            case Acks(items):
                for correlation, position in items:
                    self._answers.pop(correlation).set_result(position)
            case Failure() as failure if received.correlation in self._answers:
                self._answers.pop(received.correlation).set_exception(error_of(failure))
            case _:
                self.unasked.put_nowait(received)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        for future in self._answers.values():
            if not future.done():
                future.set_exception(connection.lost_error())

    # The ordering layer

    async def view(self) -> ViewIs:
        answer: ViewIs = await self.ask(GetView())
        return answer

    async def tail(self) -> TailReply:
        answer: TailReply = await self.ask(GetTail())
        return answer

    async def propose(self, entry: OrderingEntry) -> Any:
        """The first outcome."""
        answer: Applied = await self.ask(request_of(entry))
        return answer.outcomes[0]

    async def open_session(self, name: str, lane: LaneId) -> Session:
        outcome = await self.propose(OpenSession(name, lane))
        assert isinstance(outcome, SessionOpened), outcome
        return outcome.session


def batch_of(
    *values: bytes, producer: tuple[int, int, int] = (0, 0, 0), keys: list[bytes | None] | None = None
) -> Batch:
    return build(values, keys, timestamp_us=1, producer=producer)
