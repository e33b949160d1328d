"""Links between members: each dials every other one, and speaks over the connection that it dialled.

Whoever does not know yet where another one is, because it has just been added, answers over the connection that the
other one has dialled.

Messages are lost while a link is down or its peer does not read: Raft does without them, and would rather have
the next one than a queue of old ones.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from ithaca.model.errors import IthacaError, ProtocolError
from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.model.records import Buffer
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.members import RaftMessage
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said, dial
from ithaca.server.raft_host.identity import RaftMember

_log = logging.getLogger("ithaca.raft")


class LinkOwner(Protocol):
    """Whose links these are."""

    def hello(self) -> Said:
        """What this server says of itself when it dials."""

    def link_lost(self, server: ServerId) -> None:
        """A link that was up is lost."""

    def told_removed(self, by: ServerId) -> None:
        """Another member refuses this one, since it was removed."""

    def hear(self, says: RaftMessage, payload: Buffer) -> None:
        """The other side has answered over the link, since it does not know where this server is."""


class RaftLinks:
    """The links of one server to all others."""

    def __init__(self, member: RaftMember, owner: LinkOwner) -> None:
        self._member = member
        self._owner = owner
        self._links: dict[ServerId, _Link] = {}
        self._tasks: dict[asyncio.Task[None], ServerId] = {}

    def follow(self, addresses: Mapping[ServerId, Address]) -> None:
        """Have links to these servers, and to no others."""
        for server, link in list(self._links.items()):
            if addresses.get(server) != link.address:
                del self._links[server]
                for task in [task for task, of in self._tasks.items() if of == server]:
                    task.cancel()
        for server, address in addresses.items():
            if server not in self._links:
                link = self._links[server] = _Link(server, address, self._member, self._owner)
                task = asyncio.create_task(link.run())
                self._tasks[task] = server
                task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def send(self, to: ServerId, says: RaftMessage, payload: Sequence[Buffer] = ()) -> bool:
        """Says whether there is a link, be it up or not."""
        link = self._links.get(to)
        if link is None:
            return False
        link.send(says, payload)
        return True

    def is_back(self, server: ServerId) -> None:
        """This server has dialled: it can be reached now, and is not to wait for the next attempt."""
        link = self._links.get(server)
        if link is not None:
            link.called.set()

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Link:
    """The way to one other server."""

    def __init__(self, server: ServerId, address: Address, member: RaftMember, owner: LinkOwner) -> None:
        self.address = address
        self._server = server
        self._words = member.words
        self._name = member.named(server)
        self._owner = owner
        self._connection: Connection | None = None
        self.called = asyncio.Event()
        """Set when there is no reason to wait before dialling."""

    def send(self, says: RaftMessage, payload: Sequence[Buffer]) -> None:
        connection = self._connection
        if connection is not None and connection.is_writable:
            connection.send(says, payload=payload)

    async def run(self) -> None:
        """Connect, and connect again whenever the link is lost."""
        pause_s = RECONNECT_PAUSE_S_MIN
        while True:
            self.called.clear()
            try:
                connection = await dial(self.address, self._owner.hello(), self)
            except IthacaError as error:
                if isinstance(error, self._words.no_such):
                    self._owner.told_removed(self._server)
                _log.debug("%s is not reached: %s", self._name, error)
                pause_s = min(2 * pause_s, RECONNECT_PAUSE_S_MAX)
            else:
                try:
                    await self._attend(connection)
                finally:
                    connection.abort()
                pause_s = RECONNECT_PAUSE_S_MIN
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self.called.wait()

    async def _attend(self, connection: Connection) -> None:
        welcome = connection.welcome
        assert welcome is not None
        if (welcome.role, welcome.name) != (self._words.role, str(self._server)):
            _log.error(
                "%s is expected at %s, and %s %s is there: correct the cluster's file",
                self._name,
                self.address,
                welcome.role,
                welcome.name,
            )
            await asyncio.sleep(RECONNECT_PAUSE_S_MAX)
        elif connection.is_open:
            self._connection = connection
            await connection.wait_lost()

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        if not isinstance(message, RaftMessage) or message.message.sender != self._server:
            raise ProtocolError(f"{self._name} says what only others say: {type(message).__name__}")
        self._owner.hear(message, received.payload)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if self._connection is connection:
            self._connection = None
            _log.warning("the link to %s is lost: %s", self._name, error or "it was closed")
            self._owner.link_lost(self._server)
