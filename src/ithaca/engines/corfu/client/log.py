"""The handle on a cluster of this engine."""

import asyncio
from collections.abc import Callable

from ithaca.client.asking import ask_status
from ithaca.client.consuming.cluster import ClusterConsumers
from ithaca.client.deadline import Deadline
from ithaca.client.extents import Extent, counted_extents
from ithaca.client.fetched import Bounds, Fetched, FetchingLog, trimmed
from ithaca.client.intake import Slot
from ithaca.client.scan import AwaitedScan
from ithaca.client.settings import ClientSettings
from ithaca.engines.corfu.client.admin import CorfuAdmin
from ithaca.engines.corfu.client.driving import Driver, first_knowledge
from ithaca.engines.corfu.client.gathering import Gathered
from ithaca.engines.corfu.client.links import Links
from ithaca.engines.corfu.client.placing import Placer, checked_row
from ithaca.engines.corfu.client.rows import RowReader
from ithaca.engines.corfu.client.scan import CorfuScan, batches_of
from ithaca.engines.corfu.client.session import CorfuSession
from ithaca.engines.corfu.client.writers import Writers
from ithaca.engines.corfu.sequencing.commands import Void
from ithaca.engines.corfu.sequencing.entries import Entry
from ithaca.engines.corfu.sequencing.flows.opening import opened
from ithaca.engines.corfu.sequencing.flows.reading import looked, tail
from ithaca.engines.corfu.sequencing.flows.settling import settled
from ithaca.engines.corfu.sequencing.flows.trimming import trimmed_log, trimmed_rows
from ithaca.engines.corfu.sequencing.limits import ROW_POSITIONS
from ithaca.engines.corfu.sequencing.rows import first_position, row_of
from ithaca.model.errors import (
    EmptyPosition,
    InvalidInput,
    IthacaError,
    NamesFull,
    NotWritten,
    ProtocolError,
    SessionExpired,
    Unavailable,
    unknown_copy,
)
from ithaca.model.interface import ClusterStatus
from ithaca.model.limits import MIB
from ithaca.model.records import Durability, KeyFilter, Keys, Receipt, Record, Values
from ithaca.model.units import Duration, optional_seconds
from ithaca.model.view import Address
from ithaca.protocol.codec import Message
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.checks import check_named_session, check_position, too_late
from ithaca.runtime.futures import within
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build

_COUNTED_BYTES = MIB
"""What is read at a time where records are counted: the loop stands still meanwhile."""


class CorfuLog(ClusterConsumers, FetchingLog):
    """A handle: connections to units, sequencers and the Raft group, and what it knows of them."""

    def __init__(self, links: Links, driver: Driver, settings: ClientSettings, durability: Durability) -> None:
        super().__init__("the cluster", settings)
        self._links = links
        self._driver = driver
        self._durability: Durability = durability
        self._writers = Writers(driver, durability)
        self._placer = Placer(driver, durability)
        self._rows = RowReader(driver)
        self._gathered: Gathered | None = None

    async def ask_leader(self, message: Message, timeout_s: float | None) -> Message:
        self.check()
        deadline, pauses = Deadline(self._settings.timeout_s if timeout_s is None else timeout_s), Backoff()
        is_unknown = False
        while True:
            try:
                return await self._links.ask_leader(message)
            except (Unavailable, ProtocolError) as error:
                is_unknown = is_unknown or error.outcome_unknown
                if deadline.passed:
                    raise unknown_copy(error) if is_unknown else error from None
            await pauses.pause(deadline)

    # Appending

    async def send(self, batch: Batch) -> Receipt:
        return await self._appended(lambda: batch)

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        self._gathered = None  # what comes later stands behind the batch
        super().take_batch(batch, slot)

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        self.check()
        gathered = self._gathered
        if gathered is None or gathered.is_closed:
            gathered = self._gathered = Gathered(self._compression)
            task = asyncio.create_task(self._append_gathered(gathered))
            self._sending[task] = (0, gathered.is_answered)  # its records are counted one by one
            task.add_done_callback(self._sent)
        self.inflight.add(gathered.add(value, key, slot))

    async def _append_gathered(self, gathered: Gathered) -> None:
        try:
            gathered.done(await self._appended(gathered.make))
        except Exception as error:
            gathered.is_closed = True
            gathered.failed(error)
        finally:
            self.inflight.settle(gathered.size_bytes)

    async def _appended(self, make: Callable[[], Batch]) -> Receipt:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._writers.append(make)
        except TimeoutError as error:
            if isinstance(error, IthacaError):
                raise
            raise too_late(self._settings.timeout_s) from None

    async def session(self, name: str) -> CorfuSession:
        self.check()
        check_named_session(name)
        found = await self._driver.run(opened(self._driver.knowledge, name))
        if isinstance(found, Void):
            raise NamesFull(f"session {name!r} cannot be opened: {found.reason}")
        if found.is_forgotten:
            raise SessionExpired(
                f"session {name!r} was used before, and no unit remembers how far it was: find out which of its "
                "records are there, and go on under another name"
            )
        return CorfuSession(
            name,
            found,
            self._driver,
            compression=self._compression,
            durability=self._durability,
            check=self.check,
        )

    # Reading

    async def bounds(self) -> Bounds:
        row = await self._driver.run(tail(self._driver.knowledge))
        self._rows.saw_tail(row)
        first = self._driver.knowledge.first
        return Bounds(first, max(first, first_position(row)))

    async def fetch(self, position: int, wait_s: float) -> Fetched:
        return await self._fetch(position, wait_s, alone=False)

    async def fetch_one(self, position: int, wait_s: float) -> Fetched:
        return await self._fetch(position, wait_s, alone=True)

    async def _fetch(self, position: int, wait_s: float, *, alone: bool) -> Fetched:
        self._check_left(position)
        found = await self._rows.fetch(position, wait_s, alone=alone)
        self._check_left(position)  # the answers say it, too
        return found

    async def read(self, position: int, *, shard: int | None = None, wait: Duration = 0) -> Record:
        try:
            return await super().read(position, shard=shard, wait=wait)
        except EmptyPosition:
            row = row_of(position)
            if await self._driver.run(looked(self._driver.knowledge, row)) != "trimmed":
                raise
            self._check_left(position)
            raise trimmed(position, first_position(row + 1)) from None

    async def seek(self, time_us: int) -> int:
        """By the times of the order, which came with the rows and rise with them."""
        low, tail = await self.bounds()
        low_row: int = row_of(low)
        high_row: int = row_of(tail)
        wanted = high_row
        while low_row < high_row:
            middle = (low_row + high_row) // 2
            found = await self._rows.settled_from(middle, high_row)
            if found is not None and found[1].time_us < time_us:
                low_row = found[0] + 1
            else:
                high_row, wanted = middle, wanted if found is None else found[0]
        return max(self._driver.knowledge.first, first_position(wanted))  # what is gone meanwhile was said, too

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
        self.check()
        scan = CorfuScan(self, self._driver, start, stop, where=where, shards=shards, chunk_bytes=chunk_bytes)
        await scan.begin(local=local)
        return scan

    async def extents(
        self,
        start: int,
        stop: int,
        *,
        records_max: int,
        count_max: int | None = None,
        shards: frozenset[int] | None = None,
    ) -> list[Extent]:
        """Counted in the files of units where these are on this machine, which spares the sockets."""
        scan = await self.scan(start, stop, chunk_bytes=_COUNTED_BYTES)
        try:
            return await counted_extents(batches_of(scan), start, stop, records_max, count_max, shards)
        finally:
            await scan.close()

    def _check_left(self, position: int) -> None:
        first = self._driver.knowledge.first
        if position < first:
            raise trimmed(position, first)

    # What only this engine has

    async def write(
        self, position: int, values: Values, *, keys: Keys | None = None, timeout: Duration | None = None
    ) -> Receipt:
        timeout_s = optional_seconds(timeout)
        self.check()
        row = checked_row(position)
        batch = build(values, keys, timestamp_us=wall_us(), compress=self._compression)
        writing = asyncio.create_task(self._placer.write(row, batch))
        return await within(writing, self._settings.timeout_s if timeout_s is None else timeout_s)

    @property
    def admin(self) -> CorfuAdmin:
        return CorfuAdmin(self._links, self._driver, self._settings.timeout_s)

    async def fill(self, position: int) -> bool:
        self.check()
        check_position(position)
        row = row_of(position)
        await self._check_taken(row)
        state = await self._driver.run(settled(self._driver.knowledge, row))
        if state == "trimmed":
            raise trimmed(position, max(self._driver.knowledge.first, first_position(row + 1)))
        return isinstance(state, Entry) and not state.is_junk

    async def trim_position(self, start: int, stop: int | None = None) -> None:
        self.check()
        check_position(start, "start")
        low: int = row_of(start)
        high = low + 1
        if stop is not None:
            check_position(stop, "stop")
            # Rows that lie within it as a whole: those that begin at `start` or behind it, and end before `stop`.
            low, high = -(-(start - 1) // ROW_POSITIONS), row_of(stop)
            if low >= high:
                return
        await self._check_taken(high - 1)
        await self._driver.run(trimmed_rows(self._driver.knowledge, low, high))

    async def _check_taken(self, row: int) -> None:
        end = self._rows.tail_seen
        if row >= end:
            end = await self._driver.run(tail(self._driver.knowledge, row))
            self._rows.saw_tail(end)
        if row >= end:
            position = first_position(end)
            raise NotWritten(f"row {row} was not taken by anybody yet: the tail is {position}", tail=position)

    # The whole log

    async def trim(self, before: int) -> None:
        self.check()
        check_position(before, "before")
        end = await self._driver.run(trimmed_log(self._driver.knowledge, before))
        if before > end:
            raise InvalidInput(f"cannot trim before {before}: the tail is {end}")

    async def status(self) -> ClusterStatus:
        self.check()
        bounds = await self.bounds()
        known = self._driver.knowledge.known
        addresses = [*(address for _, address in known.sequencers), *(unit.address for unit in known.projection.units)]
        servers = []
        problems = []
        for address in addresses:
            try:
                servers.append(await ask_status(address, self._links.tls))
            except IthacaError as error:
                problems.append(f"{address} does not answer: {error}")
                servers.append({"address": str(address), "state": "unreachable", "error": str(error)})
        return ClusterStatus(not problems, tuple(problems), bounds.tail, bounds.first, tuple(servers))

    async def disconnect(self) -> None:
        self._links.close()


async def open_log(bootstrap: tuple[Address, ...], settings: ClientSettings) -> CorfuLog:
    """A handle on the cluster that has these servers; `Unavailable` when none of them answers in time."""
    links = Links(bootstrap, settings.tls)
    deadline, pauses = Deadline(settings.timeout_s), Backoff()
    while True:
        try:
            knowledge = await first_knowledge(links)
            return CorfuLog(links, Driver(links, knowledge), settings, "fsync")
        except Unavailable:
            if deadline.passed:
                links.close()
                raise
            await pauses.pause(deadline)
        except BaseException:
            links.close()
            raise
