"""The leader's side of aggregators, with their connections: `ordering.decisions.reporting` says who reports where."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from ithaca.engines.scalog.messages.aggregation import Assigned, Attach, Detach
from ithaca.engines.scalog.messages.reporting import Join
from ithaca.engines.scalog.ordering.decisions.reporting import (
    Aggregator,
    Gone,
    MoveAggregator,
    MoveReplica,
    RepairIn,
    Reporting,
    ReportingEffect,
)
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.errors import Unavailable
from ithaca.model.view import Address
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.orderer")


class Aggregators:
    """The aggregators that have attached to this leader."""

    def __init__(self, streams: NewsStreams, *, are_expected: bool) -> None:
        """`are_expected`: the cluster's file has some, so that a new leader gives them time to find it."""
        self._streams = streams
        self._core: Reporting[Connection] = Reporting(are_expected=are_expected)
        self._timer: asyncio.TimerHandle | None = None

    # One term

    def begin(self) -> None:
        """This server leads now, and nobody has attached to it."""
        self._core.begin(monotonic_s())

    def end(self) -> None:
        """This server leads no more: whoever has attached must look for another leader."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in self._core.end():
            connection.close()

    # Aggregators

    def attach(self, connection: Connection, message: Attach) -> Address | None:
        """Take an aggregator; or say through which other one it is to come."""
        hello = connection.hello
        is_direct = hello is not None and hello.name == str(message.aggregator)  # else it came by way of another
        number, address = message.aggregator, message.address
        is_known = self._core.is_at(number, address)
        decided = self._core.attach(
            Aggregator(number, address, message.level, connection, is_direct, message.suspects, monotonic_s())
        )
        if isinstance(decided, Address):
            return decided
        if not is_known:
            _log.info("aggregator %d at %s has attached", number, address)
        self._perform(decided)
        return None

    def detach(self, connection: Connection, message: Detach) -> None:
        self._perform(self._core.detach(message.aggregator, connection))

    def lost(self, connection: Connection) -> None:
        """A connection has ended: whoever attached over it is gone."""
        self._perform(self._core.lost(connection))

    def connections(self) -> Iterator[Connection]:
        """Those over which somebody has attached."""
        return (each.link for each in self._core.aggregators)

    # Replicas

    def place(self, message: Join) -> Address | Unavailable | None:
        """Where a replica is to go instead of joining here; `Unavailable` while that is not known yet."""
        return self._core.place(message.shard, message.via, message.suspects, monotonic_s())

    def joined(self, message: Join) -> None:
        """A replica has joined."""
        self._core.joined((message.shard, message.replica), message.via, message.suspects, monotonic_s())

    def status(self) -> list[dict[str, Any]]:
        carried: dict[int | None, int] = {}
        for key in self._streams.replicas():
            via = self._core.via(key)
            carried[via] = carried.get(via, 0) + 1
        return [
            {
                "aggregator": each.number,
                "address": str(each.address),
                "level": each.level,
                "direct": each.is_direct,
                "replicas": carried.get(each.number, 0),
            }
            for each in sorted(self._core.aggregators, key=lambda each: each.number)
        ]

    # Parts

    def _repair(self) -> None:
        self._timer = None
        self._perform(self._core.repair(self._streams.replicas(), monotonic_s()))

    def _perform(self, effects: list[ReportingEffect]) -> None:
        for effect in effects:
            match effect:
                case MoveReplica(shard, replica, to):
                    self._streams.dismiss(shard, replica, to)
                case MoveAggregator(link, to):
                    assert isinstance(link, Connection)
                    link.send(Assigned(to))
                case RepairIn(seconds):
                    self._plan(seconds)
                case Gone(number, address):
                    _log.info("aggregator %d at %s is gone", number, address)

    def _plan(self, delay_s: float) -> None:
        """Repair then, unless that is planned for an earlier time."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._repair)
