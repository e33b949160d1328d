"""Connections that other members have dialled: they speak over them, and are answered over this server's own links."""

from collections.abc import Callable, Sequence

from ithaca.model.errors import AuthenticationFailed, IthacaError, ProtocolError
from ithaca.model.limits import RAFT_NUMBER_MAX
from ithaca.model.records import Buffer
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import Hello
from ithaca.protocol.members import RaftMessage
from ithaca.raft.messages import ServerId
from ithaca.runtime.connection import Connection, Peer
from ithaca.server.raft_host.group import Group
from ithaca.server.raft_host.identity import RaftMember


class RaftPeers:
    """Those of all other members."""

    def __init__(self, member: RaftMember, group: Group, hear: Callable[[RaftMessage, Buffer], None]) -> None:
        """`hear` is called with what they say."""
        self._member = member
        self._group = group
        self._hear = hear
        self._connections: dict[ServerId, dict[Connection, None]] = {}
        """In the order in which they came."""

    def accept(self, connection: Connection, hello: Hello, own: Hello) -> tuple[ServerId, Peer]:
        """Another member has dialled: which one, and who takes what it says; `AuthenticationFailed` for somebody else.

        `own` is what this server says of itself. One that has just been added may not be known here yet, but it knows
        the log.
        """
        number = int(hello.name) if hello.name.isascii() and hello.name.isdecimal() else 0
        if number == self._member.server or not 1 <= number <= RAFT_NUMBER_MAX:
            raise AuthenticationFailed(f"{connection.name} is no other {self._member.words.role}: {hello.name!r}")
        if self._group.was_removed(number):
            raise self._member.removed(number)
        if number not in self._group.addresses and own.log not in (None, hello.log):
            raise AuthenticationFailed(
                f"{connection.name} is no {self._member.words.role} of this log that is known here: {hello.name!r}"
            )
        connections = self._connections.setdefault(number, {})
        connections[connection] = None
        return number, _RaftPeer(number, self._member.named(number), self._hear, connections)

    def send(self, to: ServerId, says: RaftMessage, payload: Sequence[Buffer] = ()) -> None:
        """For a member whose address is not known here, and which has dialled."""
        for connection in self._connections.get(to, ()):
            connection.send(says, payload=payload)

    def dismiss_removed(self) -> None:
        """Let go of those that were removed, and tell them."""
        for server, connections in self._connections.items():
            if self._group.was_removed(server):
                for connection in list(connections):
                    connection.refuse(self._member.removed(server))


class _RaftPeer:
    """What one member says over one connection."""

    def __init__(
        self,
        server: ServerId,
        name: str,
        hear: Callable[[RaftMessage, Buffer], None],
        connections: dict[Connection, None],
    ) -> None:
        self._server = server
        self._name = name
        self._hear = hear
        self._connections = connections

    def on_message(self, connection: Connection, received: Received) -> None:
        message = received.message
        if not isinstance(message, RaftMessage):
            raise ProtocolError(f"{self._name} sent {type(message).__name__} over its link")
        if message.message.sender != self._server:
            raise ProtocolError(f"{self._name} speaks as server {message.message.sender}")
        self._hear(message, received.payload)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        self._connections.pop(connection, None)
