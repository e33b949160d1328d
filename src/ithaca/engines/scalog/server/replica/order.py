"""A replica's link to the ordering layer: it looks for the leader, joins there or at the aggregator that the leader
assigns, takes the news, sends reports."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from ithaca.engines.scalog.messages.aggregation import Alive, Assigned
from ithaca.engines.scalog.messages.reporting import (
    BootIsKnown,
    Join,
    Joined,
    JoinedLanes,
    News,
    ReportIs,
    ShardNews,
    SignOfLife,
)
from ithaca.engines.scalog.ordering.reports import Report
from ithaca.engines.scalog.server.move import Move
from ithaca.engines.scalog.server.route import Route
from ithaca.engines.scalog.server.watch import Watch
from ithaca.model.errors import InvalidInput, IthacaError, NoSuchReplica, NoSuchShard, Unavailable, WrongLane
from ithaca.model.positions import LaneId
from ithaca.model.view import Address, Orderers
from ithaca.protocol.codec import Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import Failure, Redirect
from ithaca.protocol.members import OrderersAre
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said, dial
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.replica.order")


class Follower(Protocol):
    """Who takes what the order says."""

    def order_joined(self, joined: Joined) -> None: ...

    def order_knows(self, boot: int) -> None:
        """A later start of this replica is known, so that it cannot join."""

    def order_gone(self, error: NoSuchShard) -> None:
        """The shard was finalized and trimmed whole: there is nothing to join any more."""

    def order_removed(self, error: NoSuchReplica) -> None:
        """The replica was removed from its shard, or was never added to it: it is nobody's any more."""

    def order_closed(self) -> int | None:
        """The lane of this boot was closed: the next boot, to join as; None when there can be none."""

    def order_news(self, items: tuple[ShardNews, ...]) -> None: ...

    def order_lost(self) -> None: ...

    def is_complete(self) -> bool:
        """Whether this replica lacks nothing of its shard, but for what is on its way."""


class OrderLink:
    """One connection to the leader or to an aggregator at a time, renewed for as long as the replica runs."""

    def __init__(
        self,
        orderers: tuple[Address, ...],
        join: Join,
        hello: Callable[[], Said],
        follower: Follower,
        sign_every_s: float,
    ) -> None:
        """`sign_every_s`: how often to give a sign of life."""
        self._route = Route(orderers)
        self._join = join
        self._hello = hello
        self._follower = follower
        self._connection: Connection | None = None
        self._watch: Watch | None = None
        self._move = Move(hello)
        self._joined = False
        self._pieces: dict[LaneId, int] = {}
        """The lanes of which it was told so far, before it has joined."""
        self._was_silent = False
        self._sign_every_s = sign_every_s
        self._next_sign: asyncio.TimerHandle | None = None
        self._refusal: IthacaError | None = None
        self._said = ""
        """The last reason for which it could not join."""

    async def run(self) -> None:
        """Join, and join again whenever the link ends; raises only what makes joining pointless.

        A shard may be registered after its replicas have started, so that is waited for. Returns when nothing is left
        of the shard, or the replica was removed from it. One whose lane was closed goes on as its next boot.
        """
        while True:
            had_joined = await self._attend(self._route.next())
            if isinstance(self._refusal, NoSuchShard):
                self._follower.order_gone(self._refusal)
                return
            if isinstance(self._refusal, NoSuchReplica):
                self._follower.order_removed(self._refusal)
                return
            if isinstance(self._refusal, WrongLane) and (boot := self._follower.order_closed()) is not None:
                self._join = replace(self._join, boot=boot)
            elif self._refusal is not None and (not self._refusal.retry or isinstance(self._refusal, WrongLane)):
                raise self._refusal
            pause_s = self._route.ended(
                monotonic_s(),
                had_joined=had_joined,
                was_silent=self._was_silent,
                was_refused=self._refusal is not None,
            )
            if pause_s:
                await asyncio.sleep(pause_s)

    @property
    def newest(self) -> Orderers:
        """Where the orderers are, as the leader said last."""
        return self._route.newest

    def report(self, report: Report) -> None:
        if self._joined and self._connection is not None:
            self._connection.send(ReportIs(report))
            if self._watch is not None:
                self._watch.waits()

    def rejoin(self, reason: str) -> None:
        """Join again where it is joined now.

        To ask other orderers first would take several round trips, in which nothing is heard of this replica.
        """
        if self._joined and self._connection is not None:
            self._route.again()
        self._leave(reason)

    def _leave(self, reason: str) -> None:
        """End the link; it will be joined again."""
        if self._connection is not None:
            self._connection.abort(Unavailable(reason))

    async def _attend(self, address: Address) -> bool:
        """Be joined at one server until that ends; says whether it came to that."""
        self._joined = self._was_silent = False
        self._pieces = {}
        self._refusal = None
        try:
            connection = await dial(address, self._hello(), self)
        except IthacaError as error:
            _log.info("the order cannot be joined at %s: %s", address, error)
            return False
        self._connection = connection
        self._watch = Watch(connection, self._nobody_answers)
        try:
            join = replace(self._join, suspects=self._route.suspects(monotonic_s()), takes_pieces=True)
            connection.send(join, correlation=connection.next_correlation())
            self._watch.waits()
            await connection.wait_lost()
        finally:
            self._move.stop()
            self._watch.stop()
            self._watch = None
            connection.abort()
            self._connection = None
            if self._next_sign is not None:
                self._next_sign.cancel()
        return self._joined

    def _go(self, connection: Connection, to: Address) -> None:
        """Leave this server for the one that is assigned."""
        self._route.assigned(to)
        connection.close()

    def _nobody_answers(self) -> None:
        self._was_silent = True
        self._leave("nobody answers there any more")

    def _give_sign(self) -> None:
        if self._connection is not None:
            self._connection.send(SignOfLife(self._follower.is_complete()))
            self._next_sign = asyncio.get_running_loop().call_later(self._sign_every_s, self._give_sign)

    # What the connection calls

    def on_message(self, connection: Connection, received: Received) -> None:
        if self._watch is not None:
            self._watch.heard()
        match received.message:
            case News(items):
                self._follower.order_news(items)
            case OrderersAre(orderers):
                self._route.learn(orderers)
            case JoinedLanes(lengths):
                self._pieces.update(lengths)
            case Joined() as told:
                joined, self._pieces = told.joined_with(self._pieces), {}
                self._joined = True
                self._route.learn(joined.orderers)
                _log.info("joined the order at %s as lane %s", connection.name, joined.lane)
                self._follower.order_joined(joined)
                self._give_sign()
            case BootIsKnown(boot):
                self._refusal = InvalidInput(f"the ordering layer knows a later start of this replica, boot {boot}")
                self._follower.order_knows(boot)
                connection.close()
            case Redirect(leader, orderers):
                self._route.learn(orderers)
                self._route.redirected(leader)
                connection.close()
            case Assigned(to) if self._joined:
                self._move.consider(to, lambda: self._go(connection, to))
            case Assigned(to):
                self._go(connection, to)
            case Alive():
                pass
            case Failure() as failure:
                self._refusal = error_of(failure)
                if failure.message != self._said:  # it is asked again and again
                    _log.warning("%s refused to let this replica join: %s", connection.name, failure.message)
                self._said = failure.message
                connection.close()

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if self._joined:
            level = logging.INFO if error is None else logging.WARNING
            _log.log(level, "the link to the order at %s ended: %s", connection.name, error or "it was closed")
            self._follower.order_lost()
            if isinstance(error, NoSuchReplica):  # a learner that is not needed any more
                self._refusal = error
