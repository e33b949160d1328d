"""Who is let in where a cluster has users, what is passed on of what it says, and what ends with its rights."""

import asyncio
from collections.abc import Callable

from ithaca.model.addresses import parse_address
from ithaca.model.errors import AuthenticationFailed, InvalidInput, IthacaError, NotAllowed, Overloaded, Unavailable
from ithaca.model.security.identity import is_server
from ithaca.model.security.users import OPERATOR, User
from ithaca.protocol.codec import Message, Received, is_for_servers
from ithaca.protocol.greeting import Hello
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import Audit
from ithaca.runtime.machine import is_near, monotonic_s
from ithaca.server.users.login import Known, Logins
from ithaca.server.users.metering import Meter
from ithaca.server.users.rules import Rules, Wording
from ithaca.users.caller import Caller
from ithaca.users.limits import USERS_STALE_S_MAX
from ithaca.users.table import UserTable


class UserGate:
    """The users of one server, and their connections."""

    def __init__(
        self,
        logins: Logins,
        cluster: str,
        rules: Rules,
        wording: Wording,
        *,
        are_servers_certified: bool,
        knows_users: bool = True,
        audit: Audit | None = None,
        refused: Callable[[IthacaError], None] | None = None,
    ) -> None:
        """Where servers are not certified they say what the operator's token is. A server that has nothing for clients
        but its status need not know users: everybody is nobody there."""
        self._logins = logins
        self._cluster = cluster
        self.rules = rules
        self.wording = wording
        self.are_servers_certified = are_servers_certified
        self.knows_users = knows_users
        self.audit = audit
        self.refused = refused
        self._table: UserTable | None = None
        self._heard_s = 0.0
        self.holds_table = False
        """Whether this server applies the entries itself, so that it cannot have missed some for long."""
        self._passages: dict[Connection, Passage] = {}
        self._meters: dict[str, Meter] = {}
        """Of users that have connected, at most as many as there can be: who owes something does not get rid of it by
        connecting again."""

    # What is agreed on

    @property
    def is_told(self) -> bool:
        """Whether the users are known here, if there are some."""
        return self._table is not None

    @property
    def version(self) -> int:
        """Of the table that is known here."""
        return 0 if self._table is None else self._table.version

    def table(self) -> UserTable:
        """The users; `Unavailable` while they are not known, or may have changed since they were."""
        if self._table is None or not (self.holds_table or monotonic_s() - self._heard_s <= USERS_STALE_S_MAX):
            raise Unavailable("this server has not heard who the users are for a while: ask again, or another")
        return self._table

    def heard(self) -> None:
        """What is known here is what is agreed on."""
        self._heard_s = monotonic_s()

    def changed(self, table: UserTable) -> None:
        """The users are these, and these are their limits. Whoever may not go on as it is, is told, and has to begin
        again."""
        self._table = table
        self.heard()
        self._limit(table)
        for passage in list(self._passages.values()):
            passage.check(table)

    # Connections

    def admit(self, connection: Connection, hello: Hello) -> None:
        """Let somebody in, as whoever it is; raises why it is not."""
        if hello.credentials and not connection.is_secure and not _is_near(connection):
            raise AuthenticationFailed(f"{connection.name} sent a token in the open: use TLS. Rotate that token")
        is_certified = is_server(connection.identity, self._cluster)
        if hello.role != "client":
            if not (is_certified or (not self.are_servers_certified and self._logins.is_secret(hello.credentials))):
                raise AuthenticationFailed(f"{connection.name} has not proved that it is a server of this cluster")
            return
        if is_certified:
            return
        known = None
        if self.knows_users and (hello.credentials or connection.identity is not None):
            known = self._logins.known(connection.identity, hello.credentials, self.table, monotonic_s())
        passage = Passage(self, connection, known, self._meter(known))
        self._passages[connection] = connection.passage = passage

    def left(self, connection: Connection) -> None:
        """A connection has ended."""
        passage = self._passages.pop(connection, None)
        if passage is not None:
            passage.end()

    def _meter(self, known: Known | None) -> Meter | None:
        user = None if known is None or known.name == OPERATOR else self.table().by_name[known.name]
        if user is None:
            return None
        meter = self._meters.get(user.name)
        if meter is None:
            meter = self._meters[user.name] = Meter(user.name)
            meter.limit(user.limits, monotonic_s())
        meter.connect()
        return meter

    def _limit(self, table: UserTable) -> None:
        now_s = monotonic_s()
        for meter in list(self._meters.values()):
            user = table.by_name.get(meter.name)
            if user is not None:
                meter.limit(user.limits, now_s)
            elif not meter.connections:
                del self._meters[meter.name]

    def status(self) -> dict[str, int]:
        """How many users there are, and how many connections of theirs."""
        return {"version": self.version, "users": len(self._table or ()), "connections": len(self._passages)}


class Passage:
    """One connection of a client: what is passed on of what it says, and how it is answered."""

    def __init__(self, gate: UserGate, connection: Connection, known: Known | None, meter: Meter | None) -> None:
        self._gate = gate
        self._connection = connection
        self._known = known
        self.meter = meter
        name = "" if known is None else known.name
        self.caller = Caller(name, self._user, is_operator=name == OPERATOR)
        self._may_be_server = self.caller.is_operator and not gate.are_servers_certified
        """Whoever has the secret that servers have."""
        self._grant = self.caller.grant
        """What it may do on this connection: less than this ends it."""
        self._inflight: dict[int, int] = {}
        self._limits_changed = asyncio.Event()

    def _user(self) -> User | None:
        return None if self._known is None else self._gate.table().by_name.get(self._known.name)

    def passed(self, received: Received) -> Received | None:
        """What is passed on of a message; None if it was answered here. Raises what ends the connection."""
        message = received.message
        if is_for_servers(message):
            if not self._may_be_server:
                raise AuthenticationFailed(f"{type(message).__name__} is said by servers alone")
            return received
        rule = self._gate.rules.get(type(message))
        try:
            if rule is None and not self._gate.knows_users:  # perhaps it is about to become one that does
                raise Unavailable(f"this server does not take {type(message).__name__}, at the moment: ask another")
            if rule is None:
                raise NotAllowed(f"nobody may say {type(message).__name__} to this server", right="")
            passed = rule(self.caller, received)
            self._count(received)
        except (NotAllowed, AuthenticationFailed, Overloaded, Unavailable, InvalidInput) as error:
            self._refuse(received, error)
            return None
        return passed

    def worded(self, message: Message) -> Message:
        """An answer in the words of whoever gets it."""
        wording = self._gate.wording.get(type(message))
        return message if wording is None else wording(self.caller, message)

    def settled(self, correlation: int) -> None:
        """A request was answered."""
        size = self._inflight.pop(correlation, 0)
        if self.meter is not None:
            self.meter.inflight_bytes -= size

    def sent(self, size: int) -> None:
        """So many bytes are on their way to it."""
        if self.meter is not None:
            self.meter.sent(size, monotonic_s())

    @property
    def wait_s(self) -> float:
        """How long to wait before more is sent to it."""
        return 0.0 if self.meter is None else self.meter.wait_s(monotonic_s())

    async def paced(self) -> None:
        """Until more may be sent to it: what it owes now is waited for, unless its limits change."""
        while (wait_s := self.wait_s) > 0:
            self._limits_changed.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await self._limits_changed.wait()
            except TimeoutError:
                return

    def check(self, table: UserTable) -> None:
        """End the connection if its user is gone, its token is, or some of its rights are. Whatever waits because of
        its limits looks at them again."""
        if self._known is None or self.caller.is_operator:
            return
        name, token = self._known
        user = table.by_name.get(name)
        if user is None or (token is not None and token not in user.tokens):
            self._connection.refuse(AuthenticationFailed(f"user {name} was revoked, or its token was rotated"))
        elif not user.grant.covers(self._grant):
            self._connection.refuse(Unavailable(f"rights of user {name} were withdrawn: connect again"))
        else:
            self._grant = user.grant
            self._limits_changed.set()

    def end(self) -> None:
        """The connection is over."""
        if self.meter is not None:
            self.meter.connections -= 1
            self.meter.inflight_bytes -= sum(self._inflight.values())
            self._inflight.clear()

    def _count(self, received: Received) -> None:
        meter = self.meter
        if meter is None or not meter.is_limited:
            return
        size, correlation = len(received.payload), received.correlation
        meter.request(size, monotonic_s())
        if size:
            self._inflight[correlation] = self._inflight.get(correlation, 0) + size
            meter.inflight_bytes += size

    def _refuse(self, received: Received, error: IthacaError) -> None:
        if self._gate.refused is not None:
            self._gate.refused(error)
        if self._gate.audit is not None and not isinstance(error, Unavailable):
            self._gate.audit.denied(self._connection, received.message, error)
        self._connection.fail(received, error)


def _is_near(connection: Connection) -> bool:
    """Whether the other side is on this machine."""
    try:
        return is_near(parse_address(connection.name).host)
    except InvalidInput:
        return False
