"""A replica's lanes on its disk: threads that write, and the slower work of making, cutting and dropping lanes."""

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ithaca.engines.scalog.replica.events import Created, DiskFull, Event, RunsSynced, Synced, Truncated
from ithaca.engines.scalog.storage.held_lane import StoredLane
from ithaca.engines.scalog.storage.lane_store import LaneStore, trim
from ithaca.engines.scalog.storage.limits import PACK_LANES_MIN
from ithaca.engines.scalog.storage.runs import PendingRuns, Runs
from ithaca.model.errors import Corrupt, Fenced, IthacaError, StorageError, StorageFull
from ithaca.model.limits import STORAGE_FULL_RETRY_S
from ithaca.model.positions import LaneId
from ithaca.runtime.lane_writer import LaneWriter
from ithaca.runtime.metrics import ReplicaMetrics
from ithaca.wire.batch import Batch

_log = logging.getLogger("ithaca.replica.disk")


class LaneDisk:
    """Performs what the core wants of the disk. What takes time is done in the background, one after the other."""

    def __init__(
        self,
        store: LaneStore,
        step: Callable[[Event], None],
        fail: Callable[[IthacaError], None],
        metrics: ReplicaMetrics,
        on_damage: Callable[[Corrupt], None],
    ) -> None:
        self._store = store
        self._step = step
        self._fail = fail
        self._metrics = metrics
        self._on_damage = on_damage
        self._settled = 0
        """Lanes that were settled since packs were made last."""
        self._dropped: set[LaneId] = set()
        """Lanes that are to be dropped from packs."""
        self._writers: dict[LaneId, LaneWriter] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._one_at_a_time = asyncio.Lock()
        self._short: set[object] = set()
        """Who has found no space, and has not got through since: the disk is full while there is anybody."""
        self._is_closing = False

    def write(self, lane: LaneId, batch: Batch, position: int = 0) -> None:
        writer = self._writers.get(lane)
        if writer is None:
            writer = self._writers[lane] = self._start_writer(lane)
        writer.write(batch, position)

    def queued_bytes(self, lane: LaneId) -> int:
        writer = self._writers.get(lane)
        return 0 if writer is None else writer.queued_bytes

    def all_queued_bytes(self) -> int:
        return sum(writer.queued_bytes for writer in self._writers.values())

    def create(self, lane: LaneId) -> None:
        async def work() -> None:
            await asyncio.to_thread(self._store.create, lane)
            self._step(Created(lane))

        self._start(work)

    def forget_session(self, lane: LaneId, producer_id: int) -> None:
        held = self._store.lanes.get(lane)
        if held is not None:  # else nothing of it was written
            held.lane.session_expired(producer_id)

    def list_sessions(self, lane: LaneId, at_home: frozenset[int], lsn: int) -> None:
        """Say who is at home in a lane, which may be being made."""

        async def work() -> None:
            held = self._store.lanes.get(lane)
            if held is not None:
                held.lane.sessions_listed(at_home, lsn)

        self._start(work)

    def truncate(self, lane: LaneId, length: int) -> None:
        async def work() -> None:
            await self._end_writer(lane)
            await asyncio.to_thread(self._store.truncate, lane, length)
            self._step(Truncated(lane))

        self._start(work)

    def settle(self, lane: LaneId) -> None:
        """The lane is complete, and so are its runs: nothing will be written to it any more."""

        async def work() -> None:
            await self._end_writer(lane)
            held = self._store.lanes.get(lane)
            if held is not None:
                held.is_settled = True
                self._settled += 1
            if self._settled >= PACK_LANES_MIN:
                await self._pack()

        self._start(work)

    def retire(self, lane: LaneId) -> None:
        """The lane is complete, and may get its positions later: nothing is written to it any more."""
        self._start(lambda: self._end_writer(lane))

    def drop(self, lane: LaneId) -> None:
        """Remove a lane. Of those in packs there may be very many, which are removed together."""

        async def work() -> None:
            await self._end_writer(lane)
            if lane in self._store.lanes:
                await asyncio.to_thread(self._store.drop, lane)
            elif lane in self._store.settled:  # it was put into a pack meanwhile
                await asyncio.to_thread(self._store.forget, [lane])

        async def work_together() -> None:
            while self._dropped:
                gone = list(self._dropped)
                await asyncio.to_thread(self._store.forget, gone)
                self._dropped.difference_update(gone)

        if lane not in self._store.settled:
            self._start(work)
        else:
            self._dropped.add(lane)
            if len(self._dropped) == 1:
                self._start(work_together)

    async def _pack(self) -> None:
        """Put the small lanes among those that are settled into packs."""
        self._settled = 0
        try:
            while len(self._store.packable()) >= PACK_LANES_MIN:
                damaged = await asyncio.to_thread(self._store.pack)
                if damaged is not None:
                    self._on_damage(damaged)
            await asyncio.to_thread(self._store.tidy)
        except StorageFull as error:  # they stay as they are; nothing waits for this
            _log.warning("%s", error)

    def trim(self, first: int) -> None:
        """Positions below `first` are not read any more: give back the segments and pages that hold nothing else."""

        async def work() -> None:
            for held in list(self._store.ordered.values()):
                if held.is_settled and first < held.trims_at:
                    continue
                lsn = min(held.runs.floor_position(first), held.lane.length)
                held.runs.trim(lsn - 1)  # one trimmed record stays, by which peers see that those before it were
                await self._sync_runs([held.runs])
                if len(held.lane.first_lsns) > 1 and held.lane.first_lsns[1] <= lsn:
                    writer = self._writers.get(held.lane_id)
                    if writer is not None:
                        writer.trim(lsn)
                    else:
                        await asyncio.to_thread(trim, held, lsn)
                if held.is_settled:
                    held.trims_at = _next_trim(held)

        self._start(work)

    def sync_runs(self, cut: int) -> None:
        async def work() -> None:
            if self._settled >= PACK_LANES_MIN:
                await self._pack()  # which makes their runs durable as well
            runs = [held.opened_runs for held in list(self._store.lanes.values())]
            await self._sync_runs([each for each in runs if each is not None])
            self._step(RunsSynced(cut))

        self._start(work)

    async def _sync_runs(self, runs: list[Runs]) -> None:
        pending = [(each, prepared) for each in runs if (prepared := each.prepare_sync()) is not None]
        at_once = self._store.lanes_open_max  # since each opens its file
        for start in range(0, len(pending), at_once):
            some = pending[start : start + at_once]
            await asyncio.to_thread(_write_all, [prepared for _, prepared in some])
            for each, prepared in some:
                each.adopt(prepared)
            self._store.close_unneeded()

    async def close(self) -> None:
        """Write what is queued, then leave everything clean."""
        self._is_closing = True
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        failures: list[IthacaError] = []
        for lane in list(self._writers):  # all of them, whatever one says: each has a thread
            try:
                await self._end_writer(lane)
            except IthacaError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        await asyncio.to_thread(self._store.close)

    def _start_writer(self, lane: LaneId) -> LaneWriter:
        return LaneWriter(
            self._store.begin_writing(lane),
            loop=asyncio.get_running_loop(),
            on_synced=lambda length: self._step(Synced(lane, length)),
            on_full=lambda is_full: self._note_space(lane, is_full),
            on_failed=self._fail,
            on_group=self._metrics.synced,
        )

    async def _end_writer(self, lane: LaneId) -> None:
        writer = self._writers.pop(lane, None)
        if writer is not None:
            await writer.close()
            self._note_space(lane, False)  # whatever it lacked space for is not written any more
        held = self._store.lanes.get(lane)
        if held is not None:
            held.is_written = False

    def _note_space(self, who: object, is_short: bool) -> None:
        was_full = bool(self._short)
        if is_short:
            self._short.add(who)
        else:
            self._short.discard(who)
        if bool(self._short) != was_full:
            self._step(DiskFull(not was_full))

    def _start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do some work that may be repeated: on a full disk it is, until there is space."""

        async def run() -> None:
            async with self._one_at_a_time:
                try:
                    await self._until_there_is_space(work)
                except IthacaError as error:
                    self._fail(error)
                except OSError as error:
                    kind = Fenced if error.errno == errno.EIO else StorageError  # it may have been a sync that failed
                    self._fail(kind(f"{error.filename or 'the disk'}: {error.strerror or error}"))

        task = asyncio.create_task(run())
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _until_there_is_space(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while not self._is_closing:
            try:
                await work()
                break
            except StorageFull as error:
                if work not in self._short:
                    _log.warning("%s", error)
                self._note_space(work, True)
                await asyncio.sleep(STORAGE_FULL_RETRY_S)
        self._note_space(work, False)


def _next_trim(held: StoredLane) -> int:
    """The position up to which the first segment of a settled lane reaches, if another one follows it."""
    first_lsns = held.lane.first_lsns
    if len(first_lsns) < 2:
        return held.runs.end_position
    return held.runs.position_of(max(first_lsns[1] - 1, held.runs.first_lsn)) + 1


def _write_all(pending: list[PendingRuns]) -> None:
    for each in pending:
        each.write()
