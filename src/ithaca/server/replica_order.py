"""A replica's link to the ordering layer: it looks for the leader, joins, takes the news, sends reports."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from ithaca.model.errors import InvalidInput, IthacaError, NoSuchReplica, NoSuchShard, Unavailable, WrongLane
from ithaca.model.limits import RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.model.view import Address
from ithaca.ordering.reports import Report
from ithaca.protocol.codec import Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.messages import (
    Alive,
    BootIsKnown,
    Failure,
    Hello,
    Join,
    Joined,
    News,
    OrderersAre,
    Redirect,
    ReportIs,
    ShardNews,
)
from ithaca.runtime.connection import Connection, dial
from ithaca.server.known_orderers import KnownOrderers

_log = logging.getLogger("ithaca.replica.order")


class Follower(Protocol):
    """Who takes what the order says."""

    def order_joined(self, joined: Joined) -> None: ...

    def order_knows(self, boot: int) -> None:
        """A later start of this replica is known, so that it cannot join."""

    def order_gone(self) -> None:
        """The shard was finalized and trimmed whole: there is nothing to join any more."""

    def order_removed(self, error: NoSuchReplica) -> None:
        """The replica was removed from its shard, or was never added to it: it is nobody's any more."""

    def order_news(self, items: tuple[ShardNews, ...]) -> None: ...

    def order_lost(self) -> None: ...

    def is_whole(self) -> bool:
        """Whether this replica lacks nothing of its shard, but for what is on its way."""


class OrderLink:
    """One connection to the leader at a time, renewed for as long as the replica runs."""

    def __init__(
        self,
        orderers: tuple[Address, ...],
        join: Join,
        hello: Callable[[], Hello],
        follower: Follower,
        alive_every_s: float | None = None,
    ) -> None:
        """`alive_every_s`: how often to give a sign of life, if the leader watches for it."""
        self.orderers = KnownOrderers(orderers)
        self._join = join
        self._hello = hello
        self._follower = follower
        self._connection: Connection | None = None
        self._joined = False
        self._alive_every_s = alive_every_s
        self._alive: asyncio.TimerHandle | None = None
        self._hint: Address | None = None
        self._refusal: IthacaError | None = None
        self._said = ""
        """The last reason for which it could not join."""

    async def run(self) -> None:
        """Join, and join again whenever the link ends; raises only what makes joining pointless.

        A shard may be registered after its replicas have started, so that is waited for. Returns when nothing is left
        of the shard, or the replica was removed from it. One whose lane was closed must start anew to get another.
        """
        pause_s = RECONNECT_PAUSE_S_MIN
        while True:
            hint, self._hint = self._hint, None
            had_joined = await self._attend(hint or self.orderers.next())
            if isinstance(self._refusal, NoSuchShard):
                self._follower.order_gone()
                return
            if isinstance(self._refusal, NoSuchReplica):
                self._follower.order_removed(self._refusal)
                return
            if self._refusal is not None and (not self._refusal.retry or isinstance(self._refusal, WrongLane)):
                raise self._refusal
            is_near = had_joined or (hint is not None and self._refusal is None)
            pause_s = RECONNECT_PAUSE_S_MIN if is_near else min(2 * pause_s, RECONNECT_PAUSE_S_MAX)
            if self._hint is None or hint is not None:  # a hint is followed at once, but never in a tight circle
                await asyncio.sleep(pause_s)

    def report(self, report: Report) -> None:
        if self._joined and self._connection is not None:
            self._connection.send(ReportIs(report))

    def leave(self, reason: str) -> None:
        """End the link; it will be joined anew."""
        if self._connection is not None:
            self._connection.abort(Unavailable(reason))

    async def _attend(self, address: Address) -> bool:
        """Be joined at one orderer until that ends; says whether it came to that."""
        self._joined = False
        self._refusal = None
        try:
            connection = await dial(address, self._hello(), self)
        except IthacaError as error:
            _log.info("%s is not available as an orderer: %s", address, error)
            return False
        self._connection = connection
        try:
            connection.send(self._join, correlation=connection.next_correlation())
            await connection.wait_lost()
        finally:
            connection.abort()
            self._connection = None
            if self._alive is not None:
                self._alive.cancel()
        return self._joined

    def _say_alive(self) -> None:
        if self._connection is not None and self._alive_every_s is not None:
            self._connection.send(Alive(self._follower.is_whole()))
            self._alive = asyncio.get_running_loop().call_later(self._alive_every_s, self._say_alive)

    # What the connection calls

    def on_message(self, connection: Connection, received: Received) -> None:
        match received.message:
            case News(items):
                self._follower.order_news(items)
            case OrderersAre(orderers):
                self.orderers.learn(orderers)
            case Joined() as joined:
                self._joined = True
                self.orderers.found()
                self.orderers.learn(joined.orderers)
                _log.info("joined the order at %s as lane %s", connection.name, joined.lane)
                self._follower.order_joined(joined)
                self._say_alive()
            case BootIsKnown(boot):
                self._refusal = InvalidInput(f"the ordering layer knows a later start of this replica, boot {boot}")
                self._follower.order_knows(boot)
                connection.close()
            case Redirect(leader, orderers):
                self._hint = leader
                self.orderers.learn(orderers)
                connection.close()
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
