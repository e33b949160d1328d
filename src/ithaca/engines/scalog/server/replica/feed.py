"""Lanes for the peers that keep copies: the own lane as it is accepted, closed ones up to where they end.

A peer says from which LSN on it wants a lane and gets everything from there: from the disk what is old, from
memory what is recent, which includes what was accepted a moment ago and is not synced here yet. Both copies are
so written and synced at the same time (design §5 "Append").

Where nothing is left that could be sent, because it was trimmed here or never came here, the peer gets a snapshot of
what is known of it: which batches of which sessions there were.
"""

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ithaca.engines.scalog.messages.copying import LaneBatches
from ithaca.engines.scalog.storage.held_lane import HeldLane
from ithaca.engines.scalog.storage.packed_lane import PackedLane
from ithaca.model.errors import Corrupt
from ithaca.model.limits import DELIVER_BYTES_MAX, LANE_RECENT_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer
from ithaca.protocol.greeting import Finished
from ithaca.runtime.connection import Connection
from ithaca.storage.lane import Lane
from ithaca.storage.reader import Cursor
from ithaca.wire.batch import NOOPS, PLACE, Batch
from ithaca.wire.build import place


@dataclass(eq=False, slots=True)
class _Follower:
    """A peer that follows: it has been sent everything below `lsn`; while `is_live`, what is new goes out at once."""

    connection: Connection
    lsn: int
    is_live: bool = False
    wake: asyncio.Event | None = None


class OwnLaneFeed:
    """A lane that is written here, for its followers."""

    def __init__(self, lane: LaneId, storage: Lane, *, recent_bytes_max: int = LANE_RECENT_BYTES_MAX) -> None:
        self._message = LaneBatches(lane)
        self._storage = storage
        self._has_places = False
        self._recent_bytes_max = recent_bytes_max
        self._loop = asyncio.get_running_loop()
        self._recent: deque[Batch] = deque()
        """The newest batches, each behind its place if it has one."""
        self._recent_bytes = 0
        self._end = storage.length
        self._fresh: list[Batch] = []
        self._followers: list[_Follower] = []

    def add(self, batch: Batch, position: int = 0) -> None:
        """The lane's next batch, and the position of its first record if it has one already: it goes to the followers
        in this turn of the loop."""
        entries = [batch]
        if position:
            self._has_places = True
            entries.insert(0, place(position, 0).placed(batch.base_lsn, self._storage.seed))
        for entry in entries:
            self._recent.append(entry)
            self._recent_bytes += entry.kept_bytes
        self._end = batch.end_lsn
        synced = self._storage.length
        while self._recent_bytes > self._recent_bytes_max:
            oldest = 2 if self._recent[0].kind == PLACE else 1
            if self._recent[oldest - 1].end_lsn > synced:
                break
            for _ in range(oldest):
                self._recent_bytes -= self._recent.popleft().kept_bytes
        if not self._fresh:
            self._loop.call_soon(self._flush)
        self._fresh += entries

    async def follow(self, connection: Connection, lsn: int) -> None:
        """Send everything from `lsn` on that was not trimmed, until the connection ends; raises what hinders that."""
        follower = _Follower(connection, lsn, wake=asyncio.Event())
        self._followers.append(follower)
        try:
            while connection.is_open:
                await self._catch_up(follower)
                assert follower.wake is not None
                follower.wake.clear()
                follower.is_live = True
                await follower.wake.wait()
        finally:
            self._followers.remove(follower)

    @property
    def is_followed(self) -> bool:
        return bool(self._followers)

    def stop(self, connection: Connection) -> None:
        """The connection has ended."""
        for follower in self._followers:
            if follower.connection is connection and follower.wake is not None:
                follower.is_live = False
                follower.wake.set()

    def _flush(self) -> None:
        fresh, self._fresh = self._fresh, []
        for follower in self._followers:
            if not follower.is_live:
                continue
            batches = fresh if follower.lsn == fresh[0].base_lsn else [b for b in fresh if b.base_lsn >= follower.lsn]
            _send(follower.connection, self._message, batches)
            follower.lsn = fresh[-1].end_lsn
            if not follower.connection.is_writable:
                follower.is_live = False
                assert follower.wake is not None
                follower.wake.set()

    async def _catch_up(self, follower: _Follower) -> None:
        """Returns, without waiting any more, at a moment at which everything accepted was sent."""
        cursor: Cursor | None = None
        while True:
            await follower.connection.drained()
            start = max(follower.lsn, self._storage.trim_lsn)
            if start >= self._end:
                if follower.lsn < start:  # all of it was trimmed, so that nothing is being written
                    _send(follower.connection, self._message, _last_snapshot(self._storage))
                follower.lsn = start
                return
            if self._recent and start >= self._recent[0].base_lsn:
                batches = self._recent_from(start)
                if batches[0].base_lsn > follower.lsn:
                    batches[:0] = await asyncio.to_thread(_snapshot, self._storage, batches[0].base_lsn)
                cursor = None
            else:
                if cursor is None or cursor.lsn != start:
                    cursor = Cursor(self._storage, start, with_places=self._has_places)
                batches = await asyncio.to_thread(_read, cursor, self._storage, follower.lsn, self._storage.length)
            _send(follower.connection, self._message, batches)
            follower.lsn = batches[-1].end_lsn

    def _recent_from(self, lsn: int) -> list[Batch]:
        recent = list(self._recent)
        found: list[Batch] = []
        size = 0
        row = bisect_right(recent, lsn, key=lambda batch: batch.base_lsn) - 1
        if row and recent[row - 1].kind == PLACE:
            row -= 1
        for batch in recent[row:]:
            found.append(batch)
            size += batch.total_bytes
            if size >= DELIVER_BYTES_MAX:
                break
        return found


async def send_stored(
    connection: Connection,
    find: Callable[[], HeldLane],
    start: int,
    stop: int,
    is_settled: Callable[[LaneId], bool],
    *,
    with_places: bool = False,
) -> None:
    """Send what is stored of a lane in `[start, stop)` and was not trimmed, as far as it is there, then `Finished`.

    `find` says where the lane is now: it may be put into a pack meanwhile.
    """
    held = find()
    lane, storage = held.lane_id, held.lane
    cursor = Cursor(storage, max(start, storage.trim_lsn), with_places=with_places)
    message = LaneBatches(lane)
    sent = start
    while cursor.lsn < (end := min(stop, storage.length)):
        try:
            batches = await asyncio.to_thread(_read, cursor, storage, sent, end)
        except Corrupt:
            moved = find()
            if moved is held:
                raise
            held, storage = moved, moved.lane
            cursor = Cursor(storage, max(sent, storage.trim_lsn), with_places=with_places)
            continue
        sent = batches[-1].end_lsn
        if batches[-1].kind == NOOPS and sent >= stop and is_settled(lane):
            batches += _last_snapshot(storage)
        _send(connection, message, batches)
        await connection.drained()
    if sent < stop <= storage.length and is_settled(lane):
        _send(connection, message, _last_snapshot(storage))
    connection.send(Finished())


def _read(cursor: Cursor, storage: Lane | PackedLane, sent: int, stop: int) -> list[Batch]:
    """The next batches for a peer that has all below `sent`, with snapshots where they do not say everything."""
    told: list[Batch] = []
    for batch in cursor.read(stop):
        if batch.base_lsn > sent:
            told += _snapshot(storage, batch.base_lsn)
        told.append(batch)
        sent = batch.end_lsn
        if batch.kind == NOOPS:
            told += _snapshot(storage, sent)
    return told


def _snapshot(storage: Lane | PackedLane, lsn: int) -> list[Batch]:
    """The entry that says what was before the batch at `lsn`; none if that is not known, or nothing is synced there."""
    if lsn >= storage.length:
        return []
    state = storage.state_before(lsn)
    return [] if state.has_holes else [state.snapshot_entry().placed(lsn, storage.seed)]


def _last_snapshot(storage: Lane | PackedLane) -> list[Batch]:
    """The entry that says what a lane that is not being written to holds in all; none if that is not known."""
    state = storage.state
    return [] if state.has_holes else [state.snapshot_entry().placed(state.length, storage.seed)]


def _send(connection: Connection, message: LaneBatches, batches: list[Batch]) -> None:
    """Batches in frames of about `DELIVER_BYTES_MAX`."""
    payload: list[Buffer] = []
    size = 0
    for batch in batches:
        if payload and size + batch.total_bytes > DELIVER_BYTES_MAX:
            connection.send(message, payload=payload)
            payload, size = [], 0
        payload += batch.buffers()
        size += batch.total_bytes
    if payload:
        connection.send(message, payload=payload)
