"""Links: answers go to whoever waits for them, and to nobody who has left."""

import asyncio

from ithaca.engines.scalog.client.links import Link, Links
from ithaca.engines.scalog.messages.appending import Acks, Append
from ithaca.model.errors import IthacaError
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.greeting import VERSION_MAX, VERSION_MIN, Hello, Welcome
from ithaca.runtime.connection import Connection
from ithaca.runtime.listener import listen
from ithaca.wire.build import build

LANE = LaneId(0, 0, 1)


class LateReplica:
    """Answers nothing before there are two appends, then both."""

    def __init__(self) -> None:
        self._asked: list[int] = []

    def on_message(self, connection: Connection, received: Received) -> None:
        assert isinstance(received.message, Append)
        self._asked.append(received.correlation)
        if len(self._asked) == 2:
            connection.send(Acks(tuple((number, 7) for number in self._asked)))

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        pass


class Waiting:
    def __init__(self) -> None:
        self.answered = asyncio.Event()

    def acknowledged(self, correlation: int, position: int) -> None:
        self.answered.set()

    def refused(self, correlation: int, error: IthacaError) -> None:
        raise AssertionError(error)

    def lost(self, link: Link) -> None:
        pass


async def test_an_answer_that_comes_late_is_not_for_one_who_has_left() -> None:
    listener = await listen(
        Address("127.0.0.1", 0),
        accept=lambda *_: LateReplica(),
        welcome=lambda: Welcome(VERSION_MAX, "replica"),
        http=lambda path: None,
    )
    link, left, stayed = Link(listener.address, Links()), Waiting(), Waiting()
    try:
        await link.open(Hello(VERSION_MIN, VERSION_MAX, "client"), 5)
        batch = build([b"x"], None, timestamp_us=1)
        link.use(left)
        link.append(LANE, batch, left)
        link.leave(left)  # and another link may give it the same number
        link.append(LANE, batch, stayed)
        async with asyncio.timeout(20):
            await stayed.answered.wait()
        assert not left.answered.is_set()
    finally:
        link.close()
        await listener.close()
