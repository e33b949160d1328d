"""One subscription's stream: a connection of its own to one server, and to another when that one ends.

Backpressure is TCP's: with too many bytes received and not taken, nothing more is read from the socket.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np

from ithaca.engines.raft.client.links import HELLO
from ithaca.engines.raft.client.producer import SHARD
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import Deliver, Delivered, Subscribe
from ithaca.engines.raft.name import LANE
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError, StorageError, Unavailable
from ithaca.model.limits import STREAM_BUFFER_BYTES_MAX
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.failures import error_of
from ithaca.protocol.filters import Filter
from ithaca.protocol.greeting import Failure, Finished
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.connection import Connection, dial
from ithaca.runtime.machine import rng
from ithaca.wire.batch import DATA, Batch, lane_seed, parse
from ithaca.wire.positioned import AnyPositioned, PositionedBatch, ScatteredBatch

_ASK_ANOTHER = (Unavailable, ProtocolError, StorageError)
"""What another server may not answer."""
_SEED = lane_seed(LANE)


class Stream:
    """The records from a position on, up to `stop` or for ever. It is a `read_ahead.Source`."""

    def __init__(
        self,
        position: int,
        stop: int | None,
        where: Filter | None,
        servers: Servers,
        wake: Callable[[], None],
    ) -> None:
        """`wake` is called when there is something to read, or an end."""
        self.position = position
        """Everything below was read."""
        self.error: IthacaError | None = None
        self.problem: IthacaError | None = None
        """Why nothing comes, if it is known."""
        self._received = position  # everything below was received
        self._stop = stop
        self._where = where
        self._servers = servers
        self._wake = wake
        self._pieces: deque[tuple[list[AnyPositioned], int, int]] = deque()
        """What was received and not read: batches, where they end, and their bytes."""
        self._buffered_bytes = 0
        self._is_paused = False
        self._is_over = stop is not None and position >= stop
        self._connection: Connection | None = None
        self._address: Address | None = None
        self._damage: dict[Address, Corrupt] = {}
        self._pauses = Backoff()
        self._task = None if self._is_over else asyncio.get_running_loop().create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._is_over and not self._pieces

    def read(self) -> list[AnyPositioned]:
        if not self._pieces:
            return []
        batches, self.position, size = self._pieces.popleft()
        self._buffered_bytes -= size
        if self._is_paused and self._buffered_bytes <= STREAM_BUFFER_BYTES_MAX // 2:
            self._is_paused = False
            if self._connection is not None:
                self._connection.resume_reading()
        return batches

    def change_server(self) -> None:
        """This one is silent where it should not be: go on with another."""
        if self._connection is not None:
            self._connection.abort(Unavailable(f"{self._connection.name} is silent"))

    def close(self) -> None:
        """End it. Idempotent."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
        if self._connection is not None:
            self._connection.close()

    # The connection

    async def _run(self) -> None:
        while not self._is_over:
            addresses = self._servers.addresses
            rng().shuffle(addresses)
            self._address = next((each for each in addresses if each != self._address), addresses[0])
            try:
                connection = await dial(self._address, HELLO, self)
            except IthacaError as error:
                self.problem = error
            else:
                await self._attend(connection)
            if not self._is_over:
                await self._pauses.pause()

    async def _attend(self, connection: Connection) -> None:
        self._connection = connection
        try:
            if self._is_paused:
                connection.pause_reading()
            question = Subscribe(self._received, self._stop, self._where)
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
                assert self._stop is not None
                self._is_over = True
                connection.close()
                self._pieces.append(([], self._stop, 0))
                self._wake()
            case Failure() as failure:
                self._failed(error_of(failure), connection)
            case message:
                raise ProtocolError(f"a server answered Subscribe with {type(message).__name__}")

    def _failed(self, error: IthacaError, connection: Connection) -> None:
        self.problem = error
        connection.close()
        if isinstance(error, Corrupt) and self._address is not None:
            self._damage[self._address] = error
        is_damaged = isinstance(error, Corrupt) and set(self._damage) >= set(self._servers.members)
        if is_damaged or not isinstance(error, _ASK_ANOTHER):
            self._is_over, self.error = True, error
            self._wake()

    def on_lost(self, connection: Connection, error: IthacaError | None) -> None:
        if error is not None:
            self.problem = error

    # What comes

    def _deliver(self, connection: Connection, message: Deliver, received: Received) -> None:
        batches: list[AnyPositioned] = []
        offset, size, after = 0, 0, self._received
        for item in message.items:
            batch = parse(received.payload, offset)
            offset += batch.total_bytes
            found = self._piece(item, batch)
            if found is None:
                continue
            if found.first_position < after:
                raise ProtocolError(f"a server delivers position {found.first_position} after {after}")
            after = found.positions()[-1] + 1 if isinstance(found, ScatteredBatch) else found.stop_position
            batches.append(found)
            size += batch.total_bytes
        self.problem = None
        self._pauses.reset()
        self._damage.clear()
        self._received = max(message.up_to, after)
        self._pieces.append((batches, self._received, size))
        self._buffered_bytes += size
        if self._buffered_bytes > STREAM_BUFFER_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            connection.pause_reading()
        self._wake()

    def _piece(self, item: Delivered, batch: Batch) -> AnyPositioned | None:
        """One delivered batch, cut to what was not received before; None when nothing is left of it."""
        if batch.kind != DATA:
            raise ProtocolError(f"a batch of kind {batch.kind} cannot be delivered")
        if item.rows is not None:
            return self._scattered(item, item.rows, batch)
        if not batch.belongs_to(_SEED) or batch.base_lsn + 1 != item.position:
            raise Corrupt(f"a batch at position {item.position} is not the one that was placed there")
        if not 0 <= item.low < item.high <= batch.count:
            raise ProtocolError(f"the records {item.low} to {item.high} of a batch of {batch.count} are not there")
        start = max(self._received, item.position + item.low)
        if start >= item.position + item.high:
            return None
        return PositionedBatch(batch, item.position, SHARD, start - item.position, item.high)

    def _scattered(self, item: Delivered, rows: bytes, batch: Batch) -> ScatteredBatch | None:
        if len(rows) != 4 * batch.count:
            raise ProtocolError(f"{batch.count} selected records came with {len(rows)} bytes of positions")
        places = np.frombuffer(rows, np.dtype("<u4")).astype(np.int64) + item.position
        if bool((places[1:] <= places[:-1]).any()):
            raise ProtocolError("the positions of selected records do not rise")
        found = ScatteredBatch(batch, places, SHARD).since(self._received)
        return found if len(found) else None
