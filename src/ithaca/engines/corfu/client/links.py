"""Connections to the servers of a cluster, dialled when they are needed and kept."""

import asyncio
from collections.abc import Sequence

from ithaca.engines.corfu.name import NAME
from ithaca.model.errors import IthacaError, LogClosed, ProtocolError, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.records import Buffer
from ithaca.model.security.tls import TLS
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import FEATURES, VERSION_MAX, VERSION_MIN, Hello, Redirect
from ithaca.runtime.connection import Connection, OnlyAnswers
from ithaca.runtime.dialling import Introduction, dial

_HOPS_MAX = 4
"""Redirects that are followed before somebody else is asked."""


class Links:
    """The connections of one handle, by address."""

    def __init__(
        self, orderers: Sequence[Address], tls: TLS | None = None, *, timeout_s: float = ATTEMPT_TIMEOUT_S
    ) -> None:
        """`orderers` are servers of the cluster, one of which knows the Raft group."""
        self._orderers = list(dict.fromkeys(orderers))
        self.tls = tls
        self._leader: Address | None = None
        self._timeout_s = timeout_s
        self._open: dict[Address, Connection] = {}
        self._dialling: dict[Address, asyncio.Lock] = {}
        self._is_closed = False

    async def ask(self, address: Address, message: Message, payload: Sequence[Buffer] = ()) -> Received:
        """What the server there answers; `Unavailable` and its kin when it does not, `LogClosed` after `close`."""
        connection = self._open.get(address)
        if connection is None or not connection.is_open:
            connection = await self._dialled(address)
        return await connection.request(message, payload, timeout=self._timeout_s)

    async def ask_leader(self, message: Message) -> Message:
        """What the leader of the Raft group answers; `Unavailable` when there is none, or nobody is reached."""
        candidates = ([self._leader] if self._leader is not None else []) + self._orderers
        problem: IthacaError = Unavailable("no server of the Raft group is known")
        for candidate in dict.fromkeys(candidates):
            address: Address | None = candidate
            for _ in range(_HOPS_MAX):
                if address is None:
                    break
                try:
                    answer = (await self.ask(address, message)).message
                except (Unavailable, ProtocolError) as error:
                    problem = error
                    break
                if not isinstance(answer, Redirect):
                    self._leader = address
                    return answer
                self._orderers = list(dict.fromkeys([*self._orderers, *answer.orderers.addresses]))
                address = answer.leader
                problem = Unavailable("the Raft group has no leader at the moment")
        self._leader = None
        raise problem

    def close(self) -> None:
        """End all connections; whoever asks from now on is told so."""
        self._is_closed = True
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    async def _dialled(self, address: Address) -> Connection:
        async with self._dialling.setdefault(address, asyncio.Lock()):
            self._check()
            connection = self._open.get(address)
            if connection is None or not connection.is_open:
                hello = Hello(VERSION_MIN, VERSION_MAX, "client", features=FEATURES, engine=NAME)
                connection = await dial(address, Introduction(hello, self.tls), OnlyAnswers(), timeout=self._timeout_s)
                self._open[address] = connection
                if self._is_closed:
                    connection.abort()
                    self._check()
            return connection

    def _check(self) -> None:
        if self._is_closed:
            raise LogClosed("the handle was closed")
