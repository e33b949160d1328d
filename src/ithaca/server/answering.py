"""A server that answers requests, each by itself: what it takes besides is what it answers."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from ithaca.model.config.cluster import ClusterFile
from ithaca.model.errors import IthacaError
from ithaca.model.records import Buffer
from ithaca.model.server_place import ServerPlace
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, GetStatus, Hello, StatusIs, Welcome
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.listener import HttpAnswer, Listener, listen
from ithaca.server.status import answer_http, encode_status


class Answer(NamedTuple):
    """A message, and what goes beside it."""

    message: Message
    payload: Sequence[Buffer] = ()


class AnsweringServer(Peer, ABC):
    """A `process.Server`. Requests of a connection are taken in the order in which they came."""

    def __init__(self, file: ClusterFile, place: ServerPlace, listen_at: Address | None = None) -> None:
        self.address = listen_at or place.address
        role = "replica" if place.role == "spare" else place.role
        self._welcome = Welcome(
            VERSION_MAX, role, str(place.number), FEATURES, durability=file.durability, engine=file.engine
        )
        self._listener: Listener | None = None
        self._stopped = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def answer(self, message: Message, payload: Buffer) -> Answer:
        """Answer a request; what it raises is told to whoever asked."""

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """What it says of itself: at least its `state`."""

    async def start(self) -> None:
        self._listener = await listen(self.address, accept=self._accept, welcome=lambda: self._welcome, http=self._http)
        self.address = self._listener.address

    async def stop(self) -> None:
        for task in self._answering:
            task.cancel()
        if self._listener is not None:
            await self._listener.close()
        self._stopped.set()

    async def wait(self) -> None:
        await self._stopped.wait()

    def _accept(self, connection: Connection, hello: Hello) -> Peer:
        return self

    def _http(self, path: str) -> HttpAnswer | None:
        return answer_http(path, self.status)

    def on_message(self, connection: Connection, received: Received) -> None:
        if isinstance(received.message, GetStatus):
            connection.answer(received, StatusIs(encode_status(self.status())))
            return
        task = asyncio.create_task(self._reply(connection, received))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _reply(self, connection: Connection, received: Received) -> None:
        try:
            answer = await self.answer(received.message, received.payload)
        except IthacaError as error:
            connection.fail(received, error)
        else:
            connection.answer(received, answer.message, answer.payload)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass
