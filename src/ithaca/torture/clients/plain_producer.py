"""A producer without a session that the caller sees: it appends, with little patience, and repeats nothing.

Its records have numbers all the same. A worker appends one batch at a time, so their order is that of their numbers;
after an append whose outcome is unknown, and which may yet be ordered, it goes on under another session's number.

Its calls are in a file of their own: in its history they would say that an append which failed may have happened.
"""

import asyncio
import time
from contextlib import suppress
from itertools import count

from ithaca.model.errors import IthacaError, Unsupported
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Receipt
from ithaca.proof.history import HistoryWriter
from ithaca.torture.clients.batches import Batch, Pace, batch_of
from ithaca.torture.clients.client import RETRY_S, Client, passes

TIMEOUT_S = 4.0
WORKERS = 3
SESSIONS = 1_000_000
"""Numbers of sessions that each producer, and each thousandth that each of its workers, has for itself."""


async def produce(client: Client) -> None:
    """Append until told to finish."""
    log = await client.connected()
    with suppress(Unsupported):
        log.set_shard_policy("round_robin")
    with HistoryWriter(client.errand.calls()) as calls:
        async with asyncio.TaskGroup() as workers:
            for number in range(WORKERS):
                workers.create_task(_work(client, log, number, calls))
    await log.close()


async def _work(client: Client, log: ClusterLog, worker: int, calls: HistoryWriter) -> None:
    errand = client.errand
    pace = Pace(errand.rate / WORKERS)
    sessions = count(errand.number * SESSIONS + worker * (SESSIONS // 1000))
    session, number = next(sessions), 1
    while not client.is_finishing:
        await pace.next(batch_of(errand.seed, session, number, 0).count)
        batch = batch_of(errand.seed, session, number, time.monotonic_ns())
        calls.write(batch.event("info"))
        calls.flush()
        try:
            receipt = await _appended(log, batch)
        except IthacaError as error:
            if not passes(error):
                raise
            if error.outcome_unknown:
                client.history.write(batch.event("info"))
                session, number = next(sessions), 1
                continue
            client.history.write(batch.event("fail"))
            await asyncio.sleep(RETRY_S)
        else:
            client.history.write(batch.event("ok", receipt))
            client.count(batch.count)
        number += batch.count


async def _appended(log: ClusterLog, batch: Batch) -> Receipt:
    if batch.count > 1:
        return await log.append_many(batch.values(), keys=batch.keys(), timeout=TIMEOUT_S)
    key = None if batch.key is None else batch.key.encode()
    return await log.append(batch.values()[0], key=key, timeout=TIMEOUT_S)
