"""The leader's side of aggregators: who is there, who reports through whom, and how that is put right.

All of it is soft state. An aggregator is there for as long as its connection, or that of the one above it. A replica
that comes to the leader is sent to the aggregator that `engines.scalog.ordering.assignment` chooses for its shard; one
that says that it suspects that one gets another, or stays. When aggregators have come, replicas that were placed
without them are told to move, a few at a time.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ithaca.engines.scalog.messages.aggregation import Assigned, Attach, Detach, Suspects
from ithaca.engines.scalog.messages.reporting import Join
from ithaca.engines.scalog.ordering.assignment import chosen
from ithaca.engines.scalog.server.orderer.streams import NewsStreams
from ithaca.model.errors import Unavailable
from ithaca.model.limits import AGGREGATORS_AWAITED_S, MOVES_PAUSE_S, MOVES_TOGETHER, SUSPECT_S
from ithaca.model.view import Address
from ithaca.runtime.connection import Connection
from ithaca.runtime.machine import monotonic_s

_log = logging.getLogger("ithaca.orderer")

LEAF_LEVEL = 1
"""Of the aggregators that replicas report to."""


@dataclass(frozen=True, slots=True)
class _Aggregator:
    number: int
    address: Address
    level: int
    connection: Connection
    """Its own, or that of the aggregator above it."""
    suspects: Suspects
    since_s: float

    @property
    def is_direct(self) -> bool:
        hello = self.connection.hello
        return hello is not None and hello.name == str(self.number)


@dataclass(frozen=True, slots=True)
class _Joined:
    """How a replica has come."""

    via: int
    suspects: Suspects
    since_s: float


class Aggregators:
    """The aggregators that have attached to this leader."""

    def __init__(self, streams: NewsStreams, *, are_expected: bool) -> None:
        """`are_expected`: the cluster's file has some, so that a new leader gives them time to find it."""
        self._streams = streams
        self._are_expected = are_expected
        self._attached: dict[int, _Aggregator] = {}
        self._joined: dict[tuple[int, int], _Joined] = {}
        self._moves: deque[tuple[int, int]] = deque()
        """Replicas that are not where they should be."""
        self._has_changed = False
        self._timer: asyncio.TimerHandle | None = None
        self._leads_since_s = 0.0

    # One term

    def begin(self) -> None:
        """This server leads now, and nobody has attached to it."""
        self._leads_since_s = monotonic_s()

    def end(self) -> None:
        """This server leads no more: whoever has attached must look for another leader."""
        attached, self._attached = self._attached, {}
        self._joined.clear()
        self._moves.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for each in attached.values():
            each.connection.close()

    # Aggregators

    def attach(self, connection: Connection, message: Attach) -> Address | None:
        """Take an aggregator; or say through which other one it is to come."""
        hello = connection.hello
        if hello is not None and hello.name == str(message.aggregator):  # it came to the leader itself
            parent = self._choose(message.aggregator, message.level + 1, message.suspects)
            if parent is not None:
                return parent.address
        known = self._attached.get(message.aggregator)
        self._attached[message.aggregator] = _Aggregator(
            message.aggregator, message.address, message.level, connection, message.suspects, monotonic_s()
        )
        if known is None or known.address != message.address:
            _log.info("aggregator %d at %s has attached", message.aggregator, message.address)
        self._changed()
        return None

    def detach(self, connection: Connection, message: Detach) -> None:
        known = self._attached.get(message.aggregator)
        if known is not None and known.connection is connection:
            self._drop(known)

    def lost(self, connection: Connection) -> None:
        """A connection has ended: whoever attached over it is gone."""
        for each in [each for each in self._attached.values() if each.connection is connection]:
            self._drop(each)

    def connections(self) -> Iterator[Connection]:
        """Those over which somebody has attached."""
        return (each.connection for each in self._attached.values())

    def _drop(self, aggregator: _Aggregator) -> None:
        _log.info("aggregator %d at %s is gone", aggregator.number, aggregator.address)
        del self._attached[aggregator.number]
        self._changed()

    # Replicas

    def place(self, message: Join) -> Address | None:
        """Where a replica is to go instead of joining here; `Unavailable` while that is not known yet."""
        if message.via:
            return None
        found = self._choose(message.shard, LEAF_LEVEL, message.suspects)
        if found is not None:
            return found.address
        if self._are_expected and not self._attached and monotonic_s() - self._leads_since_s < AGGREGATORS_AWAITED_S:
            raise Unavailable("a new leader leads, and the aggregators have not found it yet")
        return None

    def joined(self, message: Join) -> None:
        """A replica has joined."""
        self._joined[message.shard, message.replica] = _Joined(message.via, message.suspects, monotonic_s())

    # Putting right

    def _changed(self) -> None:
        self._has_changed = True
        self._plan(MOVES_PAUSE_S)

    def _repair(self) -> None:
        """Have some of those move that are not where they should be, and come back for the rest."""
        self._timer = None
        if self._has_changed or not self._moves:
            self._has_changed = False
            self._look()
        if self._move_aggregator():
            self._changed()
            return
        for _ in range(min(MOVES_TOGETHER, len(self._moves))):
            shard, replica = self._moves.popleft()
            to = self._better(shard, replica)
            if to is not None:
                self._streams.dismiss(shard, replica, to)
        if self._moves or self._attached:
            self._plan(MOVES_PAUSE_S if self._moves else SUSPECT_S)

    def _look(self) -> None:
        joined = set(self._streams.replicas())
        self._joined = {key: each for key, each in self._joined.items() if key in joined}
        self._moves = deque(key for key in self._joined if self._better(*key) is not None)

    def _better(self, shard: int, replica: int) -> Address | None:
        """The aggregator that a replica should go to and is not at."""
        known = self._joined.get((shard, replica))
        if known is None:
            return None
        found = self._choose(shard, LEAF_LEVEL, _fresh(known))
        return None if found is None or found.number == known.via else found.address

    def _move_aggregator(self) -> bool:
        """Send one aggregator to one of the level above; whoever is below it joins again."""
        for each in self._attached.values():
            parent = self._choose(each.number, each.level + 1, _fresh(each)) if each.is_direct else None
            if parent is not None:
                each.connection.send(Assigned(parent.address))
                return True
        return False

    # Parts

    def _choose(self, of: int, level: int, suspects: Suspects) -> _Aggregator | None:
        able = {each.number: each for each in self._attached.values() if each.level == level}
        number = chosen(of, [number for number, each in able.items() if each.address not in suspects])
        return None if number is None else able[number]

    def _plan(self, delay_s: float) -> None:
        """Repair then, unless that is planned for an earlier time."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay_s:
                return
            self._timer.cancel()
        self._timer = loop.call_later(delay_s, self._repair)

    def status(self) -> list[dict[str, Any]]:
        carried: dict[int, int] = {}
        for key in self._streams.replicas():
            if key in self._joined:
                via = self._joined[key].via
                carried[via] = carried.get(via, 0) + 1
        return [
            {
                "aggregator": each.number,
                "address": str(each.address),
                "level": each.level,
                "direct": each.is_direct,
                "replicas": carried.get(each.number, 0),
            }
            for each in sorted(self._attached.values(), key=lambda each: each.number)
        ]


def _fresh(known: _Aggregator | _Joined) -> Suspects:
    """Whom it still suspects."""
    return known.suspects if monotonic_s() - known.since_s < SUSPECT_S else ()
