"""A range read as tasks of Spark read it: in chunks, from a replica's files where they can be reached."""

import asyncio
from random import Random

from ithaca.client.deadline import Deadline
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.engines.scalog.client.read.scan import AsyncScan
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Record
from ithaca.sim.scanning import CHUNK_BYTES, limit_looks, records_of
from ithaca.sim.world import World


async def scan(world: World, random: Random, log: ClusterLog) -> None:
    """A range in chunks, of all shards or of one after the other, from files where they can be read."""
    recorder, context = world.recorder, _context(log)
    start, tail = await recorder.first(log.first()), await recorder.tail(log.tail())
    stop, chunk_bytes = random.randint(start, tail), random.choice(CHUNK_BYTES)
    some: list[frozenset[int] | None] = [None]
    if random.random() < 0.5:
        view = await context.order.fresh_view(Deadline(context.timeout_s))
        some = [frozenset((shard.shard,)) for shard in view.shards]
    inv, is_local = recorder.now_ns(), random.random() < 0.8
    found: list[Record] = []
    for shards in some:
        limit_looks(world.configuration, start, stop)
        scan = AsyncScan(context, start, stop, shards=shards, chunk_bytes=chunk_bytes)
        try:
            await scan.begin(local=is_local)
            world.count("scan of files" if scan.is_local else "scan of streams")
            while chunk := scan.read_local() or await scan.next():
                found += [record for stretch in chunk for record in records_of(stretch)]
                await asyncio.sleep(random.choice((0, 0.01)))
        finally:
            await scan.close()
    recorder.ranged(inv, start, stop, None, sorted(found, key=lambda record: record.position))


def _context(log: ClusterLog) -> Context:
    assert isinstance(log, AsyncClusterLog)
    return log._context
