"""The handle that an engine gives: the public log of a cluster, and what programs of this package need besides.

An engine says how a batch is taken (`take_batch`), how room is made, and how records are read; what follows from that
is here. An engine that reads by asking one server for the next records goes on with `fetched`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable

from ithaca.client.intake import Slot
from ithaca.client.scan import AwaitedScan, RangeScan
from ithaca.model.engine import Feature
from ithaca.model.interface import awaited
from ithaca.model.interface.unsupported import unsupported
from ithaca.model.limits import PART_TTL_S
from ithaca.model.records import Buffer, Compression, KeyFilter, Receipt
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

    def __init__(self, compression: Compression) -> None:
        self._compression: Compression = compression
        self._loop = asyncio.get_running_loop()
        self._submitted = Submitted()

    @abstractmethod
    def check(self) -> None:
        """Raise unless the handle can be used."""

    # What an intake has

    @property
    @abstractmethod
    def is_full(self) -> bool:
        """Whether so many bytes are under way that nothing more should be taken."""

    @abstractmethod
    async def wait_for_room(self) -> None:
        """Wait while it is full; raises when that takes too long."""

    @abstractmethod
    def take_batch(self, batch: Batch, slot: Slot) -> None:
        """Append one atomic batch, which `wire.build.build` has made for no producer yet; never waits."""

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        """Append one record, which `wire.build.checked_record` has checked; never waits."""
        self.take_batch(build([value], [key], timestamp_us=wall_us(), compress=self._compression), slot)

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

    async def open_part(
        self, *, shard: int | None = None, ttl: float = PART_TTL_S, timeout: float | None = None
    ) -> BuiltPart:
        raise unsupported(Feature.PREPARED)

    # Appending

    async def append(self, value: Buffer, *, key: Buffer | None = None, timeout: float | None = None) -> Receipt:
        future = await self._append(value, key)
        return await (future if timeout is None else within(future, timeout))

    async def append_many(
        self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None, timeout: float | None = None
    ) -> Receipt:
        future = await self._append_many(values, keys)
        return await (future if timeout is None else within(future, timeout))

    async def submit(self, value: Buffer, *, key: Buffer | None = None) -> FuturePending:
        return self._submitted.add(await self._append(value, key))

    async def submit_many(
        self, values: Iterable[Buffer], *, keys: Iterable[Buffer | None] | None = None
    ) -> FuturePending:
        return self._submitted.add(await self._append_many(values, keys))

    async def flush(self, *, timeout: float | None = None) -> None:
        self.check()
        await self._submitted.flush(timeout)

    async def _append(self, value: Buffer, key: Buffer | None) -> "asyncio.Future[Receipt]":
        self.check()
        plain, plain_key = checked_record(value, key)
        if self.is_full:
            await self.wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.take_record(plain, plain_key, future)
        return future

    async def _append_many(
        self, values: Iterable[Buffer], keys: Iterable[Buffer | None] | None
    ) -> "asyncio.Future[Receipt]":
        self.check()
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        if self.is_full:
            await self.wait_for_room()
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self.take_batch(batch, future)
        return future
