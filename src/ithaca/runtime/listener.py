"""The one port of a server: connections that begin with a hello, and `GET` over plain HTTP for people and tools.

A hello is answered in this order: is it one, do both sides share a version, an engine and a log, does the server
`accept` it; then `Welcome`. The first four bytes tell HTTP from frames: as a frame's length, `GET `
would be far above what a hello may have. The first byte tells TLS from both; a `Guard` says whether it must be there,
and then nobody is taken for a server whose certificate does not say so. Whoever has said neither a hello nor a whole
request in time is closed.
How many may connect is said by `admission`, and what their unfinished frames may take by `frame_budget`.
"""

import asyncio
import errno
import http as http_names
import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from ithaca.model.errors import (
    AuthenticationFailed,
    ConfigError,
    EngineMismatch,
    IthacaError,
    Overloaded,
    ProtocolError,
    Unavailable,
    VersionMismatch,
)
from ithaca.model.limits import (
    CONNECTIONS_MAX,
    FRAME_TIMEOUT_S,
    FRAMES_BYTES_MAX,
    FRAMES_BYTES_RESERVED,
    FRAMES_WAITING_BYTES_MAX,
    HELLO_TIMEOUT_S,
    HTTP_REQUEST_BYTES_MAX,
    LISTEN_BACKLOG,
)
from ithaca.model.security.identity import is_server, server_problem
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received, is_administrative, is_for_servers
from ithaca.protocol.greeting import ANY_ENGINE, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.admission import Admission, Capacity, capacity_of
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.dialling import other_engine
from ithaca.runtime.frame_budget import FrameBudget
from ithaca.runtime.machine import descriptors_max
from ithaca.runtime.tls.contexts import contexts_of
from ithaca.runtime.tls.layer import HANDSHAKE_BYTE, TlsLayer

_log = logging.getLogger("ithaca.listener")

_GET = b"GET "


class HttpAnswer(NamedTuple):
    """What is answered to `GET` of some path."""

    status: int
    content_type: str
    body: bytes


class Guard(NamedTuple):
    """Who is let in."""

    tls: TLS
    """The server's own certificate and key, and whom it trusts."""
    cluster: str
    """Servers must be of this one."""
    is_required: bool
    """Whether nothing is said in the open."""
    knows_clients: bool = False
    """Whether clients must be users of that cluster, or its servers."""

    def refuses(self, connection: Connection) -> AuthenticationFailed | None:
        """Why a client is not let in: it does not say who it is."""
        identity = connection.identity
        is_known = identity is not None and identity.cluster == self.cluster
        if is_known or not (self.is_required and self.knows_clients):
            return None
        who = "has no certificate" if identity is None else f"has a certificate of {identity}"
        return AuthenticationFailed(f"{connection.name} {who}: clients need one of a user of {self.cluster}")


class Audit(Protocol):
    """Who writes down what happens."""

    def login(self, connection: Connection, hello: Hello) -> None:
        """Somebody was let in."""

    def refused(self, connection: Connection, error: IthacaError) -> None:
        """Somebody was not, or not any longer."""

    def asked(self, connection: Connection, message: Message) -> None:
        """A client asks for a change."""

    def denied(self, connection: Connection, message: Message, error: IthacaError) -> None:
        """A client asks for what it has no right to."""


class Gate(Protocol):
    """Who says which user a client is, where a cluster has users."""

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Let somebody in; raises why it is not."""

    def left(self, connection: Connection) -> None:
        """A connection has ended, whether it was let in or not."""


Accept = Callable[[Connection, Hello], Peer]
"""Says who takes the messages of a connection, or raises why it is refused. It sends nothing itself."""


async def listen(
    address: Address,
    *,
    accept: Accept,
    welcome: Callable[[], Welcome],
    http: Callable[[str], HttpAnswer | None],
    capacity: Capacity | None = None,
    hello_timeout_s: float = HELLO_TIMEOUT_S,
    frame_timeout_s: float = FRAME_TIMEOUT_S,
    on_refused: Callable[[IthacaError], None] | None = None,
    guard: Guard | None = None,
    audit: Audit | None = None,
    gate: Gate | None = None,
) -> "Listener":
    """Listen at this address; port 0 picks a free one.

    `http` gets the path, and answers None for "not found". `on_refused` is told of every connection that this
    side ends, and why. Without a capacity it holds what the process can; without a guard everything is said in the
    open.
    """
    bounds = _Bounds(capacity or capacity_of(descriptors_max()), hello_timeout_s, frame_timeout_s)
    listener = Listener(address, accept, welcome, http, bounds, on_refused, guard, audit, gate)
    await listener.start()
    return listener


class _Bounds(NamedTuple):
    capacity: Capacity
    hello_timeout_s: float
    frame_timeout_s: float


class Listener:
    """A listening server socket and the connections that came through it."""

    def __init__(
        self,
        address: Address,
        accept: Accept,
        welcome: Callable[[], Welcome],
        http: Callable[[str], HttpAnswer | None],
        bounds: _Bounds,
        on_refused: Callable[[IthacaError], None] | None,
        guard: Guard | None = None,
        audit: Audit | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.address = address
        """Where it listens, with the port that was picked."""
        self.http = http
        self.bounds = bounds
        self.on_refused = on_refused
        self.guard = guard
        self.audit = audit
        self._gate = gate
        self._accept = accept
        self._welcome = welcome
        self._connections: dict[_Arrival, None] = {}
        self.admission = Admission(bounds.capacity, address)
        self.frames = FrameBudget(FRAMES_BYTES_MAX, FRAMES_BYTES_RESERVED, FRAMES_WAITING_BYTES_MAX)
        self._server: asyncio.Server | None = None
        self._is_closing = False

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        if self.guard is not None:
            _ = contexts_of(self.guard.tls).listening  # wrong files are known now, and not with the first connection
        try:
            self._server = await loop.create_server(
                lambda: _Arrival(self), self.address.host, self.address.port, backlog=LISTEN_BACKLOG
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Unavailable(f"cannot listen at {self.address}: another process listens there") from None
            raise ConfigError(f"cannot listen at {self.address}: {error.strerror or error}") from error
        if self.address.port == 0:
            port: int = self._server.sockets[0].getsockname()[1]
            self.address = Address(self.address.host, port)
        capacity = self.bounds.capacity
        level = logging.INFO if capacity.connections >= CONNECTIONS_MAX else logging.WARNING
        text = "%s holds up to %d connections, %d of them of clients: the process may open %d files"
        _log.log(level, text, self.address, capacity.connections, capacity.clients, descriptors_max())

    @property
    def connection_count(self) -> int:
        """Connections that are open now, those included that have not said hello yet."""
        return len(self._connections)

    async def close(self) -> None:
        """Stop accepting, end every connection, and wait until all are gone. Idempotent."""
        if self._server is None:
            return
        self._is_closing = True
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        while self._connections:
            await asyncio.wait([asyncio.ensure_future(each.wait_lost()) for each in self._connections])
        await self._server.wait_closed()

    # What arrivals tell

    def arrived(self, connection: "_Arrival") -> None:
        """A connection was made: it counts, and another may have to go for it."""
        self._connections[connection] = None
        if self._is_closing:
            connection.abort()
            return
        oldest = self.admission.arrived(connection)
        if isinstance(oldest, _Arrival):
            self.admission.left(oldest)
            reason = f"{oldest.name} has said no hello, and {self.bounds.capacity.greetings} came after it"
            oldest.drop(Overloaded(f"{reason}: say hello at once"))

    def left(self, connection: "_Arrival") -> None:
        self._connections.pop(connection, None)
        self.admission.left(connection)
        self.frames.left(connection)
        if self._gate is not None:
            self._gate.left(connection)

    def greet(self, connection: Connection, received: Received) -> Peer:
        """Check a connection's first message and answer it."""
        hello = received.message
        if not isinstance(hello, Hello):
            raise ProtocolError(f"{connection.name} began with {type(hello).__name__}: a connection begins with Hello")
        if hello.version_max < VERSION_MIN or hello.version_min > VERSION_MAX:
            raise VersionMismatch(
                f"{connection.name} speaks versions {hello.version_min}..{hello.version_max} of the protocol, "
                f"{self.address} speaks {VERSION_MIN}..{VERSION_MAX}: update the older side"
            )
        answer = self._welcome()
        if hello.engine not in (ANY_ENGINE, answer.engine):
            raise EngineMismatch(
                other_engine(connection.name, hello.engine, self.address, answer.engine), engine=answer.engine
            )
        if hello.log is not None and answer.log is not None and hello.log != answer.log:
            raise ProtocolError(f"{connection.name} looks for log {hello.log}, {self.address} serves {answer.log}")
        if self.guard is not None:
            _check_role(connection, hello, self.guard)
        if self._gate is not None:
            self._gate.admit(connection, hello)
        connection.hello = replace(hello, credentials=b"") if hello.credentials else hello
        self.admission.admit(connection, hello.role)
        peer = self._accept(connection, hello)
        if self.audit is not None:
            self.audit.login(connection, hello)
            connection.judge = _audited(connection, self.audit, connection.judge)
        connection.send(replace(answer, version=min(hello.version_max, VERSION_MAX)))
        return peer


def _check_role(connection: Connection, hello: Hello, guard: Guard) -> None:
    """Nobody is a server whose certificate does not say so; and who is a client speaks as clients do."""
    if hello.role != "client":
        problem = server_problem(connection.identity, guard.cluster, hello.role, hello.name)
        if problem is not None and (guard.is_required or connection.is_secure):
            raise AuthenticationFailed(f"{connection.name} is no server of this cluster: {problem}")
    elif (error := guard.refuses(connection)) is not None:
        raise error
    elif guard.is_required and not is_server(connection.identity, guard.cluster):
        connection.judge = lambda received: _refuse_server_talk(connection.name, received)


def _audited(
    connection: Connection, audit: Audit, judge: Callable[[Received], None] | None
) -> Callable[[Received], None]:
    """The judge, and whoever writes down what is asked for behind it."""

    def look(received: Received) -> None:
        if judge is not None:
            judge(received)
        if is_administrative(received.message):
            audit.asked(connection, received.message)

    return look


def _refuse_server_talk(name: str, received: Received) -> None:
    if is_for_servers(received.message):
        raise AuthenticationFailed(
            f"{name} is a client, and {type(received.message).__name__} is said by servers alone"
        )


class _Arrival(Connection):
    """A connection that somebody else has begun, as long as it lasts."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(listener.greet)
        self._listener = listener
        self._opening: bytearray | None = bytearray()
        """What came first, while it may be HTTP."""
        self._has_begun = False
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._watch = self._loop.call_later(self._listener.bounds.hello_timeout_s, self._look)
        self._listener.arrived(self)

    def buffer_updated(self, count: int) -> None:
        if not self._has_begun and not self._is_ending:
            self._has_begun = True
            if self._listener.guard is not None and not self._passes(self._listener.guard, count):
                return
        super().buffer_updated(count)

    def _passes(self, guard: Guard, count: int) -> bool:
        """Whether what came first goes on in the open; else TLS takes it, or the peer is told to use it."""
        first = bytes(self._decoder.buffer()[:count])
        if first[0] == HANDSHAKE_BYTE:
            self._tls = TlsLayer(contexts_of(guard.tls).listening)
            self._write = self._write_tls
            self._tls.feed(first)
            self._decrypt()
            return False
        if not guard.is_required:
            return True
        error = AuthenticationFailed(f"{self._listener.address} speaks TLS alone: say which authority you trust")
        if not _GET.startswith(first[: len(_GET)]):
            self.refuse(error)
        else:
            self._count(error)
            self._say(HttpAnswer(403, "text/plain", b"this server speaks TLS alone: use https\n"))
        return False

    def _received(self, count: int) -> None:
        if self._opening is not None and not self._is_ending:
            self._opening += self._decoder.buffer()[:count]
            if self._opening.startswith(_GET):
                self._take_request(self._opening)
                return
            if not _GET.startswith(self._opening):
                self._opening = None
        super()._received(count)
        if self.hello is not None and self.is_open:
            try:
                self._listener.frames.receives(self, *self._decoder.unfinished, is_server=self.hello.role != "client")
            except Overloaded as error:
                self.refuse(error)

    def connection_lost(self, error: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._listener.left(self)
        super().connection_lost(error)

    def refuse(self, error: IthacaError) -> None:
        if not self.is_open:
            return
        if not self._listener.admission.linger(self):
            self.drop(error)
            return
        self._count(error)
        super().refuse(error)

    def _untrusted(self, error: IthacaError) -> None:
        self._count(error)
        super()._untrusted(error)

    def drop(self, error: IthacaError) -> None:
        """End the connection without a word to the peer."""
        _log.warning("%s is closed: %s", self.name, error)
        self._count(error)
        self.abort(error)

    def _count(self, error: IthacaError) -> None:
        if self._listener.on_refused is not None:
            self._listener.on_refused(error)
        if self._listener.audit is not None:
            self._listener.audit.refused(self, error)

    def _look(self) -> None:
        """End the connection if its peer dawdles; else look again when that could be the case."""
        _, hello_timeout_s, frame_timeout_s = self._listener.bounds
        now = self._loop.time()
        if self._is_ending:
            return
        if self._peer is None:
            reason = "half a request" if self._opening else "no hello"
            self.drop(ProtocolError(f"{self.name} said {reason} within {hello_timeout_s} s"))
            return
        due = (now if self._inside_since is None else self._inside_since) + frame_timeout_s
        if due <= now:
            self.drop(ProtocolError(f"{self.name} did not complete a frame within {frame_timeout_s} s"))
        else:
            self._watch = self._loop.call_at(due, self._look)

    def _take_request(self, request: bytearray) -> None:
        if b"\r\n\r\n" not in request:
            if len(request) > HTTP_REQUEST_BYTES_MAX:
                error = ProtocolError(f"{self.name} sent a request of more than {HTTP_REQUEST_BYTES_MAX} bytes")
                _log.warning("%s is closed: %s", self.name, error)
                self._count(error)
                self._say(HttpAnswer(431, "text/plain", f"{error}\n".encode()))
            return
        guard = self._listener.guard
        if guard is not None and (refusal := guard.refuses(self)) is not None:
            self._count(refusal)
            self._say(HttpAnswer(403, "text/plain", f"{refusal}\n".encode()))
            return
        path = request.split(b"\r\n", 1)[0].split(b" ")[1].split(b"?", 1)[0].decode("latin-1")
        try:
            answer = self._listener.http(path) or HttpAnswer(404, "text/plain", b"there is nothing here\n")
        except Exception:
            _log.exception("%s gets no answer: GET %s failed", self.name, path)
            answer = HttpAnswer(500, "text/plain", b"this failed, the log says why\n")
        self._say(answer)

    def _say(self, answer: HttpAnswer) -> None:
        """Answer over HTTP and end; a peer that does not take it is cut off."""
        assert self._transport is not None
        reason = http_names.HTTPStatus(answer.status).phrase
        head = (
            f"HTTP/1.1 {answer.status} {reason}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        )
        self._write([head.encode(), answer.body])
        self._finish()
