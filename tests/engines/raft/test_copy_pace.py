"""Who copies from a leader is held back while others append, and only then."""

import asyncio

import msgspec
from tests.raft.cluster import SETTINGS, Cluster

from ithaca.engines.raft.server.copying import CopyPace
from ithaca.model.limits import MIB
from ithaca.raft.events import Propose
from ithaca.raft.limits import RAFT_CATCH_UP_IDLE_MS
from ithaca.raft.messages import Entry


def weigh(entry: Entry) -> int:
    return MIB


async def test_a_copy_gets_what_is_committed_and_a_share_of_that() -> None:
    cluster = Cluster(1, 2, 3, settings=msgspec.structs.replace(SETTINGS, paces=True, weigh=weigh))
    cluster.elect(1)
    leads = True
    pace = CopyPace(lambda: cluster.cores[1].leadership if leads else None)

    async def goes_on(size: int) -> bool:
        try:
            async with asyncio.timeout(0.02):
                await pace.wait(size)
        except TimeoutError:
            return False
        return True

    assert not await goes_on(MIB), "something was committed a moment ago, and nothing since it asked"
    cluster.step(1, Propose(1, (b"x",)))
    cluster.settle()
    assert await goes_on(4 * MIB)
    assert not await goes_on(MIB)
    leads = False
    assert await goes_on(MIB), "only a leader has appends to think of"
    leads = True
    for _ in range(1 + RAFT_CATCH_UP_IDLE_MS // SETTINGS.heartbeat_ms):
        cluster.tick(1, SETTINGS.heartbeat_ms)
        cluster.settle()
    assert await goes_on(64 * MIB), "nobody appends"
