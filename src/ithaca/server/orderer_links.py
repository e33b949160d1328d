"""Links between orderers: each dials every other one, and speaks over the connection that it dialled.

Messages are lost while a link is down or its peer does not read: Raft does without them, and would rather have
the next one than a queue of old ones.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from ithaca.model.errors import IthacaError, ProtocolError
from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.messages import Hello, RaftSays
from ithaca.raft.messages import AnyMessage, ServerId
from ithaca.runtime.connection import Connection, dial

_log = logging.getLogger("ithaca.orderer")


class RaftLinks:
    """The links of one server to all others."""

    def __init__(
        self,
        addresses: Mapping[ServerId, Address],
        hello: Callable[[], Hello],
        unreachable: Callable[[ServerId], None],
    ) -> None:
        """`unreachable` is told when a link that was up is lost."""
        self._links = {server: _Link(server, address, hello, unreachable) for server, address in addresses.items()}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(link.run()) for link in self._links.values()]

    def send(self, to: ServerId, message: AnyMessage) -> None:
        link = self._links.get(to)
        if link is not None:
            link.send(message)

    async def close(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Link:
    """The way to one other server."""

    def __init__(
        self, server: ServerId, address: Address, hello: Callable[[], Hello], unreachable: Callable[[ServerId], None]
    ) -> None:
        self._server = server
        self._address = address
        self._hello = hello
        self._unreachable = unreachable
        self._connection: Connection | None = None

    def send(self, message: AnyMessage) -> None:
        connection = self._connection
        if connection is not None and connection.is_writable:
            connection.send(RaftSays(message))

    async def run(self) -> None:
        """Connect, and connect again whenever the link is lost."""
        pause_s = RECONNECT_PAUSE_S_MIN
        while True:
            try:
                connection = await dial(self._address, self._hello(), self)
            except IthacaError as error:
                _log.debug("orderer %d is not reached: %s", self._server, error)
                pause_s = min(2 * pause_s, RECONNECT_PAUSE_S_MAX)
            else:
                try:
                    await self._attend(connection)
                finally:
                    connection.abort()
                pause_s = RECONNECT_PAUSE_S_MIN
            await asyncio.sleep(pause_s)

    async def _attend(self, connection: Connection) -> None:
        welcome = connection.welcome
        assert welcome is not None
        if (welcome.role, welcome.name) != ("orderer", str(self._server)):
            _log.error(
                "orderer %d is expected at %s, and %s %s is there: correct the cluster's file",
                self._server,
                self._address,
                welcome.role,
                welcome.name,
            )
            await asyncio.sleep(RECONNECT_PAUSE_S_MAX)
        elif connection.is_open:
            self._connection = connection
            await connection.wait_lost()

    def on_message(self, connection: Connection, received: Received) -> None:
        raise ProtocolError(f"orderer {self._server} speaks on a link that is not its own")

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if self._connection is connection:
            self._connection = None
            _log.warning("the link to orderer %d is lost: %s", self._server, error or "it was closed")
            self._unreachable(self._server)
