"""A server that answers requests, each by itself: what it takes besides is what it answers."""

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError
from ithaca.model.records import Buffer
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import GetStatus, StatusIs
from ithaca.runtime.connection import Connection, Peer
from ithaca.server.greeter import Greeter
from ithaca.server.life import LivingServer
from ithaca.server.status import encode_status


class Answer(NamedTuple):
    """A message, and what goes beside it."""

    message: Message
    payload: Sequence[Buffer] = ()


class AnsweringServer(LivingServer, Peer):
    """A `process.Server`. Requests of a connection are taken in the order in which they came."""

    def __init__(self, file: ClusterFile, place: ServerPlace, listen_at: Address | None = None) -> None:
        super().__init__(listen_at or place.address)
        is_storage = place.role in ("replica", "spare")
        self._greeter = Greeter(
            file,
            "replica" if place.role == "spare" else place.role,
            place.name if is_storage else str(place.number),
        )
        self._answering: dict[asyncio.Task[None], None] = {}

    @abstractmethod
    async def answer(self, message: Message, payload: Buffer) -> Answer:
        """Answer a request; what it raises is told to whoever asked."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """What it says of itself: at least its `state`."""

    async def _start(self) -> None:
        await self._listen(self._greeter, lambda *_: self)

    async def stop(self) -> None:
        for task in self._answering:
            task.cancel()
        await self._close_listener()
        self._end()

    def on_message(self, connection: Connection, received: Received) -> None:
        if isinstance(received.message, GetStatus):
            connection.answer(received, StatusIs(encode_status(self.status())))
            return
        task = asyncio.create_task(self._reply(connection, received))
        self._answering[task] = None
        task.add_done_callback(self._answering.pop)

    async def _reply(self, connection: Connection, received: Received) -> None:
        try:
            answer = await self.answer(received.message, received.payload)
        except IthacaError as error:
            connection.fail(received, error)
        else:
            connection.answer(received, answer.message, answer.payload)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass
