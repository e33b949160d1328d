"""Beginning a connection: to an address, with what this side says of itself, and with TLS if it has to be."""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ithaca.model.addresses import is_numeric
from ithaca.model.errors import (
    AuthenticationFailed,
    EngineMismatch,
    IthacaError,
    ProtocolError,
    Unavailable,
    VersionMismatch,
)
from ithaca.model.limits import CONNECT_TIMEOUT_S
from ithaca.model.security.identity import server_problem
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import ANY_ENGINE, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.connection import Connection, Peer
from ithaca.runtime.machine import is_near
from ithaca.runtime.tls.contexts import contexts_of
from ithaca.runtime.tls.layer import TlsLayer

_log = logging.getLogger("ithaca.connection")


class Introduction(NamedTuple):
    """What whoever dials says of itself, and how it proves that."""

    hello: Hello
    tls: TLS | None = None
    """What protects the connection; nothing does where there is none."""
    cluster: str | None = None
    """Of a server: whoever answers must be the server of this cluster that it says it is."""


Said = Introduction | Hello
"""A bare hello is said in the open."""


def hello_in(said: Said) -> Hello:
    return said.hello if isinstance(said, Introduction) else said


async def dial(address: Address, introduction: Said, peer: Peer, *, timeout: float = CONNECT_TIMEOUT_S) -> Connection:
    """Connect and shake hands; `Unavailable` names the address that nobody answers at.

    With TLS nothing is said before the other side has proved that it is the host
    that was dialled: `AuthenticationFailed` otherwise.
    """
    hello, tls, cluster = introduction if isinstance(introduction, Introduction) else Introduction(introduction)
    context = None if tls is None else contexts_of(tls).dialling
    loop = asyncio.get_running_loop()
    greeted: asyncio.Future[None] = loop.create_future()

    def greet(connection: Connection, received: Received) -> Peer:
        message = received.message
        if not isinstance(message, Welcome):
            raise ProtocolError(f"{address} answered a hello with {type(message).__name__}: it is no Ithaca server")
        if not VERSION_MIN <= message.version <= VERSION_MAX:
            raise VersionMismatch(f"{address} speaks version {message.version}, this side {VERSION_MIN}..{VERSION_MAX}")
        if hello.engine not in (ANY_ENGINE, message.engine):
            raise EngineMismatch(
                other_engine("this side", hello.engine, address, message.engine), engine=message.engine
            )
        if cluster is not None and tls is not None:
            problem = server_problem(connection.identity, cluster, message.role, message.name)
            if problem is not None:
                raise AuthenticationFailed(f"{address} is no server of this cluster: {problem}")
        connection.welcome = message
        greeted.set_result(None)
        return peer

    made: list[Connection] = []

    def make() -> Connection:
        made.append(Connection(greet, None if context is None else TlsLayer(context, address.host)))
        return made[-1]

    try:
        async with asyncio.timeout(timeout):
            transport, connection = await _connected(make, address)
            if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
                # Dialling a port that nobody listens at, from that very port, which the kernel happened to pick.
                raise Unavailable(f"nobody answers at {address}: the connection came back to its own side")
            if hello.credentials and tls is None:
                _check_near(transport, address)
            connection.send(hello)
            await asyncio.wait([greeted, connection._lost], return_when=asyncio.FIRST_COMPLETED)
        if not greeted.done():
            raise connection.lost_error()
        return connection
    except BaseException as error:
        for connection in made:
            connection.abort()
        if isinstance(error, EngineMismatch | AuthenticationFailed) and hello.role != "client":
            _log.error("%s is no server of this cluster: %s", address, error)
        if isinstance(error, IthacaError):
            raise
        if isinstance(error, TimeoutError):
            raise Unavailable(f"{address} did not answer within {timeout:.3g} s") from None
        if isinstance(error, OSError):
            raise Unavailable(f"nobody answers at {address}: {error.strerror or error}") from error
        raise


def _check_near(transport: asyncio.Transport, address: Address) -> None:
    """A token is not sent in the open to another machine."""
    peer = transport.get_extra_info("peername")
    if not is_near(str(peer[0])):
        raise AuthenticationFailed(
            f"the token was not sent to {address}, which is another machine: use TLS (tls=, or ITHACA_TLS_AUTHORITY)"
        )


async def _connected(make: Callable[[], Connection], address: Address) -> tuple[asyncio.Transport, Connection]:
    """A connection to whichever of the addresses that the host's name stands for answers."""
    loop = asyncio.get_running_loop()
    hosts = [address.host] if is_numeric(address.host) else await _resolved(address)
    for host in hosts[:-1]:
        with suppress(OSError):
            return await loop.create_connection(make, host, address.port)
    return await loop.create_connection(make, hosts[-1], address.port)


async def _resolved(address: Address) -> list[str]:
    """What the name stands for. A question that nobody waits for any more ends unheard."""
    loop = asyncio.get_running_loop()
    asking = asyncio.ensure_future(loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
    asking.add_done_callback(lambda asked: asked.cancelled() or asked.exception())
    try:
        found = await asyncio.shield(asking)
    except socket.gaierror as error:
        raise Unavailable(f"the host {address.host} of {address} is not known here: {error.strerror}") from error
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def other_engine(dialler: str, its: str, server: Address, the_servers: str) -> str:
    """That a cluster has one engine, and these two are not of one cluster."""
    return (
        f"{dialler} has the engine {its}, and {server} has {the_servers}: a cluster has one, which its file names and "
        "which never changes"
    )
