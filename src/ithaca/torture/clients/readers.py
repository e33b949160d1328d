"""Clients that read: they follow the log, whole or by a key, look at single positions, and ask for the tail."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random

from msgspec import UNSET

from ithaca.model.errors import EmptyPosition, IthacaError, NotWritten, Trimmed
from ithaca.model.interface.awaited import ClusterLog, Subscription
from ithaca.model.records import KeyFilter, Start
from ithaca.proof.history import Deliver, First, Mark, Read, Sub, Tail
from ithaca.torture.clients.batches import KEYS
from ithaca.torture.clients.client import RETRY_S, Client, passes
from ithaca.torture.sightings import range_of, seen

POLL_S = 0.25
SUBSCRIPTIONS = 1_000_000
"""Numbers of subscriptions that each client has for itself."""
LATEST_S = 8.0
"""A subscription to what comes next is made again after so long."""
PROBE_S = 0.01
"""Between two looks at single positions."""
RANGE = 0.05
"""How often a look at single positions is followed by one at a range, and by one at what came from some time on."""
RANGE_MAX = 2000
"""Records of such a range, at most."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def follow(client: Client) -> None:
    """See every record from the first on."""
    log = await client.connected()
    await _follow(client, log, count(client.errand.number * SUBSCRIPTIONS), 1, None)
    await log.close()


async def follow_parts(client: Client) -> None:
    """See every record of one key, and beside that what comes next, again and again."""
    log = await client.connected()
    numbers = count(client.errand.number * SUBSCRIPTIONS)
    key = Random(f"follower {client.errand.seed}").choice(KEYS)
    async with asyncio.TaskGroup() as both:
        both.create_task(_follow(client, log, numbers, 1, key))
        both.create_task(_follow_latest(client, log, numbers))
    await log.close()


async def probe(client: Client) -> None:
    """Ask for both ends, and read single positions: any of those that are there, and those just before and behind it.

    Now and then it reads a range, and what came from some time on.
    """
    log = await client.connected()
    chance = Random(f"prober {client.errand.seed}")
    begun_us = time.time_ns() // 1000
    numbers = count(client.errand.number * SUBSCRIPTIONS)
    while not client.is_finishing:
        try:
            tail = await _ask_tail(client, log)
            for position in (chance.randrange(1, tail + 1), tail - 1, tail, tail + 1):
                if position > 0:
                    await _read(client, log, position)
            if chance.random() < RANGE:
                await _read_range(client, log, chance, tail)
                await _begin_at_time(client, log, next(numbers), chance.randrange(begun_us, time.time_ns() // 1000))
        except IthacaError as error:
            if not passes(error):
                raise
            await asyncio.sleep(RETRY_S)
        await asyncio.sleep(PROBE_S)
    await log.close()


async def _ask_tail(client: Client, log: ClusterLog) -> int:
    invoked = time.monotonic_ns()
    tail = await log.tail()
    client.history.write(Tail(invoked, time.monotonic_ns(), tail))
    return tail


async def _read_range(client: Client, log: ClusterLog, chance: Random, tail: int) -> None:
    """Some positions, with a filter or without. What was trimmed meanwhile is told to whoever asks next."""
    invoked = time.monotonic_ns()
    first = await log.first()
    client.history.write(First(invoked, time.monotonic_ns(), first))
    start = chance.randrange(first, max(first, tail) + 1)
    stop = min(tail, start + chance.randrange(RANGE_MAX))
    key = chance.choice((None, *KEYS))
    where = None if key is None else KeyFilter.equals(key.encode())
    invoked = time.monotonic_ns()
    try:
        async with log.read_range(start, stop, where=where) as records:
            found = [seen(record) async for record in records]
    except Trimmed:
        return
    if start < stop:
        client.history.write(range_of(invoked, start, stop, None if key is None else f"key={key}", found))


async def _begin_at_time(client: Client, log: ClusterLog, number: int, at_us: int) -> None:
    invoked = time.monotonic_ns()
    try:
        async with log.subscribe(EPOCH + timedelta(microseconds=at_us)) as subscription:
            client.history.write(Sub(number, subscription.position, None, invoked, time.monotonic_ns(), at_us))
            await _deliver(client, subscription, number)
    except Trimmed:
        return


async def _read(client: Client, log: ClusterLog, position: int) -> None:
    invoked = time.monotonic_ns()
    try:
        record = await log.read(position)
    except NotWritten:
        client.history.write(Read(position, invoked, time.monotonic_ns(), None))
    except Trimmed:
        client.history.write(Read(position, invoked, time.monotonic_ns(), "trimmed"))
    except EmptyPosition:
        client.history.write(Read(position, invoked, time.monotonic_ns(), "empty"))
    else:
        assert record.position == position, f"position {record.position} was read instead of {position}"
        _, found, key, time_us, shard = seen(record)
        client.history.write(Read(position, invoked, time.monotonic_ns(), found, key, time_us, shard))
        client.count(1)


async def _follow(
    client: Client, log: ClusterLog, numbers: "count[int]", start: Start, key: str | None, seconds: float | None = None
) -> None:
    """Subscribe, and again from where it was whenever that ends, until everything is seen or the time is over."""
    deadline = None if seconds is None else time.monotonic() + seconds
    where = None if key is None else KeyFilter.equals(key.encode())
    while True:
        invoked, subscription = time.monotonic_ns(), log.subscribe(start, where=where)
        try:
            async with subscription:
                number, start = next(numbers), subscription.position
                text = None if key is None else f"key={key}"
                client.history.write(Sub(number, start, text, invoked, time.monotonic_ns(), UNSET))
                while not _is_done(client, subscription, deadline):
                    await _deliver(client, subscription, number)
                    start = subscription.position
                return
        except IthacaError as error:
            if not passes(error):
                raise
        await asyncio.sleep(RETRY_S)


def _is_done(client: Client, subscription: Subscription, deadline: float | None) -> bool:
    if deadline is not None and (client.is_finishing or time.monotonic() > deadline):
        return True
    return client.finish is not None and subscription.position >= client.finish.tail


async def _deliver(client: Client, subscription: Subscription, number: int) -> None:
    records = await subscription.poll(POLL_S)
    returned = time.monotonic_ns()
    for record in records:
        client.history.write(Deliver(number, returned, *seen(record)))
    client.history.write(Mark(number, returned, subscription.position))
    client.count(len(records))


async def _follow_latest(client: Client, log: ClusterLog, numbers: "count[int]") -> None:
    while not client.is_finishing:
        await _follow(client, log, numbers, "latest", None, LATEST_S)
