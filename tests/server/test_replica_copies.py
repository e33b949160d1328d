"""Pulling lanes from peers: who is asked, how often, and when nobody is said to have more."""

import asyncio

from ithaca.cluster.ports import LOOPBACK, free_ports
from ithaca.engines.scalog.server.replica.copies import ASKED_EACH, Copies, Wanted
from ithaca.model.cut import LaneRun
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.greeting import Hello
from ithaca.wire.batch import Batch

LANE = LaneId(0, 1, 1)


class Gathering:
    """A taker that has nothing, and gives up when it is told that nobody has."""

    def __init__(self) -> None:
        self.asked = 0
        self.length = 0
        self.told = asyncio.Event()

    def received(self, lane: LaneId) -> int:
        assert lane == LANE
        return self.length

    def replicated(self, lane: LaneId, batch: Batch, position: int) -> None:
        raise AssertionError("there is nobody who could send anything")

    def queued_bytes(self, lane: LaneId) -> int:
        return 0

    def nobody_has(self, lane: LaneId) -> None:
        assert lane == LANE
        self.length = 4
        self.told.set()

    def runs_fetched(self, lane: LaneId, runs: list[tuple[LaneRun, int]]) -> None:
        raise AssertionError("there is nobody who could send anything")

    def hello(self) -> Hello:
        self.asked += 1
        return Hello(1, 1, "replica", "0/0")


def test_nobody_is_said_to_have_more_when_each_was_asked_some_times() -> None:
    async def scenario() -> None:
        taker = Gathering()
        copies = Copies(taker, taker.hello)
        peers = tuple(Address(LOOPBACK, port) for port in free_ports(1))
        copies.pull(Wanted(LANE, peers, stop=4))
        await asyncio.wait_for(taker.told.wait(), 60)
        assert taker.asked == ASKED_EACH * len(peers)
        await copies.close()

    asyncio.run(scenario())
