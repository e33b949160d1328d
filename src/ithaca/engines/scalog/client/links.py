"""Connections by address: shared by all that a handle does, dialled on demand, and dialled again when one ends."""

import asyncio
from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from ithaca.engines.scalog.messages.appending import Acks, Append
from ithaca.engines.scalog.name import NAME
from ithaca.model.engine import EngineName
from ithaca.model.errors import IthacaError, LogClosed, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, CONNECT_TIMEOUT_S
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, Durability
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Failure, Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Introduction, Said, dial
from ithaca.wire.batch import Batch


class Appender(Protocol):
    """Who has sent batches over a link."""

    def acknowledged(self, correlation: int, position: int) -> None: ...

    def refused(self, correlation: int, error: IthacaError) -> None: ...

    def lost(self, link: "Link") -> None:
        """The link has ended; what it was asked and did not answer is open."""


class LeavingWatcher(Protocol):
    """Who wants to know which shards take nothing new."""

    def shard_leaves(self, view: int) -> None:
        """A shard that was appended to takes nothing new in the view of this version."""


class Link:
    """One connection to a server, and who waits for which append on it."""

    def __init__(self, address: Address, watcher: LeavingWatcher) -> None:
        self.address = address
        self._watcher = watcher
        self._connection: Connection | None = None
        self._appenders: dict[int, Appender] = {}
        self._users: dict[Appender, None] = {}

    async def open(self, hello: Said, timeout_s: float) -> None:
        self._connection = await dial(self.address, hello, self, timeout=timeout_s)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    @property
    def durability(self) -> Durability:
        """What this server's acknowledgements mean."""
        assert self._connection is not None
        assert self._connection.welcome is not None
        return self._connection.welcome.durability

    async def request(
        self, message: Message, timeout_s: float = ATTEMPT_TIMEOUT_S, payload: Sequence[Buffer] = ()
    ) -> Received:
        assert self._connection is not None
        return await self._connection.request(message, payload, timeout=timeout_s)

    @property
    def version(self) -> int:
        """Of the protocol, as both sides speak it."""
        welcome = None if self._connection is None else self._connection.welcome
        assert welcome is not None
        return welcome.version

    def use(self, appender: Appender) -> None:
        """Have an appender told when the link ends."""
        self._users[appender] = None

    def leave(self, appender: Appender) -> None:
        """Nothing that comes later is for this appender: another link may give the same numbers."""
        self._users.pop(appender, None)
        self._appenders = {number: each for number, each in self._appenders.items() if each is not appender}

    def append(self, lane: LaneId, batch: Batch, appender: Appender) -> int:
        """Send a batch; its answer comes to the appender under the number that is returned."""
        assert self._connection is not None
        correlation = self._connection.next_correlation()
        self._appenders[correlation] = appender
        self._connection.send(Append(lane), correlation=correlation, payload=batch.buffers())
        return correlation

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    # What the connection calls

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        if isinstance(message, Acks):
            for correlation, position in message.items:
                appender = self._appenders.pop(correlation, None)
                if appender is not None:
                    appender.acknowledged(correlation, position)
            if message.leaving:
                self._watcher.shard_leaves(message.leaving)
        elif isinstance(message, Failure):
            appender = self._appenders.pop(received.correlation, None)
            if appender is not None:
                appender.refused(received.correlation, error_of(message))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._appenders.clear()
        users, self._users = self._users, {}
        for appender in users:
            appender.lost(self)


class Links:
    """The links of one handle, to servers that have this engine."""

    def __init__(self, engine: EngineName = NAME, tls: TLS | None = None, token: str = "") -> None:
        self._engine = engine
        self.tls = tls
        self._token = token.encode()
        self.log: UUID | None = None
        """Once it is known, servers of another log are refused."""
        self.watcher: LeavingWatcher | None = None
        """Who appends over these links, if somebody does."""
        self._links: dict[Address, Link] = {}
        self._dialling: dict[Address, asyncio.Task[Link]] = {}
        self._closed = False

    def hello(self) -> Introduction:
        hello = Hello(
            VERSION_MIN,
            VERSION_MAX,
            "client",
            features=FEATURES,
            log=self.log,
            credentials=self._token,
            engine=self._engine,
        )
        return Introduction(hello, self.tls)

    def opened(self, address: Address) -> Link | None:
        """The link to a server, if there is one."""
        link = self._links.get(address)
        return link if link is not None and link.is_open else None

    async def link(self, address: Address, timeout_s: float = CONNECT_TIMEOUT_S) -> Link:
        """The open link to a server, dialled if need be; one attempt serves everybody who asks meanwhile."""
        link = self.opened(address)
        if link is not None:
            return link
        if self._closed:
            raise LogClosed("the handle was closed")
        dialling = self._dialling.get(address)
        if dialling is None:
            dialling = self._dialling[address] = asyncio.create_task(self._dial(address))
            dialling.add_done_callback(lambda task: self._dialled(address, task))
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(dialling)
        except TimeoutError as error:
            if isinstance(error, IthacaError):
                raise
            raise Unavailable(f"{address} did not answer within {timeout_s:.3g} s") from None
        except asyncio.CancelledError:
            if dialling.cancelled() and self._closed:
                raise LogClosed("the handle was closed") from None
            raise

    async def _dial(self, address: Address) -> Link:
        link = Link(address, self)
        await link.open(self.hello(), CONNECT_TIMEOUT_S)
        self._links[address] = link
        return link

    def shard_leaves(self, view: int) -> None:
        if self.watcher is not None:
            self.watcher.shard_leaves(view)

    def _dialled(self, address: Address, task: "asyncio.Task[Link]") -> None:
        self._dialling.pop(address, None)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def close(self) -> None:
        """Let everything end."""
        self._closed = True
        dialling = list(self._dialling.values())
        for task in dialling:
            task.cancel()
        if dialling:
            await asyncio.wait(dialling)
        for link in self._links.values():
            link.close()
