"""One shard's part of a subscription: a connection of its own to one replica, and to another when that one ends.

Backpressure is TCP's: with too many bytes received and not taken, nothing more is read from the socket.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

import numpy as np

from ithaca.client.deadline import Deadline
from ithaca.client.merge import Piece
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.replicas import ASK_ANOTHER, Replicas, damaged_everywhere
from ithaca.engines.scalog.messages.reading import Deliver, Delivered, Subscribe
from ithaca.model.errors import Corrupt, IthacaError, Lost, ProtocolError, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S, STREAM_BUFFER_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Failure, Finished
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.connection import Connection, dial
from ithaca.wire.batch import DATA, NOOPS, Batch, lane_seed, parse
from ithaca.wire.positioned import PositionedBatch, ScatteredBatch


class Sink(Protocol):
    """Who takes what a stream brings."""

    def received(self, shard: int, pieces: list[Piece], up_to: int, view: int) -> None: ...

    def gone(self, shard: int) -> None:
        """There is no such shard any more."""

    def failed(self, shard: int, error: IthacaError) -> None:
        """The stream has ended with an error that no other replica would spare it."""


class ShardStream:
    """The records of one shard from a position on, up to `stop` or for ever."""

    def __init__(
        self,
        shard: int,
        position: int,
        stop: int | None,
        where: Filter | None,
        links: Links,
        order: Order,
        replicas: Replicas,
        sink: Sink,
    ) -> None:
        self.shard = shard
        self.problem: IthacaError | None = None
        """Why nothing comes, if it is known."""
        self._position = position  # everything below was received
        self._view = 0  # which holds there
        self._stop = stop
        self._where = where
        self._links = links
        self._order = order
        self._replicas = replicas
        self._sink = sink
        self._is_over = False
        self._buffered_bytes = 0
        self._is_paused = False
        self._connection: Connection | None = None
        self._address: Address | None = None
        """Where the connection goes, or went last."""
        self._failures: dict[Address, IthacaError] = {}
        """Why replicas did not go on, since something was delivered last."""
        self._seeds: dict[LaneId, int] = {}
        self._pauses = Backoff()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def consumed(self, size: int) -> None:
        """So many bytes of what was received were taken."""
        self._buffered_bytes -= size
        if self._is_paused and self._buffered_bytes <= STREAM_BUFFER_BYTES_MAX // 2:
            self._is_paused = False
            if self._connection is not None:
                self._connection.resume_reading()

    def change_replica(self) -> None:
        """This one is silent where it should not be: go on with another."""
        if self._connection is not None:
            self._connection.abort(Unavailable(f"{self._connection.name} is silent"))

    def close(self) -> None:
        """End it. Idempotent."""
        self._is_over = True
        self._task.cancel()
        if self._connection is not None:
            self._connection.close()

    # The connection

    async def _run(self) -> None:
        while not self._is_over:
            places = self._replicas.places(self.shard)
            if not places:
                self.problem = Unavailable(f"shard {self.shard} has no replica")
                self._sink.gone(self.shard)
            else:
                self._address = next((place for place in places if place != self._address), places[0])
                try:
                    connection = await dial(self._address, self._links.hello(), self)
                except IthacaError as error:
                    self._failed_with(error)
                else:
                    await self._attend(connection)
                self._replicas.pass_over(self.shard, self._address)
                self._end_if_damaged(places)
            if self._is_over:
                return
            await self._pauses.pause()
            with suppress(IthacaError):  # the replicas that are known are tried again meanwhile
                await self._order.refresh(Deadline(ATTEMPT_TIMEOUT_S))

    def _failed_with(self, error: IthacaError) -> None:
        """The replica that is asked now does not go on."""
        self.problem = error
        if self._address is not None:
            self._failures[self._address] = error

    def _end_if_damaged(self, places: list[Address]) -> None:
        """No other replica would spare the reader what every one of them has met here."""
        damage = damaged_everywhere(places, self._failures)
        if damage is not None and not self._is_over:
            self._is_over = True
            self._sink.failed(self.shard, damage)

    async def _attend(self, connection: Connection) -> None:
        self._connection = connection
        try:
            if self._is_paused:
                connection.pause_reading()
            question = Subscribe(self._position, self._stop, self._where)
            connection.send(question, correlation=connection.next_correlation())
            await connection.wait_lost()
        finally:
            self._connection = None
            connection.close()

    def on_message(self, connection: Connection, received: Received) -> None:
        if self._is_over or connection is not self._connection:
            return
        match received.message:
            case Deliver() as message:
                self._deliver(connection, message, received)
            case Finished():
                self._is_over = True
                connection.close()
                assert self._stop is not None
                self._sink.received(self.shard, [], self._stop, 0)
            case Failure() as failure:
                error = error_of(failure)
                self._failed_with(error)
                connection.close()
                if isinstance(error, Lost):
                    self._is_over = True
                    lost = Piece(self.shard, error.start, error.stop, None, 0, error.start, error)
                    self._sink.received(self.shard, [lost], error.stop, self._view)
                elif not isinstance(error, ASK_ANOTHER):
                    self._is_over = True
                    self._sink.failed(self.shard, error)
            case message:
                raise ProtocolError(f"a replica answered Subscribe with {type(message).__name__}")

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if error is not None:
            self._failed_with(error)

    # What comes

    def _deliver(self, connection: Connection, message: Deliver, received: Received) -> None:
        pieces, offset, after = [], 0, self._position
        for item in message.items:
            batch = parse(received.payload, offset)
            offset += batch.total_bytes
            piece = self._piece(item, batch)
            if piece is None:
                continue
            if piece.start < after:
                raise ProtocolError(f"a replica of shard {self.shard} delivers position {piece.start} after {after}")
            after = piece.stop
            pieces.append(piece)
        self.problem = None
        self._pauses.reset()
        self._failures.clear()
        self._position = max(message.up_to, after)
        self._buffered_bytes += sum(piece.bytes for piece in pieces)
        if self._buffered_bytes > STREAM_BUFFER_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            connection.pause_reading()
        self._view = message.view
        self._sink.received(self.shard, pieces, message.up_to, message.view)

    def _piece(self, item: Delivered, batch: Batch) -> Piece | None:
        """One delivered batch, cut to what was not received before; None when nothing is left of it."""
        if item.lane.shard != self.shard:
            raise ProtocolError(f"a replica of shard {self.shard} delivers lane {item.lane}")
        if item.rows is not None:
            return self._scattered(item, item.rows, batch)
        if not batch.belongs_to(self._seed(item.lane)):
            raise Corrupt(f"a batch at position {item.position} is not of lane {item.lane}")
        if not 0 <= item.low < item.high <= batch.count:
            raise ProtocolError(
                f"the records {item.low} to {item.high} of a batch of {batch.count} cannot be delivered"
            )
        start, stop = max(self._position, item.position + item.low), item.position + item.high
        if start >= stop:
            return None
        follows = item.follows if item.follows and start == item.position + item.low else start
        if batch.kind == NOOPS:
            return Piece(self.shard, start, stop, None, batch.total_bytes, follows)
        if batch.kind != DATA:
            raise ProtocolError(f"a batch of kind {batch.kind} cannot be delivered")
        low = start - item.position
        found = PositionedBatch(batch, item.position, self.shard, low, item.high)
        return Piece(self.shard, start, stop, found, batch.total_bytes, follows)

    def _scattered(self, item: Delivered, rows: bytes, batch: Batch) -> Piece | None:
        if batch.kind != DATA or len(rows) != 4 * batch.count:
            raise ProtocolError(f"{batch.count} selected records came with {len(rows)} bytes of positions")
        places = np.frombuffer(rows, np.dtype("<u4")).astype(np.int64) + item.position
        if bool((places[1:] <= places[:-1]).any()):
            raise ProtocolError("the positions of selected records do not rise")
        found = ScatteredBatch(batch, places, self.shard).since(self._position)
        if not len(found):
            return None
        start = found.first_position
        return Piece(self.shard, start, int(places[-1]) + 1, found, batch.total_bytes, start)

    def _seed(self, lane: LaneId) -> int:
        seed = self._seeds.get(lane)
        if seed is None:
            seed = self._seeds[lane] = lane_seed(lane)
        return seed
