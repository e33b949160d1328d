"""The publisher of a run: what it writes down is what is in the log."""

import asyncio
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import ithaca.aio
from ithaca.proof.history import Publish, read_history
from ithaca.proof.payload import decode
from ithaca.testing import Cluster
from ithaca.torture.clients.client import Client, Errand, Finish
from ithaca.torture.clients.publisher import publish


async def test_publications_are_whole_and_in_the_history(tmp_path: Path) -> None:
    ours, theirs = Pipe()
    with Cluster(shards=2, replicas=1, durability="os") as cluster, closing(ours), closing(theirs):
        errand = Errand("publisher-1", 3, 0, cluster.bootstrap, tmp_path, 42, 100_000.0)
        client = Client(theirs, errand)
        publishing = asyncio.create_task(publish(client))
        while client.records < 500:
            assert not publishing.done()
            await asyncio.sleep(0.01)
        client.finish = Finish()
        await publishing
        client.close()
        async with ithaca.aio.connect(cluster.bootstrap) as log, log.read_range(1) as records:
            found = [decode(record.value) async for record in records]
    events = list(read_history(errand.history()))
    said: list[tuple[int, int]] = []
    for event in events:
        assert isinstance(event, Publish)
        assert event.st == "ok"
        assert event.pos == len(said) + 1
        said += [(session, first + row) for session, first, count in event.parts for row in range(count)]
    assert found == said
    assert len(found) == client.records
