"""Copies of the peers' lanes: batches are pulled from whoever has them, for as long as the core wants them."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from ithaca.engines.scalog.messages.copying import FollowLane, GetRuns, LaneBatches, RunsReply
from ithaca.model.cut import LaneRun
from ithaca.model.errors import Corrupt, IthacaError
from ithaca.model.limits import LANE_PENDING_BYTES_MAX, RECONNECT_PAUSE_S_MAX, RECONNECT_PAUSE_S_MIN
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.greeting import Failure, Finished
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import Said, dial
from ithaca.wire.batch import PLACE, Batch, lane_seed, parse

_log = logging.getLogger("ithaca.replica.copies")

ASKED_EACH = 5
"""How often each source is asked in vain before nobody is said to have more: one may be starting."""


class Taker(Protocol):
    """Who takes what peers send."""

    def received(self, lane: LaneId) -> int:
        """From which LSN on the lane is wanted."""

    def replicated(self, lane: LaneId, batch: Batch, position: int) -> None:
        """`position`: that a place entry says which came with the batch; 0 without one."""

    def queued_bytes(self, lane: LaneId) -> int:
        """How much of the lane waits to be written."""

    def nobody_has(self, lane: LaneId) -> None:
        """All sources were asked for the lane some times, and none sent more of it."""

    def runs_fetched(self, lane: LaneId, runs: list[tuple[LaneRun, int]]) -> None:
        """Runs of the lane, with their times."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A lane that is to be pulled: from its primary without end, or from any of some peers up to `stop`."""

    lane: LaneId
    sources: tuple[Address, ...]
    stop: int | None


class Copies:
    """One task for each lane that is being pulled."""

    def __init__(self, taker: Taker, hello: Callable[[], Said]) -> None:
        self._taker = taker
        self._hello = hello
        self._pulling: dict[LaneId, asyncio.Task[None]] = {}
        self._fetching_runs: dict[LaneId, asyncio.Task[None]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        """All that have not ended, those included that were told to."""
        self._closed = False
        self._paused: dict[LaneId, Connection] = {}

    def pull(self, wanted: Wanted) -> None:
        """In the place of what is being pulled of the lane; its runs go on being fetched."""
        former = self._pulling.pop(wanted.lane, None)
        if former is not None:
            former.cancel()
            self._paused.pop(wanted.lane, None)
        if self._closed:
            return
        # What was of no use would not be at once: something else, such as the runs, has to come first.
        self._pulling[wanted.lane] = self._start(self._pull(wanted, RECONNECT_PAUSE_S_MIN if former else 0))

    def fetch_runs(self, lane: LaneId, start: int, stop: int, sources: tuple[Address, ...]) -> None:
        old = self._fetching_runs.get(lane)
        if old is not None:
            old.cancel()
        if self._closed:
            return
        self._fetching_runs[lane] = self._start(self._fetch_runs(lane, start, stop, sources))

    def stop(self, lane: LaneId) -> None:
        for tasks in (self._pulling, self._fetching_runs):
            task = tasks.pop(lane, None)
            if task is not None:
                task.cancel()
        self._paused.pop(lane, None)

    def written(self, lane: LaneId) -> None:
        """Some of what waited to be written was: a source that had to wait may go on."""
        connection = self._paused.get(lane)
        if connection is not None and self._taker.queued_bytes(lane) < LANE_PENDING_BYTES_MAX // 2:
            del self._paused[lane]
            connection.resume_reading()

    async def close(self) -> None:
        self._closed = True  # what is still written may have the core want more
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def take(self, connection: Connection, lane: LaneId, batch: Batch, position: int) -> None:
        self._taker.replicated(lane, batch, position)
        if self._taker.queued_bytes(lane) > LANE_PENDING_BYTES_MAX and lane not in self._paused:
            self._paused[lane] = connection
            connection.pause_reading()

    async def _pull(self, wanted: Wanted, after_s: float) -> None:
        if after_s:
            await asyncio.sleep(after_s)
        pause_s = RECONNECT_PAUSE_S_MIN
        in_vain = 0
        for source in itertools.cycle(wanted.sources):
            start = self._taker.received(wanted.lane)
            if wanted.stop is not None and start >= wanted.stop:
                return
            pulled = _Pulled(self, wanted.lane)
            try:
                connection = await dial(source, self._hello(), pulled)
            except IthacaError as error:
                _log.info("lane %s cannot be copied from %s: %s", wanted.lane, source, error)
            else:
                try:
                    request = FollowLane(wanted.lane, start, wanted.stop)
                    connection.send(request, correlation=connection.next_correlation())
                    await connection.wait_lost()
                finally:
                    self._paused.pop(wanted.lane, None)
                    connection.abort()
            moved = self._taker.received(wanted.lane) > start
            in_vain = 0 if moved else in_vain + 1
            if wanted.stop is not None and in_vain >= ASKED_EACH * len(wanted.sources):
                self._taker.nobody_has(wanted.lane)
            pause_s = RECONNECT_PAUSE_S_MIN if moved else min(2 * pause_s, RECONNECT_PAUSE_S_MAX)
            await asyncio.sleep(pause_s)

    def heard(self, connection: Connection, lane: LaneId, message: Message) -> None:
        """A source of the lane says something else; an engine that is built on this one may have use for it."""

    async def _fetch_runs(self, lane: LaneId, start: int, stop: int, sources: tuple[Address, ...]) -> None:
        """Ask one source after the other until everything is known."""
        pause_s = RECONNECT_PAUSE_S_MIN
        while start < stop:
            for source in sources:
                start = await self._ask_runs(source, lane, start, stop)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RECONNECT_PAUSE_S_MAX)

    async def _ask_runs(self, source: Address, lane: LaneId, start: int, stop: int) -> int:
        """Pass on what this source knows of the runs; returns up to where."""
        try:
            connection = await dial(source, self._hello(), _Pulled(self, lane))
            try:
                while start < stop:
                    answer = (await connection.request(GetRuns(lane, start, stop))).message
                    if not isinstance(answer, RunsReply) or not answer.runs:
                        break
                    each_follows = zip(answer.runs, answer.follows or itertools.repeat(0), strict=False)
                    runs = [(LaneRun(lane, *run[:3], follows), run[3]) for run, follows in each_follows]
                    start = runs[-1][0].lsn + runs[-1][0].count
                    self._taker.runs_fetched(lane, runs)
            finally:
                connection.abort()
        except IthacaError as error:
            _log.info("runs of lane %s cannot be copied from %s: %s", lane, source, error)
        return start


class _Pulled:
    """What comes from one source."""

    def __init__(self, copies: Copies, lane: LaneId) -> None:
        self._copies = copies
        self._lane = lane
        self._seed = lane_seed(lane)
        self._place: Batch | None = None
        """Of the batch that comes next."""

    def on_message(self, connection: Connection, received: Received) -> None:
        match received.message:
            case LaneBatches(lane) if lane == self._lane:
                offset, payload = 0, received.payload
                while offset < len(payload):
                    batch = parse(payload, offset)
                    if not batch.belongs_to(self._seed):
                        raise Corrupt(f"a batch from {connection.name} is not of lane {lane}")
                    self._take(connection, batch)
                    offset += batch.total_bytes
            case Failure() as failure:
                connection.abort(error_of(failure))
            case Finished():
                connection.close()
            case message:
                self._copies.heard(connection, self._lane, message)

    def _take(self, connection: Connection, batch: Batch) -> None:
        place, self._place = self._place, batch if batch.kind == PLACE else None
        if self._place is None:
            is_its = place is not None and place.base_lsn == batch.base_lsn and batch.count
            self._copies.take(connection, self._lane, batch, place.first_seq if place is not None and is_its else 0)

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if error is not None:
            _log.info("copying lane %s from %s ended: %s", self._lane, connection.name, error)
