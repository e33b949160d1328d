"""Aggregators and replicas that nobody answers: they look for another, and stay where they are until one answers."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.server.above import Above
from tests.server.orderers import (
    free_addresses,
    until,
)

from ithaca.engines.scalog.messages.aggregation import Assigned
from ithaca.engines.scalog.messages.reporting import Join, Joined
from ithaca.engines.scalog.server import watch
from ithaca.engines.scalog.server.replica.order import OrderLink
from ithaca.model.errors import IthacaError, NoSuchReplica
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import listen

# Silence


class Nobody:
    """Accepts connections, and never says a word."""

    def __init__(self) -> None:
        self.joins = 0

    def on_message(self, connection: Connection, received: Received) -> None:
        self.joins += isinstance(received.message, Join)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass


class Ignoring:
    """A follower to whom nothing happens."""

    def __init__(self) -> None:
        self.joined = 0

    def order_joined(self, joined: Joined) -> None:
        self.joined += 1

    def order_knows(self, boot: int) -> None: ...

    def order_gone(self, error: object) -> None: ...

    def order_removed(self, error: NoSuchReplica) -> None: ...

    def order_closed(self) -> int | None:
        return None

    def order_news(self, items: Sequence[object]) -> None: ...

    def order_lost(self) -> None: ...

    def is_complete(self) -> bool:
        return True


async def test_whoever_does_not_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ORDER_PROBE_S", "ORDER_SILENT_S"):
        monkeypatch.setattr(watch, name, 0.05)
    nobody = Nobody()
    listener = await listen(
        Address("127.0.0.1", 0),
        accept=lambda connection, hello: nobody,
        welcome=lambda: Welcome(VERSION_MAX, "orderer", "1"),
        http=lambda path: None,
    )
    hello = Hello(VERSION_MIN, VERSION_MAX, "replica", "0/0")
    link = OrderLink((listener.address,), Join(0, 0, 1), lambda: hello, Ignoring(), 60.0)
    task = asyncio.create_task(link.run())
    try:
        await until(lambda: nobody.joins >= 3)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await listener.close()


async def test_who_is_told_to_move_stays_unless_somebody_answers_there() -> None:
    above = Above()
    listener, other = await above.listen(Address("127.0.0.1", 0)), await above.listen(Address("127.0.0.1", 0))
    nowhere = free_addresses(1)[0]
    follower = Ignoring()
    hello = Hello(VERSION_MIN, VERSION_MAX, "replica", "0/0")
    link = OrderLink((listener.address,), Join(0, 0, 1), lambda: hello, follower, 60.0)
    task = asyncio.create_task(link.run())
    try:
        connection, request = await above.next_from(Join)
        connection.answer(request, above.joined)
        await until(lambda: follower.joined == 1)
        connection.send(Assigned(nowhere))
        moving = asyncio.create_task(above.next_from(Join))
        while not moving.done():  # what is told during an attempt is not heeded
            connection.send(Assigned(other.address))
            await asyncio.wait({moving}, timeout=0.01)
        second, request = moving.result()
        assert (listener.connection_count, other.connection_count) == (0, 1)
        assert request.message == Join(0, 0, 1, takes_pieces=True), "it suspects nobody"
        second.answer(request, above.joined)
        await until(lambda: follower.joined == 2)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await listener.close()
        await other.close()
