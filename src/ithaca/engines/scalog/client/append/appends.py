"""The appending side of a handle: lanes by policy, one anonymous session in each, a bound on what is under way.

A caller whose time is up is told so; its batch goes on, for the numbers of a session stay dense. A lane that
cannot be reached keeps what was sent to it, and gives back what was not, which then goes to another lane.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from ithaca.client.appending.coalescing import Single, Waiting, Whole
from ithaca.client.appending.under_way import UnderWay
from ithaca.client.deadline import Deadline
from ithaca.client.inflight import InflightBytes
from ithaca.client.intake import RecordSlot, Slot, refuse, take_each
from ithaca.client.settings import check_policy
from ithaca.engines.scalog.client.append.accumulator import Accumulator
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.nearest import measure
from ithaca.engines.scalog.client.append.policy import Lanes
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.read.seen import SeenRanges
from ithaca.engines.scalog.client.replicas import Replicas, check_live
from ithaca.engines.scalog.ordering.entries import ExpireSession
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, Overloaded, SessionError, SessionExpired, Unavailable, WrongLane
from ithaca.model.interface import ShardPolicy
from ithaca.model.limits import EXPIRE_TIMEOUT_S, VIEW_AGE_S_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression
from ithaca.model.view import View
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.machine import new_uuid, rng
from ithaca.users.names import ANONYMOUS
from ithaca.wire.batch import Batch


class Appends:
    """What a handle has under way. All methods belong to its loop."""

    def __init__(
        self,
        order: Order,
        replicas: Replicas,
        seen: SeenRanges,
        *,
        policy: ShardPolicy,
        compression: Compression,
        inflight: InflightBytes,
        timeout_s: float,
    ) -> None:
        self._order = order
        self._replicas = replicas
        self._compression: Compression = compression
        self.under_way = UnderWay(inflight, timeout_s, self._retire_idle)
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._lanes = Lanes(policy, self._loop.time, rng())
        self.homes = Homes(order, replicas, self._lanes.any, self._lanes.in_shard, timeout_s)
        self._seen = seen
        self._accumulators: dict[LaneId, Accumulator] = {}
        self._retiring: dict[Accumulator, bool] = {}
        """Those that end when all is settled, and whether they are ending."""
        self._homeless: deque[Waiting] = deque()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._looked_s = self._loop.time()
        self.set_policy(policy)
        replicas.watch(self)
        order.watch(self)

    def set_policy(self, policy: ShardPolicy) -> None:
        check_policy(policy)
        self._lanes.policy = policy
        if policy == "nearest":
            self._look_for_lanes()

    # Taking

    def take_record(self, value: bytes, key: bytes | None, slot: Slot) -> None:
        """Append one record that was checked; never waits."""
        self._take(Single(value, key, slot))

    def take_records(self, run: Sequence[RecordSlot]) -> None:
        """Append records that were checked, one behind the other; never waits."""
        if self._lanes.policy != "sticky":
            take_each(run, self._take)
            return
        self.under_way.add(sum([each.size_bytes for each in run]), run)
        self._look_if_old()
        lane = self._lanes.any(self._order.view)
        if lane is None:
            self._homeless.extend(run)
            self._look_for_lanes()
        else:
            self._accumulator(lane).add_all(run)

    def take_batch(self, batch: Batch, slot: Slot) -> None:
        """Append one atomic batch that belongs to no producer yet; never waits."""
        self._take(Whole(batch, slot))

    def take_record_in(self, shard: int, value: bytes, key: bytes | None, slot: Slot) -> None:
        """Append one record that was checked to a shard that is there; never waits."""
        self._take(Single(value, key, slot, shard))

    def _take(self, waiting: Waiting) -> None:
        lane = self._lane_of(waiting)  # may raise what a policy of the user's raises
        self.under_way.add(waiting.size_bytes, (waiting.slot,))
        self._look_if_old()
        self._put(lane, waiting)

    def _look_if_old(self) -> None:
        if self._loop.time() - self._looked_s > VIEW_AGE_S_MAX:
            self._look_for_lanes()

    def _put(self, lane: LaneId | None, waiting: Waiting) -> None:
        if lane is None:
            self._homeless.append(waiting)
            self._look_for_lanes()
        else:
            self._accumulator(lane).add(waiting)

    def _lane_of(self, waiting: Waiting) -> LaneId | None:
        view = self._order.view
        if isinstance(waiting, Whole):
            key = None if self._lanes.policy == "sticky" else _first_key(waiting.batch)
            return self._lanes.choose(view, key)
        if waiting.shard is not None:
            check_live(view, waiting.shard)
            return self._lanes.in_shard(view, waiting.shard)
        return self._lanes.choose(view, waiting.key)

    def lane_for(self, shard: int | None) -> LaneId | None:
        """A live lane for something that is no record, in a shard if that is told; None when there is none."""
        view = self._order.view
        if shard is None:
            return self._lanes.any(view)
        check_live(view, shard)
        return self._lanes.in_shard(view, shard)

    def leave(self, lane: LaneId) -> None:
        """The replica that writes this lane has failed: nothing new goes to it for a while."""
        for each in self._order.view.live_lanes():
            if each[:2] == lane[:2]:
                self._lanes.leave(each)

    def settled(self, size: int) -> None:
        """So many bytes are not under way any more."""
        self.under_way.settle(size)

    def _retire_idle(self) -> None:
        for accumulator in [each for each, is_ending in self._retiring.items() if each.is_idle and not is_ending]:
            self._retiring[accumulator] = True
            self._start(self._retire(accumulator))

    # Lanes

    def _accumulator(self, lane: LaneId) -> Accumulator:
        accumulator = self._accumulators.get(lane)
        if accumulator is None:
            accumulator = Accumulator(lane, self.homes, self._compression, self)
            self._accumulators[lane] = accumulator
            self._start(self._open(accumulator))
        return accumulator

    async def _open(self, accumulator: Accumulator) -> None:
        """Open a session for the accumulator; if its lane cannot have one, its records go elsewhere."""
        name, pauses = f"{ANONYMOUS}{new_uuid().hex}", Backoff()
        while True:
            try:
                session = await self.homes.opened(name, Deadline(self._timeout_s), accumulator.lane)
            except WrongLane:
                await pauses.pause()
                await self._look()
                self._give_up(accumulator)
                return
            except IthacaError as error:
                if isinstance(error, Unavailable) and not isinstance(error, Overloaded):
                    await pauses.pause()
                    continue
                self._drop(accumulator)
                accumulator.fail_waiting(error)
                return
            else:
                accumulator.opened(session)
                self.view_changed(self._order.view)  # it may have begun to leave meanwhile
                return

    def _give_up(self, accumulator: Accumulator) -> None:
        """Its lane takes nothing from this session: what was not sent goes elsewhere."""
        self._lanes.leave(accumulator.lane)
        self._drop(accumulator)
        self._reroute(accumulator)

    def _drop(self, accumulator: Accumulator) -> None:
        if self._accumulators.get(accumulator.lane) is accumulator:
            del self._accumulators[accumulator.lane]

    def _reroute(self, accumulator: Accumulator) -> None:
        for waiting in accumulator.take_back():
            self.put_again(waiting)

    def put_again(self, waiting: Waiting) -> None:
        """Send it elsewhere, or to the same lane under another session."""
        try:
            lane = self._lane_of(waiting)
        except Exception as error:  # a policy of the user's may raise anything
            reason = error if isinstance(error, IthacaError) else Unavailable(f"the shard policy failed: {error!r}")
            refuse(waiting.slot, reason)
            self.settled(waiting.size_bytes)
        else:
            self._put(lane, waiting)

    def view_changed(self, view: View) -> None:
        """Send nothing more to shards that take nothing new; the sessions there end once all is settled."""
        leaving = {shard.shard for shard in view.shards if shard.phase != "live"}
        for lane, accumulator in list(self._accumulators.items()):
            if lane.shard in leaving and accumulator.session is not None:
                del self._accumulators[lane]
                self._retiring[accumulator] = False
                self._reroute(accumulator)
        if leaving:
            self.settled(0)

    # What an accumulator calls

    def unreachable(self, accumulator: Accumulator, error: IthacaError) -> None:
        self._lanes.leave(accumulator.lane)
        self._reroute(accumulator)
        self._look_for_lanes()

    def moved(self, accumulator: Accumulator, source: LaneId) -> None:
        """The session lives in another lane: it serves that lane now, or ends if that has a session already."""
        if accumulator in self._retiring:
            return
        if self._accumulators.get(source) is accumulator:
            del self._accumulators[source]
        if self._accumulators.setdefault(accumulator.lane, accumulator) is not accumulator:
            self._retiring[accumulator] = False
            self._reroute(accumulator)
            self.settled(0)

    def failed(self, accumulator: Accumulator, error: IthacaError) -> None:
        self._retiring.pop(accumulator, None)
        if isinstance(error, SessionExpired):  # the lane is as good as before, for another session
            self._drop(accumulator)
            self._reroute(accumulator)
        else:
            self._give_up(accumulator)
        session = accumulator.session
        if session is not None and not isinstance(error, SessionError):
            self._start(self._expire(session))

    def placed(self, start: int, stop: int, shard: int) -> None:
        self._seen.add(start, stop, shard)

    # New lanes

    def shard_leaves(self, view: int) -> None:
        if view > self._order.view.version:
            self._look_for_lanes()

    def _look_for_lanes(self) -> None:
        """Get a newer view in the background."""
        if self._looking is None or self._looking.done():
            self._looking = self._start(self._look())

    async def _look(self) -> None:
        """Until there is a view in which everything that waits has a lane."""
        pauses = Backoff()
        while True:
            self._looked_s = self._loop.time()
            try:
                view = await self._order.fresh_view(Deadline(self._timeout_s))
                if self._lanes.policy == "nearest":
                    self._lanes.distances_s = await measure(self._replicas, view)
            except IthacaError:
                await pauses.pause()
                continue
            homeless, self._homeless = self._homeless, deque()
            for waiting in homeless:
                self.put_again(waiting)
            if not self._homeless:
                return
            await pauses.pause()

    # Ending

    async def close(self, error: IthacaError, deadline: Deadline) -> None:
        """Stop; what is not settled fails with this, and the sessions are forgotten if that is quickly done."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        accumulators = [*self._accumulators.values(), *self._retiring]
        self._accumulators, self._retiring = {}, {}
        sessions = [each.session for each in accumulators if each.session is not None]
        for accumulator in accumulators:
            await accumulator.close(error)
        for waiting in self._homeless:
            refuse(waiting.slot, error)
        self.under_way.close()
        await asyncio.gather(*(self._expire(session, max(deadline.left_s, 0.001)) for session in sessions))

    async def _retire(self, accumulator: Accumulator) -> None:
        session = accumulator.session
        await accumulator.close(Unavailable("the session has ended"))
        self._retiring.pop(accumulator, None)  # not before: it may be moving, and must not serve that lane
        if session is not None:
            await self._expire(session)

    async def _expire(self, session: Session, timeout_s: float = EXPIRE_TIMEOUT_S) -> None:
        deadline = Deadline(min(timeout_s, EXPIRE_TIMEOUT_S))
        with suppress(IthacaError):  # the ordering layer forgets the oldest anonymous sessions by itself
            await self._order.propose(ExpireSession(session.producer_id, session.epoch), deadline)

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task


def _first_key(batch: Batch) -> bytes | None:
    return batch.records(1, 0, 0, 1)[0].key if batch.has_keys else None
