"""Connections to servers: one for each that is used, for requests and for appends."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from ithaca.engines.raft.messages import Acks, Append
from ithaca.engines.raft.name import NAME
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.records import Buffer, Durability
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Failure, Hello, Redirect
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Introduction, dial
from ithaca.wire.batch import Batch

HELLO = Hello(VERSION_MIN, VERSION_MAX, "client", features=FEATURES, engine=NAME)


class Appender(Protocol):
    """Whose appends go over a link."""

    def acknowledged(self, correlation: int, position: int) -> None: ...

    def refused(self, correlation: int, error: IthacaError) -> None: ...

    def lost(self, link: "Link") -> None: ...


class Link:
    """One connection to one server."""

    def __init__(self, address: Address, watch: Callable[["Link"], Awaitable[None]]) -> None:
        """`watch` is begun whenever the server comes to owe an answer, unless it looks on already."""
        self.address = address
        self.connection: Connection | None = None
        self.heard = 0
        """How often the server has said something."""
        self._watch = watch
        self._watching: asyncio.Future[None] | None = None
        self._asked = 0
        self._appenders: dict[int, Appender] = {}
        """By the correlations of requests that are not answered."""
        self._users: dict[Appender, None] = {}

    @property
    def is_open(self) -> bool:
        return self.connection is not None and self.connection.is_open

    @property
    def durability(self) -> Durability:
        assert self.connection is not None
        assert self.connection.welcome is not None
        return self.connection.welcome.durability

    @property
    def is_owed(self) -> bool:
        """Whether the server has to say something soon, if it leads."""
        return bool(self._appenders) or self._asked > 0

    def give_up(self, error: IthacaError) -> None:
        """End the connection; whoever uses it is told."""
        if self.connection is not None:
            self.connection.abort(error)

    def append(self, batch: Batch, appender: Appender) -> int:
        """Send a batch; its answer is told to the appender, by this number."""
        assert self.connection is not None
        correlation = self.connection.next_correlation()
        self._appenders[correlation] = appender
        self._look_on()
        self.connection.send(Append(), correlation=correlation, payload=batch.buffers())
        return correlation

    def use(self, appender: Appender) -> None:
        """Tell the appender when the connection is lost."""
        self._users[appender] = None

    def leave(self, appender: Appender) -> None:
        self._users.pop(appender, None)
        for correlation in [number for number, each in self._appenders.items() if each is appender]:
            del self._appenders[correlation]

    async def request(self, message: Message, payload: Sequence[Buffer] = (), *, timeout_s: float) -> Received:
        """Ask what may be answered late."""
        assert self.connection is not None
        answer = await self.connection.request(message, payload, timeout=timeout_s)
        self.heard += 1
        return answer

    async def ask(self, message: Message, *, timeout_s: float) -> Received:
        """Ask what a leader answers soon."""
        self._asked += 1
        self._look_on()
        try:
            return await self.request(message, timeout_s=timeout_s)
        finally:
            self._asked -= 1

    def _look_on(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch(self))

    def end(self) -> None:
        """Close it. Idempotent."""
        if self._watching is not None:
            self._watching.cancel()
        if self.connection is not None:
            self.connection.close()

    def on_message(self, connection: Connection, received: Received) -> None:
        self.heard += 1
        match received.message:
            case Acks(items):
                for correlation, position in items:
                    appender = self._appenders.pop(correlation, None)
                    if appender is not None:
                        appender.acknowledged(correlation, position)
            case Failure() as failure:
                self._refused(received.correlation, error_of(failure))
            case Redirect():
                self._refused(received.correlation, Unavailable(f"{self.address} does not lead"))
            case message:
                raise ProtocolError(f"a server said {type(message).__name__} unasked")

    def _refused(self, correlation: int, error: IthacaError) -> None:
        appender = self._appenders.pop(correlation, None)
        if appender is not None:
            appender.refused(correlation, error)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._appenders.clear()
        users, self._users = self._users, {}
        for user in users:
            user.lost(self)


class Links:
    """Those of one handle, by the addresses of servers."""

    def __init__(self, tls: TLS | None = None, token: str = "") -> None:
        self.tls = tls
        self._hello = replace(HELLO, credentials=token.encode()) if token else HELLO
        self.watch: Callable[[Link], Awaitable[None]] = _nobody
        """What looks on while a server owes an answer."""
        self._links: dict[Address, Link] = {}
        self._dialling: dict[Address, asyncio.Task[Link]] = {}
        self._is_closed = False

    @property
    def introduction(self) -> Introduction:
        """What is said to a server that is dialled."""
        return Introduction(self._hello, self.tls)

    async def link(self, address: Address, timeout_s: float) -> Link:
        """One that is open; `Unavailable` when the server is not reached in time."""
        link = self._links.get(address)
        if link is not None and link.is_open:
            return link
        if self._is_closed:
            raise Unavailable("the handle was closed")
        dialling = self._dialling.get(address)
        if dialling is None:
            dialling = self._dialling[address] = asyncio.create_task(self._dial(address, timeout_s))
            dialling.add_done_callback(self._dialled(address))
        return await asyncio.shield(dialling)

    def _dialled(self, address: Address) -> Callable[["asyncio.Task[Link]"], None]:
        def done(task: "asyncio.Task[Link]") -> None:
            del self._dialling[address]
            if not task.cancelled():
                task.exception()  # looked at: perhaps nobody waits for it any more

        return done

    async def _dial(self, address: Address, timeout_s: float) -> Link:
        link = Link(address, self.watch)
        link.connection = await dial(address, self.introduction, link, timeout=timeout_s)
        self._links[address] = link
        return link

    async def close(self) -> None:
        self._is_closed = True
        for task in list(self._dialling.values()):
            task.cancel()
        if self._dialling:
            await asyncio.wait(list(self._dialling.values()))
        for link in self._links.values():
            link.end()


async def _nobody(link: Link) -> None:
    """Nobody has to look on."""
