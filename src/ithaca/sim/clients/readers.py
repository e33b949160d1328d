"""The readers of a simulated cluster: whatever a handle can read, in a process of its own, and what it was told."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from ithaca.model.errors import EmptyPosition, IthacaError, Lost, NotWritten, PositionError, Trimmed
from ithaca.model.interface.awaited import ClusterLog, Records, Subscription
from ithaca.model.records import HASH_SPACE, KeyFilter, Record
from ithaca.sim.clients.connecting import AGAIN_S, connected
from ithaca.sim.clients.producers import KEYS
from ithaca.sim.process import Process
from ithaca.sim.violation import Violation
from ithaca.wire.keys import hash_key

if TYPE_CHECKING:
    from ithaca.sim.world import World

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PREFIXES = (b"bl", b"b", b"r", b"no such key")


class Reader:
    """Subscribes, with filters and without, reads ranges and single records, asks for both ends, and trims."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"reader-{number}"
        self._world = world
        self._reached = [0, 0]
        """All positions below have been passed by its subscriptions from the beginning: the plain, the filtered one."""

    @property
    def has_all(self) -> bool:
        """Whether both subscriptions have passed everything that was acknowledged."""
        return min(self._reached) > self._world.recorder.last_position

    async def main(self, who: Process, random: Random) -> None:
        """One life of it."""
        self._reached = [0, 0]
        log = await self._connected()
        tasks = [
            self._follow(random, log, is_filtered=False),
            self._follow(random, log, is_filtered=True),
            self._look(random),
            self._read_ranges(random, log),
        ]
        if self._world.configuration.trims:
            tasks.append(self._trim(random, log))
        await asyncio.gather(*tasks)

    async def _connected(self) -> ClusterLog:
        rights = ("read", "trim") if self._world.configuration.trims else ("read",)
        return await connected(self._world, program=self.name, rights=rights)

    async def _follow(self, random: Random, log: ClusterLog, *, is_filtered: bool) -> None:
        recorder = self._world.recorder
        while True:
            try:
                where = drawn_filter(random) if is_filtered else None
                start, inv = await recorder.first(log.first()), recorder.now_ns()
                async with log.subscribe(start, where=where) as subscription:
                    number = recorder.subscribed(start, text_of(where), inv)
                    while True:
                        recorder.delivered(number, await self._polled(random, subscription))
                        recorder.marked(number, subscription.position)
                        self._reached[is_filtered] = max(self._reached[is_filtered], subscription.position)
                        if random.random() < 0.02 and not self._world.is_healing:
                            break  # and begins again; once all is mended, it must get on by itself
            except IthacaError as error:
                self._world.met(error, "subscribe")
                await asyncio.sleep(AGAIN_S)

    async def _polled(self, random: Random, subscription: Subscription) -> list[Record]:
        """What comes next. Now and then it loses its patience, and must not lose a record with it."""
        count = random.randint(1, 200)
        if random.random() >= 0.1:
            return await subscription.poll(timeout=1, max_records=count)
        polling = asyncio.ensure_future(subscription.poll(timeout=1, max_records=count))
        await asyncio.wait([polling], timeout=random.choice((0, 0.001, 0.05)))
        polling.cancel()
        await asyncio.wait([polling])
        if polling.cancelled():
            self._world.count("poll cancelled")
            return []
        return polling.result()

    async def _look(self, random: Random) -> None:
        """With a handle of its own, to which nobody says what was trimmed, and which shards have come."""
        recorder, log = self._world.recorder, await self._connected()
        while True:
            await asyncio.sleep(random.uniform(0, 0.5))
            try:
                if random.random() < 0.15:
                    await self._begin_at_time(random, log)
                    continue
                tail = await recorder.tail(log.tail())
                trimmed = recorder.trimmed - 1  # which may still be there, and must not be seen
                position = random.choice((tail, tail - 1, tail + 1, random.randint(1, tail), trimmed))
                await self._read(log, max(1, position), random.choice((0, 0, 0.05, 2)))
            except IthacaError as error:
                self._world.met(error, "read")

    async def _read(self, log: ClusterLog, position: int, wait_s: float) -> None:
        recorder, inv = self._world.recorder, self._world.recorder.now_ns()
        try:
            record = await log.read(position, wait=wait_s)
        except NotWritten:
            waited_s = (recorder.now_ns() - inv) / 1e9
            assert waited_s > wait_s * 0.9, f"position {position} was to be waited for {wait_s} s, not {waited_s} s"
            recorder.read(inv, position, None)
        except Trimmed as error:
            if position >= error.first:
                raise AssertionError(f"position {position} is said to be trimmed before {error.first}") from error
            recorder.read(inv, position, "trimmed")
        except Lost:
            recorder.read(inv, position, "lost")
        except EmptyPosition as error:
            if 0 < error.next <= position:
                raise AssertionError(f"behind position {position} the next is said to be {error.next}") from error
            recorder.read(inv, position, "empty")
        except PositionError as error:
            raise AssertionError(f"position {position} is neither there, nor trimmed, nor still to come") from error
        else:
            assert record.position == position, f"position {record.position} was read instead of {position}"
            recorder.read(inv, position, record)

    async def _read_ranges(self, random: Random, log: ClusterLog) -> None:
        while True:
            await asyncio.sleep(random.uniform(0, 2))
            try:
                await (self._world.simulation.scan if random.random() < 0.3 else self._read_range)(random, log)
            except IthacaError as error:
                self._world.met(error, "read a range")

    async def _read_range(self, random: Random, log: ClusterLog) -> None:
        """To some position below the tail, or to the tail, whatever that is by then."""
        recorder = self._world.recorder
        start, tail = await recorder.first(log.first()), await recorder.tail(log.tail())
        await self._read_between(random, log, start, None if random.random() < 0.3 else random.randint(start, tail))

    async def _read_between(self, random: Random, log: ClusterLog, start: int, stop: int | None) -> None:
        """With a filter or without; to the tail of then, unless a stop is given."""
        recorder = self._world.recorder
        where = drawn_filter(random) if random.random() < 0.5 else None
        inv = recorder.now_ns()
        async with log.read_range(start, stop, where=where) as records:
            found = await _all(records, by_batch=random.random() < 0.5)
            reached = records.position
        if stop is None:
            recorder.tail_seen(inv, reached)
        recorder.ranged(inv, start, reached if stop is None else stop, text_of(where), found)
        assert stop is None or reached == stop, f"a range to {stop} ended at {reached}"

    async def _begin_at_time(self, random: Random, log: ClusterLog) -> None:
        """Subscribe from some time on: around the times that the order has had so far, whatever clocks say."""
        ordered = self._world.ordered
        if ordered.bounds_us is None:
            return
        low, high = ordered.bounds_us
        at_us = random.choice((low, high, high + 1, random.randint(low, high), random.randint(low, high)))
        await self._begin_at(random, log, at_us)

    async def _begin_at(self, random: Random, log: ClusterLog, at_us: int) -> None:
        recorder, ordered = self._world.recorder, self._world.ordered
        inv, tail = recorder.now_ns(), ordered.tail
        async with log.subscribe(_EPOCH + timedelta(microseconds=at_us)) as subscription:
            start = subscription.position
            number = recorder.subscribed(start, None, inv, at_us)
            if (problem := ordered.problem(at_us, start, tail, recorder.trimmed)) is not None:
                raise Violation("by-time", problem)
            recorder.delivered(number, await subscription.poll(timeout=0.5, max_records=random.randint(1, 20)))
            recorder.marked(number, subscription.position)

    async def _trim(self, random: Random, log: ClusterLog) -> None:
        recorder = self._world.recorder
        while True:
            await asyncio.sleep(random.uniform(0.2, 4))
            if not self._world.is_loaded:
                return
            try:
                first, tail = await recorder.first(log.first()), await recorder.tail(log.tail())
                drawn = random.randint(first, max(first, (first + tail) // 2))
                before = max(first, self._world.simulation.trim_point(drawn))
                await recorder.trim(before, partial(log.trim, before), partial(trim_is_seen, self._world, before))
                await self._read(log, random.randint(1, before), 0)
            except IthacaError as error:
                self._world.met(error, "trim")


def trim_is_seen(world: "World", before: int) -> bool:
    """Whether every replica that runs knows of a trim that has returned."""
    return all(world.simulation.knows_trim(host, before) for host in world.replicas() if host.is_up)


def drawn_filter(random: Random) -> KeyFilter:
    """By keys that producers use, and others."""
    kind = random.choice(("key", "prefix", "hash"))
    if kind == "key":
        return KeyFilter.equals(random.choice(KEYS))
    if kind == "prefix":
        return KeyFilter.prefix(random.choice(_PREFIXES))
    hashes = [hash_key(key) for key in KEYS]
    edges = (0, HASH_SPACE, random.randrange(HASH_SPACE), random.choice(hashes), random.choice(hashes) + 1)
    return KeyFilter.hash_range(*sorted(random.choice(edges) for _ in range(2)))


def text_of(where: KeyFilter | None) -> str | None:
    """A filter as histories have it."""
    if where is None:
        return None
    if where.kind == "hash":
        return f"hash={where.low}:{where.high}"
    return f"{'key' if where.kind == 'equals' else 'prefix'}={where.key.decode()}"


async def _all(records: Records, *, by_batch: bool) -> list[Record]:
    if by_batch:
        return [record async for batch in records.batches() for record in batch.records()]
    return [record async for record in records]
