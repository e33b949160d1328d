"""A connection as servers take it, from its first byte on: who says what is let in, and what of it reaches anybody.

Bytes go through a real listener with a real gate; what is behind the gate is written down. Nothing may come through
that nobody, or a user who may only read, has no right to say, whatever comes before it. The engine corfu has no users:
there a guard stands before the listener, and whoever has a user's certificate may say all that clients do, and nothing
that servers say among themselves.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from tests.fuzz import repairs
from tests.fuzz.target import Target
from tests.protocol.examples import EXAMPLES
from tests.protocol.made import MADE, made

from ithaca.engines.belfast.server.rights import BELFAST_RULES
from ithaca.engines.corfu import messages as corfu_messages
from ithaca.engines.raft.server.rights import RAFT_RULES, RAFT_WORDING
from ithaca.engines.scalog.server.rights import SCALOG_WORDING
from ithaca.model.errors import AuthenticationFailed, Overloaded
from ithaca.model.limits import FRAME_BYTES_MAX, RECEIVE_BLOCK_BYTES
from ithaca.model.security.identity import Identity
from ithaca.model.security.tls import TLS
from ithaca.model.security.users import Grant, User
from ithaca.model.view import Address
from ithaca.protocol.codec import Received, encode_message, is_for_servers, known_types
from ithaca.protocol.greeting import ANY_ENGINE, VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.admission import Capacity
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import Guard, Listener, _Arrival, _Bounds
from ithaca.server.users.gate import UserGate
from ithaca.server.users.login import Known, Logins
from ithaca.server.users.rules import Rules, Wording
from ithaca.users.table import PackedUsers, UserTable
from ithaca.users.tokens import hash_token, token_text

_READER = token_text("reader", bytes(32))
_SECRET = token_text("operator", bytes(range(32)))
_TABLE = UserTable(PackedUsers(1, [User("reader", Grant(("read",)), (hash_token(_READER, bytes(16), log2_n=1),))]))
_TOGETHER = 8
_HERE = Address("127.0.0.1", 7600)
_BOUNDS = _Bounds(Capacity(8, 2, 4, 2), 60.0, 60.0)

_ANYBODY = {"GetStatus", "GetView"}
_ANY_READER = {
    *_ANYBODY,
    *("GetTail", "GetLog", "GetMembers", "ChangeConsumers", "GetConsumers", "BeatGroup", "GetGroup"),
    *("Read", "Subscribe", "SeekTime", "LocateRecords", "LocateLane", "GetOwner", "FollowSlots", "Speculate"),
}
"""What users who may read say, and nobody else needs."""


class _Wire(asyncio.Transport):
    """Where what is answered goes; it comes from this machine."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self.is_over = False

    def is_closing(self) -> bool:
        return self.is_over

    def write(self, data: Any) -> None:
        assert _SECRET.encode() not in bytes(data)

    def write_eof(self) -> None:
        self.is_over = True

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


class _Behind:
    """Whoever takes what came through."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def accept(self, connection: Connection, hello: Hello) -> "_Behind":
        assert hello.role == "client", "nobody here is a server"
        return self

    def on_message(self, connection: Connection, received: Received) -> None:
        caller = connection.caller
        assert caller is not None
        assert not caller.is_operator
        self.told.append((caller.name, type(received.message).__name__))

    def on_lost(self, connection: Connection, error: Any) -> None:
        assert error is None or "handling a message" not in str(error), str(error)


class _Certified(_Arrival):
    """A connection over which TLS has said that somebody is the user alice: these bytes are what it carries."""

    @property
    def is_secure(self) -> bool:
        return True

    @property
    def identity(self) -> Identity:
        return Identity("bank", user="alice")

    def _passes(self, guard: Guard, count: int) -> bool:
        return True


class _BehindGuard(_Behind):
    """Whoever takes what clients say where there are no users."""

    def on_message(self, connection: Connection, received: Received) -> None:
        assert not is_for_servers(received.message), "alice is no server"
        self.told.append(("alice", type(received.message).__name__))


async def _guarded(data: bytes) -> list[tuple[str, str]]:
    behind = _BehindGuard()
    guard = Guard(TLS("ca.pem"), "bank", is_required=True, knows_clients=True)
    listener = Listener(
        _HERE, behind.accept, lambda: Welcome(VERSION_MAX, "orderer"), lambda path: None, _BOUNDS, None, guard
    )
    _feed(_Certified(listener), data)
    return behind.told


def _feed(arrival: _Arrival, data: bytes) -> None:
    wire = _Wire()
    arrival.connection_made(wire)
    rest = memoryview(data)
    while len(rest) and not wire.is_over:
        room = arrival.get_buffer(len(rest))
        size = min(len(room), len(rest))
        room[:size] = rest[:size]
        rest = rest[size:]
        arrival.buffer_updated(size)
    arrival.connection_lost(None)


def _connection_guarded(data: bytes) -> list[tuple[str, str]]:
    return _loop().run_until_complete(_guarded(data))


def _connection(rules: Rules, wording: Wording) -> Callable[[bytes], list[tuple[str, str]]]:
    """What comes through of a stream of bytes: who said it, and which message it was."""

    async def take(data: bytes) -> list[tuple[str, str]]:
        gate = UserGate(Logins("bank", _SECRET, 0.0), "bank", rules, wording, are_servers_certified=False)
        gate.changed(_TABLE)
        behind = _Behind()
        listener = Listener(
            _HERE, behind.accept, lambda: Welcome(VERSION_MAX, "orderer"), lambda path: None, _BOUNDS, None, gate=gate
        )
        _feed(_Arrival(listener), data)
        return behind.told

    def decode(data: bytes) -> list[tuple[str, str]]:
        told = _loop().run_until_complete(take(data))
        for who, message in told:
            assert who in ("", "reader")
            assert message in (_ANY_READER if who else _ANYBODY), f"{who or 'nobody'} said {message}"
        return told

    return decode


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _stream(*messages: msgspec.Struct) -> bytes:
    said = (encode_message(message, correlation=2 * at + 3) for at, message in enumerate(messages))
    return b"".join(bytes(buffer) for buffers in said for buffer in buffers)


def _hello(token: str) -> Hello:
    return Hello(VERSION_MIN, VERSION_MAX, "client", credentials=token.encode(), engine=ANY_ENGINE)


def _seeds() -> tuple[bytes, ...]:
    """Every message behind a hello of nobody and of a reader; some that lie; and somebody who speaks HTTP."""
    said = list({type(each): each for each in (*EXAMPLES, *MADE)}.values())
    ending = [each for each in said if is_for_servers(each)]
    others = [each for each in said if each not in ending]
    groups = [*([each] for each in ending), *(others[at : at + _TOGETHER] for at in range(0, len(others), _TOGETHER))]
    lies = (
        Hello(1, 2, "replica", "0/0"),
        Hello(1, 2, "orderer", "1", credentials=_READER.encode()),
        _hello(_READER[:-1]),
        _hello(token_text("operator", bytes(32))),
        Hello(7, 9, "client"),
    )
    return (
        *(_stream(_hello(token), *group) for group in groups for token in ("", _READER)),
        *(_stream(lie, Hello(1, 2, "client")) for lie in lies),
        b"GET /health HTTP/1.1\r\n\r\n",
    )


def _guarded_seeds() -> tuple[bytes, ...]:
    """Every message of corfu, and those that servers say, behind a hello of somebody who has a certificate."""
    said = list({type(each): each for each in (*EXAMPLES, *MADE)}.values())
    corfu = [kind for kind in known_types().values() if kind.__module__.startswith(corfu_messages.__package__)]
    own = [each for kind in corfu if not is_for_servers(each := made(kind, is_full=False))]
    return (
        *(_stream(_hello(""), each) for each in said if is_for_servers(each)),
        _stream(_hello(""), *own),
        _stream(Hello(1, 2, "replica", "0/0"), Hello(1, 2, "client")),
    )


def _login(data: bytes) -> Known | None:
    """Who has these credentials: a user who has exactly this token, or nobody."""
    known = Logins("bank", _SECRET, 0.0).known(None, data, lambda: _TABLE, 0.0)
    assert known is None or data in (_READER.encode(), _SECRET.encode())
    return known


_MEMORY_BYTES_MAX = 2 * (FRAME_BYTES_MAX + RECEIVE_BLOCK_BYTES)
_RULES: Mapping[str, tuple[Rules, Wording]] = {
    "connection": (BELFAST_RULES, SCALOG_WORDING),
    "connection-raft": (RAFT_RULES, RAFT_WORDING),
}

TARGETS: tuple[Target[Any], ...] = (
    Target("login", _login, (AuthenticationFailed, Overloaded), (_READER.encode(), _SECRET.encode())),
    *(
        Target(name, _connection(*both), (), _seeds(), repair=repairs.frames, memory_bytes_max=_MEMORY_BYTES_MAX)
        for name, both in _RULES.items()
    ),
    Target(
        "connection-corfu",
        _connection_guarded,
        (),
        _guarded_seeds(),
        repair=repairs.frames,
        memory_bytes_max=_MEMORY_BYTES_MAX,
    ),
)
