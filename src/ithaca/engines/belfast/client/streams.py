"""What a speculator listens to: the leader, for the order of slots, and the primary of each lane, for its records."""

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Protocol

from ithaca.client.deadline import Deadline
from ithaca.engines.belfast.messages import FollowSlots, SlotOrderIs, Speculate, Speculated
from ithaca.engines.scalog.client.context import Context
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Message, Received
from ithaca.protocol.greeting import Failure, Redirect
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.connection import Connection
from ithaca.runtime.dialling import dial
from ithaca.wire.batch import DATA, lane_seed, parse
from ithaca.wire.positioned import PositionedBatch


class Sink(Protocol):
    """Who takes what comes."""

    def order_is(self, message: SlotOrderIs) -> None: ...

    def speculated(self, lane: LaneId, batches: list[PositionedBatch], watermark: int, since: int) -> None: ...

    def stream_ended(self, lane: LaneId) -> None: ...


class _Listening(ABC):
    """One connection at a time, renewed until it is closed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._connection: Connection | None = None
        self._is_closed = False
        self._is_paused = False
        self._pauses = Backoff()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """End it. Idempotent."""
        self._is_closed = True
        self._task.cancel()
        if self._connection is not None:
            self._connection.close()

    def pause(self, is_paused: bool) -> None:
        """Have it wait, or go on: backpressure is TCP's."""
        if is_paused != self._is_paused:
            self._is_paused = is_paused
            if self._connection is not None and is_paused:
                self._connection.pause_reading()
            elif self._connection is not None:
                self._connection.resume_reading()

    async def _run(self) -> None:
        while not self._is_closed:
            address = self._address()
            if address is not None:
                with suppress(IthacaError):
                    await self._attend(address)
            await self._pauses.pause()
            with suppress(IthacaError):  # who leads, and where lanes are, may have changed
                await self._context.order.refresh(Deadline(ATTEMPT_TIMEOUT_S))

    async def _attend(self, address: Address) -> None:
        connection = await dial(address, self._context.links.hello(), self)
        self._connection = connection
        try:
            if self._is_paused:
                connection.pause_reading()
            connection.send(self._question(), correlation=connection.next_correlation())
            await connection.wait_lost()
        finally:
            self._connection = None
            connection.close()
            if not self._is_closed:
                self._ended()

    def _ended(self) -> None:  # noqa: B027 - most need not do anything
        """The connection has ended, and will be renewed."""

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:  # noqa: B027 - nothing to do
        """It is dialled again."""

    def on_message(self, connection: Connection, received: Received) -> None:
        if not self._is_closed and connection is self._connection:
            match received.message:
                case Failure():
                    connection.close()
                case message:
                    self._take(connection, message, received)

    @abstractmethod
    def _address(self) -> Address | None:
        """Whom to ask; None while that is not known."""

    @abstractmethod
    def _question(self) -> Message:
        """What to ask for."""

    @abstractmethod
    def _take(self, connection: Connection, message: Message, received: Received) -> None:
        """An answer has come."""


class OrderFeed(_Listening):
    """The order of slots, from whoever leads."""

    def __init__(self, context: Context, sink: Sink) -> None:
        super().__init__(context)
        self._sink = sink
        self._leader: Address | None = None
        self._asked = 0

    def _address(self) -> Address | None:
        orderers = self._context.order.orderers
        leader, self._leader = self._leader, None
        self._asked += 1
        return leader or orderers[self._asked % len(orderers)]

    def _question(self) -> Message:
        return FollowSlots()

    def _take(self, connection: Connection, message: Message, received: Received) -> None:
        match message:
            case SlotOrderIs():
                self._pauses.reset()
                self._sink.order_is(message)
            case Redirect(leader, _):
                self._leader = leader
                connection.close()
            case _:
                raise ProtocolError(f"an orderer answered FollowSlots with {type(message).__name__}")


class LaneStream(_Listening):
    """The records of one lane, from its primary."""

    def __init__(self, context: Context, lane: LaneId, sink: Sink) -> None:
        self.lane = lane
        self._sink = sink
        self._seed = lane_seed(lane)
        super().__init__(context)

    def _address(self) -> Address | None:
        shard = next((each for each in self._context.order.view.shards if each.shard == self.lane.shard), None)
        replica = None if shard is None else shard.find(self.lane.replica)
        return None if replica is None else replica.address

    def _question(self) -> Message:
        return Speculate(self.lane)

    def _ended(self) -> None:
        self._sink.stream_ended(self.lane)

    def _take(self, connection: Connection, message: Message, received: Received) -> None:
        if not isinstance(message, Speculated) or message.lane != self.lane:
            raise ProtocolError(f"a replica answered Speculate with {type(message).__name__}")
        self._pauses.reset()
        batches: list[PositionedBatch] = []
        offset = 0
        for position in message.positions:
            batch = parse(received.payload, offset)
            offset += batch.total_bytes
            if batch.kind != DATA or not batch.belongs_to(self._seed):
                raise Corrupt(f"a batch from {connection.name} is not of lane {self.lane}")
            batches.append(PositionedBatch(batch, position, self.lane.shard, 0, batch.count))
        self._sink.speculated(self.lane, batches, message.watermark, message.since)
