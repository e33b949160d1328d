"""Who stands in for the leader above an aggregator."""

import asyncio

from tests.protocol.examples import LOG, SUMMARY
from tests.server.orderers import (
    DEADLINE_S,
)

from ithaca.engines.scalog.messages.aggregation import Attach, Attached
from ithaca.engines.scalog.messages.reporting import Joined, SignOfLife
from ithaca.model.errors import IthacaError
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import Listener, listen


class Above:
    """Stands in for the leader, and keeps what an aggregator sends."""

    joined = Joined(LOG, None, SUMMARY, ())

    def __init__(self) -> None:
        self._received: asyncio.Queue[tuple[Connection, Received]] = asyncio.Queue()

    async def listen(self, address: Address) -> Listener:
        return await listen(
            address,
            accept=lambda connection, hello: self,
            welcome=lambda: Welcome(VERSION_MAX, "orderer", "1", (), LOG),
            http=lambda path: None,
        )

    async def attached(self) -> Connection:
        async with asyncio.timeout(DEADLINE_S):
            connection, received = await self._received.get()
        assert isinstance(received.message, Attach)
        connection.answer(received, Attached(LOG))
        return connection

    async def next(self, kind: type) -> Received:
        return (await self.next_from(kind))[1]

    async def next_from(self, kind: type) -> tuple[Connection, Received]:
        """The next message but for signs of life, which is of this kind."""
        async with asyncio.timeout(DEADLINE_S):
            connection, received = await self._received.get()
            while isinstance(received.message, SignOfLife) and kind is not SignOfLife:
                connection, received = await self._received.get()
        assert isinstance(received.message, kind), received.message
        return connection, received

    def on_message(self, connection: Connection, received: Received) -> None:
        self._received.put_nowait((connection, received))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass
