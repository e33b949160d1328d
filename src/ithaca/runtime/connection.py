"""One framed connection over TCP, from either side: messages in, messages out, requests and their answers.

Whoever dials says `Hello` first; the server answers `Welcome`, or a `Failure` and closes. Only then are other
messages passed on. Messages are handed to a `Peer` by plain calls from the event loop, in the order in which
they came; what a `Peer` raises closes its connection and nobody else's.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from ithaca.model.errors import DeadlineExceeded, IthacaError, ProtocolError, Unavailable, VersionMismatch
from ithaca.model.limits import (
    CALL_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    SEND_BACKLOG_BYTES_MAX,
    SEND_HIGH_WATER_BYTES,
)
from ithaca.model.records import Buffer
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received, decode_message, encode_message
from ithaca.protocol.failures import error_of, failure_of
from ithaca.protocol.messages import VERSION_MAX, VERSION_MIN, Failure, Hello, Welcome
from ithaca.wire.frame import Frame, FrameDecoder

_log = logging.getLogger("ithaca.connection")


class Peer(Protocol):
    """Who takes what a connection receives."""

    def on_message(self, connection: "Connection", received: Received) -> None:
        """A message that answers none of this side's requests."""

    def on_lost(self, connection: "Connection", error: IthacaError | None) -> None:
        """The connection has ended, for this reason if there was one. Called once."""


class Connection(asyncio.BufferedProtocol):
    """A connection. All methods belong to its event loop."""

    def __init__(self, greet: Callable[["Connection", Received], Peer]) -> None:
        """`greet` gets the first message, answers it if it has to, and says who takes the others."""
        self._loop = asyncio.get_running_loop()
        self._greet = greet
        self._peer: Peer | None = None
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Received]] = {}
        self._last_correlation = 0
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._error: IthacaError | None = None
        self.hello: Hello | None = None
        """What a dialler said, on the server's side."""
        self.welcome: Welcome | None = None
        """What the server said, on the dialler's side."""

    # Sending

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(
        self, message: Message, *, correlation: int = 0, answer: bool = False, payload: Sequence[Buffer] = ()
    ) -> None:
        """Hand a message over; never waits. On a connection that has ended it does nothing."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.writelines(encode_message(message, correlation=correlation, answer=answer, payload=payload))
        if transport.get_write_buffer_size() > SEND_BACKLOG_BYTES_MAX:
            self.abort(ProtocolError(f"{self.name} does not read: {SEND_BACKLOG_BYTES_MAX} bytes wait for it"))

    def answer(self, request: Received, message: Message, payload: Sequence[Buffer] = ()) -> None:
        self.send(message, correlation=request.correlation, answer=True, payload=payload)

    def fail(self, request: Received, error: IthacaError) -> None:
        self.answer(request, failure_of(error))

    @property
    def is_writable(self) -> bool:
        """Whether a stream should go on; else `await drained()` first."""
        return self._can_write.is_set()

    async def drained(self) -> None:
        """Wait until the peer has taken most of what was sent; raises when the connection ends."""
        if not self._can_write.is_set():
            await self._can_write.wait()
        if not self.is_open:
            raise self.lost_error()

    def next_correlation(self) -> int:
        """A number for a request whose answer is not awaited by `request`."""
        self._last_correlation = self._last_correlation % 0xFFFF_FFFF + 1
        return self._last_correlation

    async def request(
        self, message: Message, payload: Sequence[Buffer] = (), *, timeout: float | None = CALL_TIMEOUT_S
    ) -> Received:
        """Send a request and wait for its answer; a `Failure` is raised as the error that it says."""
        if not self.is_open:
            raise self.lost_error()
        correlation = self.next_correlation()
        future: asyncio.Future[Received] = self._loop.create_future()
        self._waiting[correlation] = future
        try:
            self.send(message, correlation=correlation, payload=payload)
            async with asyncio.timeout(timeout):
                received = await future
        except TimeoutError as error:
            if isinstance(error, IthacaError):
                raise
            raise DeadlineExceeded(f"{self.name} did not answer within {timeout} s") from None
        finally:
            self._waiting.pop(correlation, None)
        if isinstance(received.message, Failure):
            raise error_of(received.message)
        return received

    # Ending

    @property
    def name(self) -> str:
        """For messages and logs."""
        if self._transport is None:
            return "a closed connection"
        peer = self._transport.get_extra_info("peername")
        return f"{peer[0]}:{peer[1]}" if peer else "a peer"

    def close(self) -> None:
        """End the connection once what was sent has left. Idempotent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: IthacaError | None = None) -> None:
        """End the connection at once."""
        self._error = self._error or error
        if self._transport is not None:
            self._transport.abort()

    async def wait_lost(self) -> None:
        await asyncio.shield(self._lost)

    def lost_error(self) -> IthacaError:
        """What a caller is told whose connection has ended."""
        return self._error or Unavailable(f"the connection to {self.name} has ended")

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=SEND_HIGH_WATER_BYTES)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.buffer()

    def buffer_updated(self, count: int) -> None:
        try:
            for frame in self._decoder.received(count):
                self._receive(frame)
        except IthacaError as error:
            _log.warning("%s is closed: %s", self.name, error)
            self.send(failure_of(error))
            self._error = self._error or error
            self.close()
        except Exception as error:
            _log.exception("%s is closed: handling what it sent failed", self.name)
            self.abort(ProtocolError(f"handling a message failed: {error}"))

    def _receive(self, frame: Frame) -> None:
        received = decode_message(frame)
        if self._peer is None:
            self._peer = self._greet(self, received)
            self._decoder.greeted()
        elif received.is_answer:
            future = self._waiting.get(received.correlation)
            if future is not None and not future.done():
                future.set_result(received)
        elif isinstance(received.message, Failure) and received.correlation == 0:
            raise error_of(received.message)
        else:
            self._peer.on_message(self, received)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def pause_reading(self) -> None:
        """Let the peer wait: whoever takes the messages has too many of them."""
        if self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._error is None and error is not None:
            self._error = Unavailable(f"the connection to {self.name} broke: {error}")
        self._can_write.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self.lost_error())
        if not self._lost.done():
            self._lost.set_result(None)
        if self._peer is not None:
            self._peer.on_lost(self, self._error)


async def dial(address: Address, hello: Hello, peer: Peer, *, timeout: float = CONNECT_TIMEOUT_S) -> Connection:
    """Connect and shake hands; `Unavailable` names the address that nobody answers at."""
    loop = asyncio.get_running_loop()
    greeted: asyncio.Future[None] = loop.create_future()

    def greet(connection: Connection, received: Received) -> Peer:
        message = received.message
        if isinstance(message, Failure):
            raise error_of(message)
        if not isinstance(message, Welcome):
            raise ProtocolError(f"{address} answered a hello with {type(message).__name__}: it is no Ithaca server")
        if not VERSION_MIN <= message.version <= VERSION_MAX:
            raise VersionMismatch(f"{address} speaks version {message.version}, this side {VERSION_MIN}..{VERSION_MAX}")
        connection.welcome = message
        greeted.set_result(None)
        return peer

    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(lambda: Connection(greet), address.host, address.port)
            connection.send(hello)
            lost = asyncio.ensure_future(connection.wait_lost())
            await asyncio.wait([greeted, lost], return_when=asyncio.FIRST_COMPLETED)
            lost.cancel()
        if not greeted.done():
            raise connection.lost_error()
        return connection
    except TimeoutError as error:
        if connection is not None:
            connection.abort()
        if isinstance(error, IthacaError):
            raise
        raise Unavailable(f"{address} did not answer within {timeout} s") from None
    except OSError as error:
        if isinstance(error, IthacaError):
            raise
        raise Unavailable(f"nobody answers at {address}: {error.strerror or error}") from error
