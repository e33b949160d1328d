"""The handle that an engine gives: the public log of a cluster, and what programs of this package need besides.

An engine says how a batch is taken (`take_batch`), and how records are read; what follows from that
is here. An engine that reads by asking one server for the next records goes on with `fetched`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from ithaca.client.extents import Extent, counted_extents, dense_extents
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import RecordSlot, Slot, take_each
from ithaca.client.scan import AwaitedScan, RangeScan
from ithaca.client.settings import ClientSettings
from ithaca.model.engine import Feature
from ithaca.model.errors import ForkedHandle, IthacaError
from ithaca.model.interface import awaited
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import PART_TTL_S
from ithaca.model.records import Buffer, Compression, KeyFilter, Keys, Receipt, Values
from ithaca.model.units import Duration, optional_seconds
from ithaca.runtime.futures import FuturePending, Submitted, within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, checked_record


class BuiltPart(awaited.PartWriter, ABC):
    """A prepared part that takes batches which are built already."""

    @abstractmethod
    async def send(self, batch: Batch, timeout_s: float) -> None:
        """Send the next batch of the part; waits only while too much is under way."""


class EngineLog(awaited.ClusterLog, ABC):
    """A handle on a cluster. It belongs to the loop in which it was opened, and is its `intake.Intake`."""

    features: frozenset[Feature] = frozenset()
    """What its engine can do; `engines.connecting` says it to every handle."""

    def __init__(self, settings: ClientSettings, *, inflight_bytes_max: int | None = None) -> None:
        """`inflight_bytes_max`: that of the settings, unless the engine has another."""
        self._compression: Compression = settings.compression
        self.inflight = InflightBytes(inflight_bytes_max or settings.inflight_bytes_max, settings.timeout_s)
        """Whoever takes a batch adds its bytes, and settles them when its outcome is known."""
        self._loop = asyncio.get_running_loop()
        self._submitted = Submitted()
        self.bootstrap = "a cluster"
        """What it was connected to, for people."""

    def __repr__(self) -> str:
        try:
            self.check()
            state = "open"
        except IthacaError as error:
            state = "forked" if isinstance(error, ForkedHandle) else "closed"
        return f"<ithaca.aio.ClusterLog at {self.bootstrap}, {state}>"

    @abstractmethod
    def check(self) -> None:
        """Raise unless the handle can be used."""

    # What an intake has

    @abstractmethod
    def take_batch(self, batch: Batch, slot: Slot) -> None:
        """Append one atomic batch, which `wire.build.build` has made for no producer yet; never waits."""

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        """Append one record, which `wire.build.checked_record` has checked; never waits."""
        self.take_batch(build([value], [key], timestamp_us=wall_us(), compress=self._compression), slot)

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        """Append these one behind the other, each by itself; never waits. What goes wrong with one is its answer."""
        take_each(run, lambda each: self.take_record(each.value, each.key, each))

    # What tasks need that read or write a part of a table each

    async def scan(
        self,
        start: int,
        stop: int,
        *,
        where: KeyFilter | None = None,
        shards: frozenset[int] | None = None,
        chunk_bytes: int,
        local: bool = True,
    ) -> AwaitedScan:
        """The records of `[start, stop)`, all of which are ordered, in chunks; of these shards alone if some are named.

        `local`: whether files of servers may be read where they are on this machine.
        """
        return RangeScan(self.read_range(start, stop, where=where), start, shards, chunk_bytes)

    async def extents(
        self,
        start: int,
        stop: int,
        *,
        records_max: int,
        count_max: int | None = None,
        shards: frozenset[int] | None = None,
    ) -> list[Extent]:
        """`[start, stop)`, all of which is ordered, in stretches of at most so many records; the first ones if so.

        Of these shards alone if some are named. The same range gives the same stretches, as long as nothing is trimmed.
        An engine whose positions are not dense should have a quicker answer than this, which reads the records.
        """
        if Feature.DENSE in self.features:
            return dense_extents(start, stop, records_max, count_max)
        async with self.read_range(start, stop) as records:
            return await counted_extents(records.batches(), start, stop, records_max, count_max, shards)

    async def open_part(
        self, *, shard: int | None = None, ttl: Duration = PART_TTL_S, timeout: Duration | None = None
    ) -> BuiltPart:
        raise unsupported(Feature.PREPARED)

    # Appending

    async def append(self, value: Buffer, *, key: Buffer | None = None, timeout: Duration | None = None) -> Receipt:
        timeout_s = optional_seconds(timeout)
        future = await self._append(value, key)
        return await (future if timeout_s is None else within(future, timeout_s))

    async def append_many(
        self, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None
    ) -> Receipt:
        timeout_s = optional_seconds(timeout)
        future = await self._append_many(values, keys)
        return await (future if timeout_s is None else within(future, timeout_s))

    async def submit(self, value: Buffer, *, key: Buffer | None = None) -> FuturePending:
        return self._submitted.add(await self._append(value, key))

    async def submit_many(self, values: Values, *, keys: Keys | None = None) -> FuturePending:
        return self._submitted.add(await self._append_many(values, keys))

    async def flush(self, *, timeout: Duration | None = None) -> None:
        self.check()
        await self._submitted.flush(optional_seconds(timeout))

    async def wait_for_room(self) -> None:
        """Wait while too many bytes are in flight; `Overloaded` when that takes too long."""
        await self.inflight.wait_for_room()
        self.check()

    async def _append(self, value: Buffer, key: Buffer | None) -> "asyncio.Future[Receipt]":
        self.check()
        plain, plain_key = checked_record(value, key)
        if self.inflight.is_full:
            await self.wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.take_record(plain, plain_key, future)
        return future

    async def _append_many(self, values: Values, keys: Keys | None) -> "asyncio.Future[Receipt]":
        self.check()
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        if self.inflight.is_full:
            await self.wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.take_batch(batch, future)
        return future
