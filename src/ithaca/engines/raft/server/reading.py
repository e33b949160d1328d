"""Reading a server: single records, and streams of the order. Nothing at or above the cursor is served.

Below the cursor the lane never changes, and all of it is on this disk: entries are applied once they are durable here.
Records in memory are answered at once; others are read in a thread.

A server that was started again, or cut off from the leader, may not know what was trimmed meanwhile. So when it hears
of a leader again it serves nothing until it has applied what was agreed on by then. While it hears of nobody it goes on
with what it served before, for there may be nobody. Once it is told that it was removed it serves nothing any more.
"""

import asyncio
from collections.abc import Callable, Sequence

from ithaca.engines.raft.messages import Behind, Deliver, Delivered, Found, Subscribe
from ithaca.engines.raft.server.machine import LogMachine
from ithaca.engines.raft.storage.shared_log import SEED, SharedLog
from ithaca.model.errors import IthacaError, Trimmed
from ithaca.model.limits import DELIVER_BYTES_MAX, LEADER_SILENT_S, POINT_READ_BYTES, WATERMARK_INTERVAL_S
from ithaca.model.positions import lsn_of, position_of
from ithaca.model.records import Buffer, KeyFilter
from ithaca.protocol.codec import Message
from ithaca.protocol.greeting import Finished
from ithaca.runtime.connection import Connection
from ithaca.server.filtering import Filtering
from ithaca.server.readable import Readable
from ithaca.server.selecting import Rows, Selecting
from ithaca.server.users.keys import filter_for
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import NOOPS, Batch
from ithaca.wire.selection import Within

Answer = tuple[Message, Sequence[Buffer]]
ReadableRow = Callable[[Batch, int], Batch | None]


class ReadView:
    """What can be read here, and who waits for more of it."""

    def __init__(self, store: SharedLog, machine: LogMachine, applied_index: Callable[[], int]) -> None:
        self._store = store
        self._machine = machine
        self._applied_index = applied_index
        self._barrier: int | None = None
        """The entry that has to be applied before anything is served; None as long as nobody was heard of."""
        self._heard_s = 0.0
        self.readable = Readable(lambda: self.first, lambda: self.limit)
        self.filtering = Filtering()

    @property
    def limit(self) -> int:
        """Positions below are known to be agreed on, and whether they were trimmed is known."""
        if self._barrier is None or self._applied_index() < self._barrier:
            return 1
        return self._machine.state.tail

    @property
    def first(self) -> int:
        """What the lane says counts, too: after a start the trim may not be applied again yet."""
        return max(self._machine.state.first, position_of(self._store.lane.trim_lsn))

    def heard(self, commit_index: int) -> None:
        """A leader speaks, and this much is agreed on."""
        now_s = asyncio.get_running_loop().time()
        if self._barrier is None or now_s - self._heard_s > LEADER_SILENT_S:
            self._barrier = commit_index
            self.advanced()
        self._heard_s = now_s

    def leads(self) -> None:
        """This server leads, and has applied everything that was agreed on before it did."""
        self._barrier = 0
        self.advanced()

    def advanced(self) -> None:
        """More may be read."""
        self.readable.waits.passed(self.limit)

    def close(self, error: IthacaError) -> None:
        """Whoever asks, or waits, is told this."""
        self.readable.close(error)

    def read_now(self, position: int, readable: ReadableRow = lambda *_: None) -> Answer | None:
        """The same as `read`, if nothing has to be waited for: neither an agreement nor a disk."""
        self.readable.check_open()
        if position >= self.limit:
            return None
        self.readable.check_not_trimmed(position)
        found = self._store.lane.cache.get(lsn_of(position), 0)
        return _found(lsn_of(position), self._checked(found, lsn_of(position))[0], readable) if found else None

    async def read(self, position: int, wait_s: float, readable: ReadableRow = lambda *_: None) -> Answer:
        """The answer to `Read`; raises `Trimmed`. `readable` makes a batch of the record alone, for whoever may not see
        those beside it."""
        self.readable.check_open()
        if not await self.readable.wait(position, wait_s):
            return Behind(self.limit), ()
        self.readable.check_not_trimmed(position)
        lsn = lsn_of(position)
        batch = (await self.batches(self.cursor(lsn), lsn + 1, POINT_READ_BYTES))[0]
        return _found(lsn, batch, readable)

    def cursor(self, lsn: int, last: Cursor | None = None) -> Cursor:
        """A place in the lane: the one where a reader was last, if it goes on from there."""
        lane = self._store.lane
        return last if last is not None and last.is_at(lane, lsn) else Cursor(lane, lsn)

    async def batches(self, cursor: Cursor, stop: int, bytes_max: int = DELIVER_BYTES_MAX) -> list[Batch]:
        """Some batches from the one that holds the cursor's LSN on, below the limit; raises `Trimmed`."""
        lsn = cursor.lsn
        if self._store.lane.cache.get(lsn, 0) or cursor.is_resident(bytes_max):
            found = cursor.read(stop, bytes_max=bytes_max)
        else:
            found = await asyncio.to_thread(cursor.read, stop, bytes_max=bytes_max)
        return self._checked(found, lsn)

    def _checked(self, found: list[Batch], lsn: int) -> list[Batch]:
        for batch in found:
            if batch.kind == NOOPS:  # it was trimmed where it was copied from, and the trim is not applied here yet
                first = position_of(batch.end_lsn)
                raise Trimmed(
                    f"position {position_of(lsn)} was trimmed; {first} may be the first one left", first=first
                )
        return found

    async def seek_time(self, time_us: int, tail: int) -> int:
        """The first position below `tail`, which is known here, of this time or a later one; else `tail`."""
        lane = self._store.lane
        lsn = await asyncio.to_thread(lane.seek_time, time_us)
        return max(self.first, min(position_of(lsn), tail))


def _found(lsn: int, batch: Batch, readable: ReadableRow) -> Answer:
    alone = readable(batch, lsn - batch.base_lsn)
    if alone is not None:
        return Found(position_of(lsn)), alone.placed(lsn, SEED).buffers()
    return Found(position_of(batch.base_lsn)), batch.buffers()


class Stream:
    """One subscription: everything from a position on, in order."""

    def __init__(
        self, read_view: ReadView, connection: Connection, request: Subscribe, sent: Callable[[int], object]
    ) -> None:
        self._read_view = read_view
        self._connection = connection
        self._position = request.start
        self._stop = request.stop
        self._where = filter_for(connection, request.where)
        self._sent = sent
        self._told = request.start
        self._told_at = 0.0
        self._cursor: Cursor | None = None

    async def run(self) -> None:
        """Until the stop, or until the connection ends; raises what ends the stream."""
        read_view, readable, connection = self._read_view, self._read_view.readable, self._connection
        loop = asyncio.get_running_loop()
        readable.check_not_trimmed(self._position)
        while connection.is_open:
            readable.check_open()
            limit = read_view.limit if self._stop is None else min(read_view.limit, self._stop)
            if self._position < limit:
                if connection.passage is not None:
                    await connection.passage.paced()
                    readable.check_open()
                await self._deliver(limit)
                await connection.drained()
                await asyncio.sleep(0)  # what is in memory is read in the loop, and others have their turn
            elif self._stop is not None and self._position >= self._stop:
                connection.send(Finished())
                return
            elif self._told < self._position:
                left_s = self._told_at + WATERMARK_INTERVAL_S - loop.time()
                if left_s > 0:
                    await readable.waits.wait(self._position, left_s)
                else:
                    self._say([], [], self._position)
            else:
                await readable.wait(self._position)

    async def _deliver(self, limit: int) -> None:
        self._read_view.readable.check_not_trimmed(self._position)
        self._cursor = self._read_view.cursor(lsn_of(self._position), self._cursor)
        batches = await self._read_view.batches(self._cursor, lsn_of(limit))
        end = min(position_of(batches[-1].end_lsn), limit)
        if self._where is None:
            items = [self._item(batch, limit) for batch in batches]
            payload = [buffer for batch in batches for buffer in batch.buffers()]
        else:
            items, payload = await self._select(self._where, batches, limit)
        self._position = end
        late = asyncio.get_running_loop().time() - self._told_at > WATERMARK_INTERVAL_S
        if items or late or end == self._stop:
            self._say(items, payload, end)

    def _item(self, batch: Batch, limit: int) -> Delivered:
        base = position_of(batch.base_lsn)
        return Delivered(base, max(0, self._position - base), min(batch.count, limit - base))

    def _say(self, items: list[Delivered], payload: list[Buffer], up_to: int) -> None:
        self._connection.send(Deliver(tuple(items), up_to), payload=payload)
        self._told = up_to
        self._told_at = asyncio.get_running_loop().time()
        self._sent(sum(map(len, payload)))

    async def _select(
        self, where: KeyFilter | Within, batches: list[Batch], limit: int
    ) -> tuple[list[Delivered], list[Buffer]]:
        selecting = Selecting(self._read_view.filtering, where, self._connection, self._say)
        wholes = [self._item(batch, limit) for batch in batches]
        rows = zip(batches, wholes, strict=True)
        return await selecting.select(
            Rows(batch, whole.position, whole.low, whole.high, Delivered) for batch, whole in rows
        )
