"""`log.speculate`: the merge of `speculation.delivery` over the streams of all lanes, and over what is ordered.

What is ordered is read as well, as any subscription does, while the streams do not say all of it: at the beginning, in
free windows, and when one breaks, comes too late or has forgotten something. So that costs time and nothing else. A
failure of which this handle has not heard, since it was cut off meanwhile, rolls back to what was confirmed.
"""

import asyncio
import copy
from collections import deque
from typing import Self

from ithaca.client.deadline import Deadline
from ithaca.engines.belfast.client.streams import LaneStream, OrderFeed
from ithaca.engines.belfast.limits import READ_AFTER_S, SPECULATIVE_EVENTS_MAX
from ithaca.engines.belfast.messages import SlotOrderIs
from ithaca.engines.belfast.speculation import delivery_events as slots
from ithaca.engines.belfast.speculation.delivery import Speculator
from ithaca.engines.scalog.client.context import Context
from ithaca.engines.scalog.client.read.records import AsyncClusterSubscription
from ithaca.model.errors import InvalidInput, Unavailable
from ithaca.model.interface import awaited
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter, Start
from ithaca.model.speculation import Confirmed, Delivered, Failed, SpeculativeEvent
from ithaca.model.units import Duration, seconds
from ithaca.wire.positioned import PositionedBatch

_LOOK_S = 0.1
"""How often to look how far the order was read, while nothing is read."""


class AsyncSpeculation(awaited.Speculation):
    """One speculator."""

    def __init__(self, context: Context, start: Start, where: KeyFilter | None) -> None:
        self._context = context
        self._start = start
        self._where = where
        self._core: Speculator | None = None
        self._attempt = 0
        """The newest that this handle has heard of."""
        self._events: deque[SpeculativeEvent] = deque()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._error: Exception | None = None
        self._closed = False
        self._is_left = False
        """Whether it was closed itself, and not its handle."""
        self._begun = asyncio.Lock()
        self._feed: OrderFeed | None = None
        self._lanes: dict[LaneId, LaneStream] = {}
        self._waiting: dict[LaneId, tuple[int, int]] = {}
        """Watermarks that hold once the merge has come to a position."""
        self._sent_from: dict[LaneId, int] = {}
        """Lanes whose streams are there, and from which position on they have sent all."""
        self._ordered: AsyncClusterSubscription | None = None
        """None while the streams say all of it."""
        self._is_missing = asyncio.Event()
        self._looking: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None
        context.readers[self] = None

    # Life

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    @property
    def position(self) -> int:
        if self._core is not None:
            return self._core.position
        if isinstance(self._start, int):
            return self._start
        raise InvalidInput("the speculation has not begun: enter its context, or iterate, before asking where it is")

    async def _begin(self) -> None:
        """Settle where to start, and learn the order of slots, once."""
        self._context.check()
        async with self._begun:
            if self._feed is not None:
                return
            self._ordered = AsyncClusterSubscription(self._context, self._start, None)
            await self._ordered.__aenter__()
            self._feed = OrderFeed(self._context, self)
            deadline = Deadline(self._context.timeout_s)
            while self._core is None and not self._closed:
                await self._wait(deadline)
                if self._core is None and deadline.passed:
                    await self.close()
                    raise Unavailable(f"no orderer told the order of slots within {deadline.timeout_s:.3g} s")
            self._reading = asyncio.get_running_loop().create_task(self._read())

    async def close(self) -> None:
        self._is_left = True
        self._release()
        if self._ordered is not None:
            await self._ordered.close()

    def handle_closed(self) -> None:
        self._release()

    def _release(self) -> None:
        self._closed = True
        if self._feed is not None:
            self._feed.close()
        if self._reading is not None:
            self._reading.cancel()
        if self._looking is not None:
            self._looking.cancel()
        for stream in self._lanes.values():
            stream.close()
        self._lanes.clear()
        self._wake.set()

    # Taking

    async def __anext__(self) -> SpeculativeEvent:
        while not self._is_over():
            if self._events:
                event = self._events.popleft()
                self._look_for_room()
                return event
            await self._begin()
            await self._more(None)
        raise StopAsyncIteration

    async def take(self, timeout: Duration | None = None) -> list[SpeculativeEvent]:
        deadline = None if timeout is None else Deadline(seconds(timeout))
        if self._is_over():
            return []
        await self._begin()
        while not self._events and not self._is_over() and (deadline is None or not deadline.passed):
            await self._more(deadline)
        found = [] if self._is_over() else list(self._events)
        self._events.clear()
        self._look_for_room()
        return found

    def _is_over(self) -> bool:
        """Whether it was closed; raises if its handle was."""
        if not self._is_left:
            self._context.check()
        return self._closed

    async def _more(self, deadline: Deadline | None) -> None:
        """Wait for events; raises what ended the reading."""
        if self._events or self._closed:
            return
        if self._error is not None:
            raise copy.copy(self._error)
        await self._wait(deadline)
        if not self._events and self._error is not None:
            raise copy.copy(self._error)

    async def _wait(self, deadline: Deadline | None) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline.left_s)):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _look_for_room(self) -> None:
        is_full = len(self._events) >= SPECULATIVE_EVENTS_MAX
        if is_full:
            self._room.clear()
        else:
            self._room.set()
        for stream in self._lanes.values():
            stream.pause(is_full or (self._core is not None and not self._core.has_room))

    # What is ordered

    async def _read(self) -> None:
        """Read what is ordered, whenever the streams do not say all of it."""
        try:
            while not self._closed:
                await self._room.wait()
                ordered = self._ordered
                if ordered is None:
                    await self._is_missing.wait()
                    assert self._core is not None
                    # Not from where the merge is: a failure may take it back to what is confirmed.
                    ordered = self._ordered = AsyncClusterSubscription(self._context, self._core.confirmed, None)
                batches = await ordered.take_batches(_LOOK_S)
                if ordered is self._ordered:
                    self._take_ordered([each for each in batches if isinstance(each, PositionedBatch)])
                    # Where nothing but empty positions was ordered, there is nothing to take.
                    self._step(slots.OrderedWatermark(ordered.position))
                    if self._has_all():
                        self._ordered = None
                        self._is_missing.clear()
                        await ordered.close()
        except Exception as error:  # whatever it is: nobody else would tell who waits for events
            self._error = error
            self._wake.set()

    def _has_all(self) -> bool:
        """Whether nothing that is ordered is missing, nor will be."""
        return self._core is not None and not self._core.is_behind and self._core.goes_by_streams(self._sent_from)

    def _look_for_missing(self) -> None:
        """Read what is ordered if the streams do not say it, or have not said it after a while."""
        if self._ordered is not None or self._core is None or self._is_missing.is_set():
            return
        if not self._core.goes_by_streams(self._sent_from):
            self._is_missing.set()
        elif self._core.is_behind and self._looking is None:
            loop = asyncio.get_running_loop()
            self._looking = loop.call_later(READ_AFTER_S, self._look_again, self._core.position)

    def _look_again(self, position: int) -> None:
        self._looking = None
        if self._core is not None and self._core.position <= position:
            self._is_missing.set()
        else:
            self._look_for_missing()

    def _take_ordered(self, batches: list[PositionedBatch]) -> None:
        for batch in batches:
            self._step(slots.OrderedRecords(batch.first_position, len(batch), batch))

    def order_is(self, message: SlotOrderIs) -> None:
        """What the leader says of slots."""
        if self._core is None:
            assert self._ordered is not None
            self._core, self._attempt = Speculator(self._ordered.position, message.attempt), message.attempt
        elif message.attempt > self._attempt:
            self._fail(message)
        for window in message.windows:
            self._step(slots.WindowFetched(window))
        for ended in message.ended:
            self._step(slots.LaneEnds(ended.lane, ended.last, ended.end))
        self._step(slots.OrderReached(message.tail, message.attempt))
        self._follow_lanes(message)
        self._look_for_missing()
        self._wake.set()

    def _fail(self, message: SlotOrderIs) -> None:
        """What was promised fails, as the leader says where; or to what was confirmed, if it does not know any more."""
        news = [slots.AttemptFailed(*failed) for failed in message.failed if failed[2] > self._attempt]
        if [each.attempt for each in news] == list(range(self._attempt + 1, message.attempt + 1)):
            for failed in news:
                self._step(failed)
        else:
            self._begin_again(message.attempt)
        self._attempt = message.attempt

    def _begin_again(self, attempt: int) -> None:
        assert self._core is not None
        confirmed = self._core.confirmed
        self._events.append(Failed(confirmed - 1))
        self._core = Speculator(confirmed, attempt)
        self._waiting.clear()
        for stream in self._lanes.values():
            stream.close()
        self._lanes.clear()
        self._sent_from.clear()
        former, self._ordered = self._ordered, AsyncClusterSubscription(self._context, confirmed, None)
        if former is not None:
            former.handle_closed()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = asyncio.get_running_loop().create_task(self._read())

    # Lanes

    def _follow_lanes(self, message: SlotOrderIs) -> None:
        """Listen to the lanes that have slots to come, and no more to those that are over."""
        ended = {each.lane for each in message.ended}
        wanted = {lane for window in message.windows for lane in window.layout.lanes} - ended
        for lane in [lane for lane in self._lanes if lane in ended]:
            self._lanes.pop(lane).close()
            self._sent_from.pop(lane, None)
        for lane in sorted(wanted - self._lanes.keys()):
            self._lanes[lane] = LaneStream(self._context, lane, self)

    def speculated(self, lane: LaneId, batches: list[PositionedBatch], watermark: int, since: int) -> None:
        """What a primary has that is durable."""
        self._sent_from[lane] = since
        for batch in batches:
            self._step(slots.LaneRecords(lane, batch.first_position, len(batch), batch))
        if watermark:
            self._waiting[lane] = (watermark, since)
            self._pass_on()
        if self._core is not None and since > self._core.position:
            self._look_for_missing()

    def stream_ended(self, lane: LaneId) -> None:
        """It is renewed; what comes meanwhile is read."""
        self._sent_from.pop(lane, None)
        self._look_for_missing()

    def _pass_on(self) -> None:
        """Watermarks hold for slots behind which a stream has sent all: what is before is read."""
        assert self._core is not None
        for lane in list(self._waiting):
            watermark, since = self._waiting.get(lane, (0, 0))  # a step before may have been on to it
            if watermark and self._core.position >= since:
                del self._waiting[lane]
                self._step(slots.LaneWatermark(lane, watermark))

    # The merge

    def _step(self, event: slots.SpeculatorEvent) -> None:
        assert self._core is not None
        before = self._core.position
        for effect in self._core.step(event):
            match effect:
                case slots.Delivered():
                    self._deliver(effect)
                case slots.Confirmed(up_to=up_to):
                    self._events.append(Confirmed(up_to))
                case slots.Failed(after=after):
                    self._events.append(Failed(after))
                case slots.FetchWindow():
                    pass  # the leader tells all windows, and what is before them is read
        if self._events:
            self._wake.set()
        if self._waiting and self._core.position != before:
            self._pass_on()
        self._look_for_room()

    def _deliver(self, effect: slots.Delivered) -> None:
        batch = effect.batch
        assert isinstance(batch, PositionedBatch)
        chosen = batch.since(effect.position + effect.skipped)
        found = chosen if self._where is None else chosen.where(self._where)
        self._events.extend(Delivered(record, effect.attempt) for record in found.records())
