"""One shard's part of a subscription: a connection of its own to one replica, and to another when that one ends."""

import asyncio
from contextlib import suppress
from typing import Protocol

from ithaca.client.deadline import Deadline
from ithaca.client.merge import Piece
from ithaca.client.streaming.connection import StreamConnection
from ithaca.client.streaming.delivered import check_data, check_rows, scattered
from ithaca.engines.scalog.client.links import Links
from ithaca.engines.scalog.client.order import Order
from ithaca.engines.scalog.client.replicas import ASK_ANOTHER, Replicas, damaged_everywhere
from ithaca.engines.scalog.messages.reading import Deliver, Delivered, Subscribe
from ithaca.model.errors import Corrupt, IthacaError, Lost, ProtocolError, Unavailable
from ithaca.model.limits import ATTEMPT_TIMEOUT_S
from ithaca.model.positions import LaneId
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.filters import Filter
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.dialling import dial
from ithaca.wire.batch import NOOPS, Batch, lane_seed, parse
from ithaca.wire.positioned import PositionedBatch

Ranges = tuple[tuple[int, int], ...]


class Sink(Protocol):
    """Who takes what a stream brings."""

    def received(self, shard: int, pieces: list[Piece], up_to: int, view: int, strewn: Ranges = ()) -> None: ...

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
        self.connection = StreamConnection(self)
        self._address: Address | None = None
        """Where the connection goes, or went last."""
        self._failures: dict[Address, IthacaError] = {}
        """Why replicas did not go on, since something was delivered last."""
        self._seeds: dict[LaneId, int] = {}
        self._pauses = Backoff()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def consumed(self, size: int) -> None:
        """So many bytes of what was received were taken."""
        self.connection.consumed(size)

    def change_replica(self) -> None:
        """This one is silent where it should not be: go on with another."""
        self.connection.change_server()

    def close(self) -> None:
        """End it. Idempotent."""
        self._task.cancel()
        self.connection.close()

    # The connection

    async def _run(self) -> None:
        while not self.connection.is_over:
            places = self._replicas.places(self.shard)
            if not places:
                self.problem = Unavailable(f"shard {self.shard} has no replica")
                self._sink.gone(self.shard)
            else:
                self._address = next((place for place in places if place != self._address), places[0])
                try:
                    connection = await dial(self._address, self._links.hello(), self.connection)
                except IthacaError as error:
                    self.lost(error)
                else:
                    question = Subscribe(self._position, self._stop, self._where)
                    await self.connection.attend(connection, question)
                self._replicas.pass_over(self.shard, self._address)
                self._end_if_damaged(places)
            if self.connection.is_over:
                return
            await self._pauses.pause()
            with suppress(IthacaError):  # the replicas that are known are tried again meanwhile
                await self._order.refresh(Deadline(ATTEMPT_TIMEOUT_S))

    def lost(self, error: IthacaError) -> None:
        """The replica that is asked now does not go on."""
        self.problem = error
        if self._address is not None:
            self._failures[self._address] = error

    def _end_if_damaged(self, places: list[Address]) -> None:
        """No other replica would spare the reader what every one of them has met here."""
        damage = damaged_everywhere(places, self._failures)
        if damage is not None and not self.connection.is_over:
            self.connection.close()
            self._sink.failed(self.shard, damage)

    def finished(self) -> None:
        assert self._stop is not None
        self._sink.received(self.shard, [], self._stop, 0)

    def refused(self, error: IthacaError) -> None:
        self.lost(error)
        if isinstance(error, Lost):
            self.connection.close()
            lost = Piece(self.shard, error.start, error.stop, None, 0, error.start, error)
            self._sink.received(self.shard, [lost], error.stop, self._view)
        elif not isinstance(error, ASK_ANOTHER):
            self.connection.close()
            self._sink.failed(self.shard, error)

    # What comes

    def delivered(self, received: Received) -> None:
        message = received.message
        if not isinstance(message, Deliver):
            raise ProtocolError(f"a replica answered Subscribe with {type(message).__name__}")
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
        self.connection.received(sum(piece.bytes for piece in pieces))
        self._view = message.view
        self._sink.received(self.shard, pieces, message.up_to, message.view, message.strewn)

    def _piece(self, item: Delivered, batch: Batch) -> Piece | None:
        """One delivered batch, cut to what was not received before; None when nothing is left of it."""
        if item.lane.shard != self.shard:
            raise ProtocolError(f"a replica of shard {self.shard} delivers lane {item.lane}")
        if item.rows is not None:
            return self._scattered(item, item.rows, batch)
        if not batch.belongs_to(self._seed(item.lane)):
            raise Corrupt(f"a batch at position {item.position} is not of lane {item.lane}")
        check_rows(batch, item.low, item.high)
        start, stop = max(self._position, item.position + item.low), item.position + item.high
        if start >= stop:
            return None
        follows = item.follows if item.follows and start == item.position + item.low else start
        if batch.kind == NOOPS:
            return Piece(self.shard, start, stop, None, batch.total_bytes, follows)
        check_data(batch)
        low = start - item.position
        found = PositionedBatch(batch, item.position, self.shard, low, item.high)
        return Piece(self.shard, start, stop, found, batch.total_bytes, follows)

    def _scattered(self, item: Delivered, rows: bytes, batch: Batch) -> Piece | None:
        found = scattered(batch, rows, item.position, self.shard).since(self._position)
        if not len(found):
            return None
        start = found.first_position
        return Piece(self.shard, start, found.stop_position, found, batch.total_bytes, start)

    def _seed(self, lane: LaneId) -> int:
        seed = self._seeds.get(lane)
        if seed is None:
            seed = self._seeds[lane] = lane_seed(lane)
        return seed
