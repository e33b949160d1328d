"""A small server and its clients, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from ithaca.engines.scalog.messages.appending import Append
from ithaca.engines.scalog.messages.order import GetTail, GetView
from ithaca.engines.scalog.messages.reading import Found
from ithaca.model.errors import InvalidInput, IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Finished, GetStatus, Hello, StatusIs, Welcome
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import dial
from ithaca.runtime.listener import HttpAnswer, Listener, listen

LOG = UUID(int=7)
LANE = LaneId(0, 1, 2)
HELLO = Hello(VERSION_MIN, VERSION_MAX, "client", name="test")


class Recorder:
    """A peer that keeps what it is told."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.lost: list[IthacaError | None] = []

    def on_message(self, connection: Connection, received: Received) -> None:
        self.received.append(received)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self.lost.append(error)


class Echo(Recorder):
    """Answers a status, sends an append's payload back, and ends the connection in three other ways."""

    def on_message(self, connection: Connection, received: Received) -> None:
        super().on_message(connection, received)
        match received.message:
            case GetStatus():
                connection.answer(received, StatusIs(b"{}"))
            case Append(lane):
                connection.answer(received, Found(lane, 1), [received.payload])
            case Finished():
                connection.close()
            case GetTail():
                raise InvalidInput("nobody may ask for the tail here")
            case GetView():
                raise RuntimeError("a bug")


class EchoServer:
    """A listener with everything that was seen through it."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.peers: list[Echo] = []
        self.dialled: list[Connection] = []
        self.refused: list[IthacaError] = []
        self.listener: Listener

    @property
    def address(self) -> Address:
        return self.listener.address

    def accept(self, connection: Connection, hello: Hello) -> Peer:
        if hello.name == "stranger":
            raise InvalidInput("no strangers here")
        if hello.name == "trip":
            raise RuntimeError("a bug")
        self.connections.append(connection)
        self.peers.append(Echo())
        return self.peers[-1]

    def http(self, path: str) -> HttpAnswer | None:
        if path == "/bug":
            raise RuntimeError("a bug")
        return HttpAnswer(200, "text/plain", b"fine\n") if path == "/health" else None

    async def dial(self, peer: Peer | None = None) -> Connection:
        connection = await dial(self.address, HELLO, peer or Recorder())
        self.dialled.append(connection)
        return connection

    async def works(self, connection: Connection) -> bool:
        """Whether a connection still gets its answers."""
        return (await connection.request(GetStatus())).message == StatusIs(b"{}")


@contextlib.asynccontextmanager
async def echo_server(*, welcome_name: str = "echo", **bounds: Any) -> AsyncIterator[EchoServer]:
    server = EchoServer()
    server.listener = await listen(
        Address("127.0.0.1", 0),
        accept=server.accept,
        welcome=lambda: Welcome(VERSION_MAX, "replica", name=welcome_name, log=LOG),
        http=server.http,
        on_refused=server.refused.append,
        **bounds,
    )
    try:
        yield server
    finally:
        await server.listener.close()
        assert server.listener.connection_count == 0
        for connection in server.dialled:
            connection.abort()
            await connection.wait_lost()


@contextlib.asynccontextmanager
async def raw(address: Address) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection, for those who do not speak the protocol."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side has ended the connection, in order or not."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(65_536):
            parts.append(part)
    return b"".join(parts)
