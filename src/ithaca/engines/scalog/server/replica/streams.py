"""Reading a replica: single records, and streams of this shard's part of the order.

Nothing is served at or above the core's readable limit: below it the order is known, and what this shard holds
of it is on this disk. Records in memory are answered at once; others are read in a thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ithaca.engines.scalog.messages.reading import Behind, Deliver, Delivered, Elsewhere, Found, Subscribe
from ithaca.engines.scalog.storage.lane_store import LaneStore
from ithaca.engines.scalog.storage.shard_reader import LaneRange, PositionedEntry, ShardCursor, find
from ithaca.model.errors import IthacaError, Lost, Unavailable
from ithaca.model.limits import POINT_READ_BYTES, WATERMARK_INTERVAL_S
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer, KeyFilter
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Finished
from ithaca.runtime.connection import Connection
from ithaca.server.filtering import Filtering
from ithaca.server.position_waits import PositionWaits
from ithaca.server.readable import Readable
from ithaca.server.selecting import Rows, Selecting
from ithaca.server.users.keys import filter_for
from ithaca.wire.batch import Batch, lane_seed
from ithaca.wire.selection import Within

Ranges = tuple[tuple[int, int], ...]
Answer = tuple[Message, Sequence[Buffer]]
ReadableRow = Callable[[Batch, int], Batch | None]
_CATCH_UP_S = 1.0
"""How long a stream waits for records that this replica lacks."""


class Order(Protocol):
    """How far this replica is."""

    @property
    def tail(self) -> int: ...

    @property
    def readable(self) -> int: ...

    @property
    def first(self) -> int: ...

    @property
    def view_version(self) -> int: ...

    def lost(self, lane: LaneId) -> Ranges: ...

    def strewn(self) -> Ranges: ...


class ReadView:
    """What can be read here, and who waits for more of it."""

    def __init__(self, store: LaneStore, order: Order) -> None:
        self.store = store
        self.order = order
        self.readable = Readable(lambda: order.first, lambda: order.readable)
        self.streams = PositionWaits()
        """Who has read everything, and waits until a position is ordered or another view holds."""
        self._view = order.view_version
        self.filtering = Filtering()

    def close(self, error: IthacaError) -> None:
        """Nothing can be read here any more: whoever asks, or waits, is told this."""
        self.readable.close(error)
        self.streams.wake_all()

    def advanced(self) -> None:
        """The order or the readable limit has moved, or another view holds."""
        order = self.order
        self.readable.waits.passed(order.readable)
        if order.view_version != self._view:
            self._view = order.view_version
            self.streams.wake_all()
        else:
            self.streams.passed(order.tail)

    async def wait_ordered(self, position: int, timeout_s: float | None = None) -> None:
        """Until the position, which is the tail or beyond it, is ordered, another view holds, or for so long."""
        self.readable.check_open()
        await self.streams.wait(position, timeout_s)

    def read_now(self, position: int, readable: ReadableRow = lambda *_: None) -> Answer | None:
        """The same as `read`, if nothing has to be waited for: neither an order nor a disk."""
        self.readable.check_open()
        if position >= self.order.readable:
            return None
        place = self._find(position)
        if not isinstance(place, tuple):
            return place, ()
        lane, lsn = place
        held = self.store.lanes.get(lane)
        opened = None if held is None else held.opened_lane
        found = [] if opened is None or lsn < opened.trim_lsn else opened.cache.get(lsn, 0)
        return _found(lane, lsn, position, found[0], readable) if found else None

    async def read(self, position: int, wait_s: float, readable: ReadableRow = lambda *_: None) -> Answer:
        """The answer to `Read`; raises `Trimmed` and `Lost`. `readable` makes a batch of the record alone, for whoever
        may not see those beside it."""
        self.readable.check_open()
        if not await self.readable.wait(position, wait_s):
            return Behind(self.order.tail), ()
        place = self._find(position)
        if not isinstance(place, tuple):
            return place, ()
        lane, lsn = place
        cursor = ShardCursor(self.store, position, bytes_max=POINT_READ_BYTES)
        entry = (await self._read(cursor, [LaneRange(lane, lsn, position, 1)]))[0]
        return _found(lane, lsn, position, entry.batch, readable)

    def _find(self, position: int) -> tuple[LaneId, int] | Elsewhere:
        """Where the record is at a position below the readable limit, if this shard has it."""
        self.readable.check_not_trimmed(position)
        place = find(self.store, position)
        if place is None:
            return Elsewhere(any(low <= position < high for low, high in self.order.strewn()))
        self._check_not_lost_at(*place, position)
        return place

    async def entries(self, cursor: ShardCursor, stop: int) -> list[PositionedEntry]:
        """The next entries of this shard below `stop`; the cursor moves behind them, or to `stop`."""
        stretches = cursor.plan(stop)
        if not stretches:
            return []
        return await self._read(cursor, stretches)

    async def _read(self, cursor: ShardCursor, stretches: list[LaneRange]) -> list[PositionedEntry]:
        if cursor.in_memory(stretches):
            return cursor.read(stretches)
        return await asyncio.to_thread(cursor.read, stretches)

    def check_not_lost(self, stretch: LaneRange) -> None:
        """`Lost` when some of these records are gone: the first of them that are."""
        for start, stop in self.order.lost(stretch.lane):
            low, high = max(start, stretch.lsn), min(stop, stretch.lsn + stretch.count)
            if low < high:
                position = stretch.position + low - stretch.lsn
                raise Lost.at(position, position + high - low)

    def check_not_strewn(self, start: int, stop: int) -> None:
        """`Lost` when records of this shard are gone that may have stood at one of these positions."""
        for low, high in _within(self.order.strewn(), start, stop):
            raise Lost.among(low, high)

    def _check_not_lost_at(self, lane: LaneId, lsn: int, position: int) -> None:
        """The same for one record; what is lost with it ends with its run: behind that are records of others."""
        around = [(start, stop) for start, stop in self.order.lost(lane) if start <= lsn < stop]
        held = self.store.get(lane) if around else None
        if held is not None:
            run = held.runs.run_of(lsn)
            low, high = max(around[0][0], run.lsn), min(around[0][1], run.lsn + run.count)
            self.check_not_lost(LaneRange(lane, low, position - (lsn - low), high - low))

    def before_loss(self, entries: list[PositionedEntry]) -> tuple[list[PositionedEntry], Lost | None]:
        """The entries as far as nothing is lost, and then what is."""
        for at, entry in enumerate(entries):
            lane, batch, position, low, high, _ = entry
            try:
                self.check_not_lost(LaneRange(lane, batch.base_lsn + low, position + low, high - low))
            except Lost as lost:
                kept = lost.start - position
                return [*entries[:at], *([entry._replace(high=kept)] if low < kept else [])], lost
        return entries, None


class Stream:
    """One subscription: everything of this shard from a position on, in order, with watermarks."""

    def __init__(
        self, read_view: ReadView, connection: Connection, request: Subscribe, sent: Callable[[int], object]
    ) -> None:
        """`NotAllowed` for what the user on the connection may not read."""
        self._read_view = read_view
        self._connection = connection
        self._stop = request.stop
        self._where = filter_for(connection, request.where)
        self._start = request.start
        self._sent = sent
        self._told = (0, 0)
        """The watermark that was said last: position and view."""
        self._told_at = 0.0

    async def run(self) -> None:
        """Until the stop, or until the connection ends; raises what ends the stream."""
        order, connection, read_view = self._read_view.order, self._connection, self._read_view
        read_view.readable.check_not_trimmed(self._start)
        loop = asyncio.get_running_loop()
        cursor = ShardCursor(read_view.store, self._start)
        while connection.is_open:
            read_view.readable.check_open()
            limit = order.readable if self._stop is None else min(order.readable, self._stop)
            if cursor.position < limit:
                if connection.passage is not None:
                    await connection.passage.paced()
                    read_view.readable.check_open()
                read_view.readable.check_not_trimmed(cursor.position)
                view = order.view_version
                await self._go_on(cursor, limit, view)
                await connection.drained()
                await asyncio.sleep(0)  # what is in memory is read in the loop, and others have their turn
            elif self._stop is not None and cursor.position >= self._stop:
                connection.send(Finished())
                return
            elif order.readable <= cursor.position < order.tail:
                await self._catch_up(cursor.position)
            elif (cursor.position, order.view_version) != self._told:
                left_s = self._told_at + WATERMARK_INTERVAL_S - loop.time()
                if left_s > 0:
                    await read_view.wait_ordered(cursor.position, left_s)
                else:
                    self._say([], [], cursor.position, order.view_version)
            else:
                await read_view.wait_ordered(cursor.position)

    async def _go_on(self, cursor: ShardCursor, limit: int, view: int) -> None:
        """Say what comes next below the limit. What precedes a loss is said first, then the loss ends the stream."""
        try:
            entries, lost = self._read_view.before_loss(await self._read_view.entries(cursor, limit))
        except Lost as error:
            entries, lost = [], error
        up_to = cursor.position if lost is None else lost.start
        if self._where is None:
            items = [Delivered(lane, at, low, high, None, follows) for lane, _, at, low, high, follows in entries]
            payload = [buffer for entry in entries for buffer in entry.batch.buffers()]
        else:
            items, payload = await self._select(entries, self._where, view)
        if items or lost is not None or up_to == self._stop:
            self._say(items, payload, up_to, view)
        if lost is not None:
            raise lost

    async def _catch_up(self, position: int) -> None:
        """Wait for what is ordered and not here, but not for long: another replica may have it."""
        if not await self._read_view.readable.wait(position, _CATCH_UP_S):
            raise Unavailable(f"what is ordered from position {position} on is not all here yet: ask another replica")

    def _say(self, items: list[Delivered], payload: list[Buffer], up_to: int, view: int) -> None:
        strewn = tuple(_within(self._read_view.order.strewn(), max(self._start, self._told[0]), up_to))
        self._connection.send(Deliver(tuple(items), up_to, view, strewn), payload=payload)
        self._told = (up_to, view)
        self._told_at = asyncio.get_running_loop().time()
        self._sent(sum(map(len, payload)))

    async def _select(
        self, entries: list[PositionedEntry], where: KeyFilter | Within, view: int
    ) -> tuple[list[Delivered], list[Buffer]]:
        def say(items: list[Delivered], payload: list[Buffer], up_to: int) -> None:
            self._say(items, payload, up_to, view)

        selecting = Selecting(self._read_view.filtering, where, self._connection, say)
        return await selecting.select(
            Rows(batch, position, low, high, partial(Delivered, lane))
            for lane, batch, position, low, high, _ in entries
        )


def _found(lane: LaneId, lsn: int, position: int, batch: Batch, readable: ReadableRow) -> Answer:
    row = lsn - batch.base_lsn
    alone = readable(batch, row)
    if alone is not None:
        return Found(lane, position), alone.placed(lsn, lane_seed(lane)).buffers()
    return Found(lane, position - row), batch.buffers()


def _within(ranges: Ranges, start: int, stop: int) -> list[tuple[int, int]]:
    """The parts of the ranges between two positions."""
    return [(max(low, start), min(high, stop)) for low, high in ranges if low < stop and start < high]
