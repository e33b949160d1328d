"""An aggregator's link upwards: it looks for the leader, and attaches there or to the aggregator it is assigned."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from msgspec.structs import replace

from ithaca.engines.scalog.messages.aggregation import Alive, Assigned, Attach, Attached, Left, OrderNews
from ithaca.engines.scalog.server.aggregator.relay import Relay
from ithaca.engines.scalog.server.move import Move
from ithaca.engines.scalog.server.route import Route
from ithaca.engines.scalog.server.watch import Watch
from ithaca.model.errors import IthacaError, ProtocolError, Unavailable
from ithaca.model.limits import AGGREGATOR_PAUSE_S_MAX
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import Failure, Redirect
from ithaca.protocol.members import OrderersAre
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said, dial
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.aggregator")


class Owner(Protocol):
    """Whose link it is."""

    def belongs_to(self, log: UUID) -> None:
        """The cluster's log is this one."""


class UpLink:
    """One connection upwards at a time, renewed for as long as the aggregator runs."""

    def __init__(
        self, orderers: tuple[Address, ...], attach: Attach, hello: Callable[[], Said], relay: Relay, owner: Owner
    ) -> None:
        self._route = Route(orderers, AGGREGATOR_PAUSE_S_MAX)
        self._attach = attach
        self._hello = hello
        self._relay = relay
        self._owner = owner
        self._watch: Watch | None = None
        self._move = Move(hello)
        self._attaching = 0
        """The correlation of the request to attach."""
        self._had_attached = self._was_silent = self._was_refused = False
        self._said = ""

    @property
    def newest(self) -> Orderers:
        """Where the orderers are, as the leader said last."""
        return self._route.newest

    async def run(self) -> None:
        """Attach, and attach again whenever the link ends."""
        while True:
            self._had_attached = self._was_silent = self._was_refused = False
            await self._attend(self._route.next())
            pause_s = self._route.ended(
                monotonic_s(),
                had_joined=self._had_attached,
                was_silent=self._was_silent,
                was_refused=self._was_refused,
            )
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _attend(self, address: Address) -> None:
        """Be attached there until that ends."""
        try:
            connection = await dial(address, self._hello(), self)
        except IthacaError as error:
            self._tell(f"{address} is not available: {error}")
            return
        self._watch = Watch(connection, lambda: self._nobody_answers(connection))
        try:
            self._attaching = connection.next_correlation()
            attach = replace(self._attach, suspects=self._route.suspects(monotonic_s()))
            connection.send(attach, correlation=self._attaching)
            self._watch.waits()
            await connection.wait_lost()
        finally:
            self._move.stop()
            self._watch.stop()
            self._watch = None
            connection.abort()

    def _tell(self, reason: str) -> None:
        """Log why it could not attach, once in a row: it is tried again and again."""
        if reason != self._said:
            _log.info("%s", reason)
        self._said = reason

    def _go(self, connection: Connection, to: Address) -> None:
        """Leave this server for the one that is assigned."""
        self._route.assigned(to)
        connection.close()

    def _nobody_answers(self, connection: Connection) -> None:
        self._was_silent = True
        connection.abort(Unavailable("nobody answers there any more"))

    # What the connection calls

    def on_message(self, connection: Connection, received: Received) -> None:
        if self._watch is not None:
            self._watch.heard()
        match received.message:
            case OrderNews() as news:
                self._relay.take_news(news)
            case Left() as left:
                self._relay.left_above(left)
            case OrderersAre(orderers) as told:
                self._route.learn(orderers)
                self._relay.tell_orderers(told)
            case Alive():
                pass
            case Assigned(to) if received.correlation == self._attaching:
                self._go(connection, to)
            case Assigned(to) if not received.is_answer:
                self._move.consider(to, lambda: self._go(connection, to))
            case _ if received.correlation == self._attaching:
                self._attach_answered(connection, received)
            case _ if received.is_answer:
                self._relay.answered(received)
            case message:
                raise ProtocolError(f"{connection.name} tells an aggregator {type(message).__name__}")

    def _attach_answered(self, connection: Connection, received: Received) -> None:
        match received.message:
            case Attached(log, orderers):
                self._had_attached = True
                self._route.learn(orderers)
                assert connection.welcome is not None
                _log.info("attached to %s %s at %s", connection.welcome.role, connection.welcome.name, connection.name)
                self._owner.belongs_to(log)
                self._relay.attached(connection)
            case Redirect(leader, orderers):
                self._route.learn(orderers)
                self._route.redirected(leader)
                connection.close()
            case Failure() as failure:
                self._was_refused = True
                self._tell(f"{connection.name} cannot be attached to: {failure.message}")
                connection.close()
            case message:
                raise ProtocolError(f"{connection.name} answers an aggregator with {type(message).__name__}")

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if self._had_attached:
            _log.info("the link to the order at %s ended: %s", connection.name, error or "it was closed")
            self._relay.detached()
