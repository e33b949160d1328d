"""One framed connection over TCP, from either side: messages in, messages out, requests and their answers.

Whoever dials says `Hello` first; the server answers `Welcome`, or a `Failure` and closes. Only then are other
messages passed on. Messages are handed to a `Peer` by plain calls from the event loop, in the order in which
they came; what a `Peer` raises closes its connection and nobody else's.
"""

import asyncio
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from ithaca.model.errors import DeadlineExceeded, IthacaError, ProtocolError, Unavailable
from ithaca.model.limits import (
    CALL_TIMEOUT_S,
    LINGER_S,
    PEER_PROBE_S,
    PEER_SILENT_S_MAX,
    SEND_BACKLOG_BYTES_MAX,
    SEND_HIGH_WATER_BYTES,
)
from ithaca.model.records import Buffer
from ithaca.model.security.identity import Identity
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received, decode_message, encode_message
from ithaca.protocol.failures import error_of, failure_of
from ithaca.protocol.greeting import Failure, Hello, Welcome
from ithaca.protocol.together import Together
from ithaca.runtime.passage import Passage
from ithaca.runtime.tls.layer import TlsLayer, receive_block, tls_error
from ithaca.users.caller import Caller
from ithaca.wire.frame import Frame, FrameDecoder

_log = logging.getLogger("ithaca.connection")


class Peer(Protocol):
    """Who takes what a connection receives."""

    def on_message(self, connection: "Connection", received: Received) -> None:
        """A message that is no answer to a `request` of this side."""

    def on_lost(self, connection: "Connection", error: IthacaError | None) -> None:
        """The connection has ended, for this reason if there was one. Called once."""


class OnlyAnswers(Peer):
    """The other side is asked, and says nothing that was not asked for."""

    def on_message(self, connection: "Connection", received: Received) -> None:
        raise ProtocolError(f"{type(received.message).__name__} was not asked for")

    def on_lost(self, connection: "Connection", error: IthacaError | None) -> None:
        pass


class Connection(asyncio.BufferedProtocol):
    """A connection. All methods belong to its event loop."""

    def __init__(self, greet: Callable[["Connection", Received], Peer], tls: TlsLayer | None = None) -> None:
        """`greet` gets the first message, answers it if it has to, and says who takes the others."""
        self._loop = asyncio.get_running_loop()
        self._greet = greet
        self._tls = tls
        self._peer: Peer | None = None
        self._decoder = FrameDecoder()
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[Sequence[Buffer]], None] = _nowhere
        self._waiting: dict[int, asyncio.Future[Received]] = {}
        self._last_request = 0
        self._last_correlation = -1
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._is_ending = False
        self._linger: asyncio.TimerHandle | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._inside_since: float | None = None
        """When the frame that is arriving began; None between frames and while this side does not read."""
        self._error: IthacaError | None = None
        self.judge: Callable[[Received], None] | None = None
        """Raises for a message that the other side must not send."""
        self.together: Together | None = None
        """Which messages whoever takes them takes in one go, unless each is judged or passed on by itself."""
        self.passage: Passage | None = None
        """What is between a client and whoever takes its messages."""
        self.name = "a peer"
        """For messages and logs: where the other side is."""
        self.hello: Hello | None = None
        """What a dialler said, on the server's side."""
        self.welcome: Welcome | None = None
        """What the server said, on the dialler's side."""

    @property
    def caller(self) -> Caller | None:
        """Who the client is on the other side; None for a server, and where the cluster has no users."""
        return None if self.passage is None else self.passage.caller

    @property
    def is_secure(self) -> bool:
        """Whether TLS protects it, and is on."""
        return self._tls is not None and self._tls.is_established

    @property
    def identity(self) -> Identity | None:
        """Who the other side is, as its certificate says; None if it has none that says so."""
        return None if self._tls is None else self._tls.identity

    # Sending

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self._transport is not None and not self._is_ending and not self._transport.is_closing()

    def send(
        self, message: Message, *, correlation: int = 0, answer: bool = False, payload: Sequence[Buffer] = ()
    ) -> None:
        """Hand a message over; never waits. On a connection that has ended it does nothing."""
        if not self.is_open:
            return
        if self.passage is not None:
            if answer:
                self.passage.settled(correlation)
            if payload:
                self.passage.sent(sum(map(len, payload)))
        transport = self._transport
        assert transport is not None
        self._write(encode_message(message, correlation=correlation, answer=answer, payload=payload))
        if transport.get_write_buffer_size() > SEND_BACKLOG_BYTES_MAX:
            self.abort(Unavailable(f"{self.name} does not read: more than {SEND_BACKLOG_BYTES_MAX} bytes wait for it"))

    def answer(self, request: Received, message: Message, payload: Sequence[Buffer] = ()) -> None:
        if self.passage is not None:
            message = self.passage.worded(message)
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

    def allow_slow_reader(self) -> None:
        """Keep the connection even if its peer reads nothing for long, as whoever follows a stream may.

        Else the kernel ends a connection whose peer has no room for `PEER_SILENT_S_MAX`, alive or not.
        """
        _set_option(self._transport, socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)

    def expect_deliveries(self) -> None:
        """What comes is large, one message like the other."""
        self._decoder.are_alike = True

    def next_correlation(self) -> int:
        """A number for a message whose answers `on_message` takes; they are odd, those of `request` even."""
        self._last_correlation = (self._last_correlation + 2) & 0xFFFF_FFFF
        return self._last_correlation

    async def request(
        self, message: Message, payload: Sequence[Buffer] = (), *, timeout: float | None = CALL_TIMEOUT_S
    ) -> Received:
        """Send a request and wait for its answer; a `Failure` is raised as the error that it says.

        When the connection ends before the answer, the error says `outcome_unknown`.
        """
        if not self.is_open:
            raise self.lost_error()
        correlation = self._last_request = self._last_request % 0xFFFF_FFFE + 2
        future: asyncio.Future[Received] = self._loop.create_future()
        self._waiting[correlation] = future
        # The loop's own timer: `asyncio.timeout` costs each request six calls, and three of the system.
        timer = None if timeout is None else self._loop.call_later(timeout, self._too_late, future, timeout)
        try:
            self.send(message, correlation=correlation, payload=payload)
            received = await future
        finally:
            if timer is not None:
                timer.cancel()
            self._waiting.pop(correlation, None)
        if isinstance(received.message, Failure):
            raise error_of(received.message)
        return received

    def _too_late(self, future: "asyncio.Future[Received]", timeout: float) -> None:
        if not future.done():
            future.set_exception(DeadlineExceeded(f"{self.name} did not answer within {timeout} s"))

    # Ending

    def close(self) -> None:
        """End the connection once what was sent has left, or after `LINGER_S`. Idempotent."""
        if self._transport is not None and not self._transport.is_closing():
            self._is_ending = True
            self._abort_later()
            self._say_end()
            self._transport.close()

    def refuse(self, error: IthacaError) -> None:
        """Tell the peer why, then end the connection; nothing happens to one that has ended."""
        if not self.is_open:
            return
        _log.warning("%s is closed: %s", self.name, error)
        self._error = self._error or error
        self.send(failure_of(error))
        self._finish()

    def abort(self, error: IthacaError | None = None) -> None:
        """End the connection at once."""
        self._error = self._error or error
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_lost(self) -> None:
        """Wait until the connection has ended."""
        await asyncio.shield(self._lost)

    def lost_error(self) -> IthacaError:
        """What a caller is told whose connection has ended: an error of its own, to be raised."""
        if self._error is None:
            return Unavailable(f"the connection to {self.name} has ended")
        return error_of(failure_of(self._error))

    def _finish(self) -> None:
        """Half-close, and drop what still comes.

        A close with bytes unread resets the connection, which may take the last message away from the peer.
        """
        if self._transport is not None and self.is_open:
            self._is_ending = True
            self._abort_later()
            self._say_end()
            self._transport.write_eof()

    def _say_end(self) -> None:
        if self._tls is not None:
            self._tls.finish()
            self._flush_tls()

    def _abort_later(self) -> None:
        if self._linger is None and self._transport is not None:
            self._linger = self._loop.call_later(LINGER_S, self._transport.abort)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are of no class of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.name = str(Address(peer[0], peer[1]))
        transport.set_write_buffer_limits(high=SEND_HIGH_WATER_BYTES)
        self._write = _write_of(transport) if self._tls is None else self._write_tls
        for level, option, value in _SOCKET_OPTIONS:
            _set_option(transport, level, option, value)
        if self._tls is not None:
            self._decrypt()  # whoever dials speaks first

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._decoder.buffer() if self._tls is None else receive_block()

    def buffer_updated(self, count: int) -> None:
        if self._tls is None:
            self._received(count)
        elif not self._is_ending:
            self._tls.feed(receive_block()[:count])
            self._decrypt()

    def _decrypt(self) -> None:
        """Take what TLS has to say of the bytes that were fed to it."""
        tls = self._tls
        assert tls is not None
        try:
            if not tls.is_established and tls.advance():
                self._secured()
                tls.release()
            self._flush_tls()
            while tls.is_established and not self._is_ending:
                room = self._decoder.buffer()
                size = tls.read_into(room)
                if size:
                    self._received(size)
                if size < len(room):
                    break
            self._flush_tls()
            if tls.is_over and self.is_open:
                self.close()
        except ssl.SSLError as error:
            self._flush_tls()  # the other side is told why
            self._untrusted(tls_error(error, self.name))
        except IthacaError as error:
            self._untrusted(error)

    def _secured(self) -> None:
        """The handshake is done: raises if the other side is not who it should be."""

    def _untrusted(self, error: IthacaError) -> None:
        """End a connection over which nothing can be said in private."""
        _log.warning("%s is closed: %s", self.name, error)
        self._error = self._error or error
        if self._transport is not None and not self._transport.is_closing():
            self._is_ending = True
            self._abort_later()
            self._transport.close()

    def _write_tls(self, buffers: Sequence[Buffer]) -> None:
        assert self._tls is not None
        self._tls.write(buffers)
        self._flush_tls()

    def _flush_tls(self) -> None:
        if self._tls is not None and self._transport is not None and not self._transport.is_closing():
            data = self._tls.outgoing()
            if data:
                self._transport.write(data)

    def _received(self, count: int) -> None:
        """So many bytes of frames are in the decoder's buffer."""
        if self._is_ending:
            return
        try:
            frames = self._decoder.received(count)
            if not self._decoder.is_inside:
                self._inside_since = None
            elif frames or self._inside_since is None:
                self._inside_since = self._loop.time()
            if self.together is not None and self.judge is None and self.passage is None:
                self.together.pass_on(self, frames, self._receive)
                frames = []
            for frame in frames:
                self._receive(frame)
                if not self.is_open:
                    return
            if self._decoder.error is not None:
                raise self._decoder.error
        except IthacaError as error:
            self.refuse(error)
        except Exception as error:
            _log.exception("%s is closed: handling what it sent failed", self.name)
            self.abort(ProtocolError(f"handling a message of {self.name} failed: {error!r}"))

    def _receive(self, frame: Frame) -> None:
        received = decode_message(frame)
        if isinstance(received.message, Failure) and not received.is_answer:
            # The peer has given its last word, so there is nobody left to be told.
            self._error = self._error or error_of(received.message)
            self.close()
        elif self._peer is None:
            self._peer = self._greet(self, received)
            self._decoder.greeted()
        elif received.is_answer and received.correlation % 2 == 0:
            # Nobody waits any more for an answer that comes after its request's deadline.
            future = self._waiting.get(received.correlation)
            if future is not None and not future.done():
                future.set_result(received)
        else:
            if self.judge is not None:
                self.judge(received)
            passed = received if self.passage is None else self.passage.passed(received)
            if passed is not None:
                self._peer.on_message(self, passed)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def pause_reading(self) -> None:
        """Let the peer wait: whoever takes the messages has too many of them."""
        if self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()
            self._inside_since = None

    def resume_reading(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()
            self._inside_since = self._loop.time() if self._decoder.is_inside else None

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ending = True
        self._transport = None
        if self._linger is not None:
            self._linger.cancel()
        if self._error is None and error is not None:
            self._error = Unavailable(f"the connection to {self.name} broke: {error}")
        self._can_write.set()
        for future in self._waiting.values():
            if not future.done():
                reason = self.lost_error()
                reason.outcome_unknown = True
                future.set_exception(reason)
        self._lost.set_result(None)
        if self._peer is not None:
            self._peer.on_lost(self, self._error)


def _nowhere(_: Sequence[Buffer]) -> None:
    raise AssertionError("nothing is sent before a connection was made")


_FORGETS_TO_PAUSE = (3, 12) <= sys.version_info < (3, 12, 9) or (3, 13) <= sys.version_info < (3, 13, 2)
"""In these versions `writelines` of asyncio's own transports never pauses whoever writes (CVE-2024-12254)."""


def _write_of(transport: asyncio.Transport) -> Callable[[Sequence[Buffer]], None]:
    """How to hand buffers to a transport so that it says when there are too many."""
    if not (_FORGETS_TO_PAUSE and isinstance(transport, asyncio.Transport)):
        return transport.writelines

    def write_each(buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            transport.write(buffer)

    return write_each


_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, int(PEER_PROBE_S)),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, int(PEER_PROBE_S)),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, int(PEER_SILENT_S_MAX / PEER_PROBE_S) - 1),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(PEER_SILENT_S_MAX * 1000)),
)


def _set_option(transport: asyncio.Transport | None, level: int, option: int, value: int) -> None:
    raw = None if transport is None else transport.get_extra_info("socket")
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(level, option, value)
