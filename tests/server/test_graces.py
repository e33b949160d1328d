"""A shard's grace ends by the order's time, whatever becomes of the orderers and their clocks meanwhile."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tests.server import orderers as running
from tests.server.orderers import Orderers, ask, cluster_file, orderers, propose, view

from ithaca.engines.belfast.server.orderer.server import SlotOrdererServer
from ithaca.engines.scalog.messages.order import GetTail, TailReply
from ithaca.engines.scalog.ordering.entries import Finalize
from ithaca.engines.scalog.server.orderer import time
from ithaca.engines.scalog.server.orderer.server import OrdererServer
from ithaca.model.engine import EngineName
from ithaca.protocol.greeting import Hello
from ithaca.runtime.machine import wall_us

YEAR_US = 365 * 24 * 3600 * 1_000_000
MINUTE_US = 60 * 1_000_000


async def time_us(group: Orderers) -> int:
    """The order's time, as a client is told it."""
    return (await ask(group.address(await group.leader()), GetTail(), TailReply)).time_us


@pytest.mark.parametrize(("engine", "server"), [("scalog", OrdererServer), ("belfast", SlotOrdererServer)])
async def test_a_grace_has_the_time_that_it_counts_from_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineName, server: type[OrdererServer]
) -> None:
    """Nothing was ordered before, and all orderers start again with clocks that are set back by a year: the grace must
    not last that much longer."""
    monkeypatch.setattr(running, "OrdererServer", server)
    monkeypatch.setattr(running, "Hello", partial(Hello, engine=engine))
    file = replace(cluster_file(orderers=1, shards=2, replicas=1), engine=engine)
    async with orderers(file, tmp_path) as group:
        told_us = await time_us(group)
        await propose(group.address(1), Finalize(1, until_us=told_us + MINUTE_US))
        await group.stop()
        monkeypatch.setattr(time, "wall_us", lambda: wall_us() - YEAR_US)
        await group.start()
        again_us = await time_us(group)
        assert told_us <= again_us < told_us + MINUTE_US
        shards = (await view(group.address(1))).view.shards
        assert [shard.phase for shard in shards] == ["live", "finalizing"]
