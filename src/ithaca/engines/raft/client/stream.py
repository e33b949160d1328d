"""One subscription's stream: a connection of its own to one server, and to another when that one ends."""

import asyncio
from collections import deque
from collections.abc import Callable

from ithaca.client.streaming.connection import StreamConnection
from ithaca.client.streaming.delivered import check_data, check_rows, scattered
from ithaca.engines.raft.client.producer import SHARD
from ithaca.engines.raft.client.servers import Servers
from ithaca.engines.raft.messages import Deliver, Delivered, Subscribe
from ithaca.engines.raft.name import LANE
from ithaca.model.errors import Corrupt, IthacaError, ProtocolError, StorageError, Unavailable
from ithaca.model.view import Address
from ithaca.protocol.codec import Received
from ithaca.protocol.filters import Filter
from ithaca.runtime.backoff import Backoff
from ithaca.runtime.dialling import dial
from ithaca.runtime.machine import rng
from ithaca.wire.batch import Batch, lane_seed, parse
from ithaca.wire.positioned import AnyPositioned, PositionedBatch

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
        self._connection = StreamConnection(self)
        self._connection.is_over = stop is not None and position >= stop
        self._address: Address | None = None
        self._damage: dict[Address, Corrupt] = {}
        self._pauses = Backoff()
        self._task = None if self._connection.is_over else asyncio.get_running_loop().create_task(self._run())

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes."""
        return self._connection.is_over and not self._pieces

    def read(self) -> list[AnyPositioned]:
        """All that is here, so that a thread that takes it seldom waits for the one that receives."""
        found: list[AnyPositioned] = []
        while self._pieces:
            batches, self.position, size = self._pieces.popleft()
            self._connection.consumed(size)
            found += batches
        return found

    def change_server(self) -> None:
        """This one is silent where it should not be: go on with another."""
        self._connection.change_server()

    def close(self) -> None:
        """End it. Idempotent."""
        if self._task is not None:
            self._task.cancel()
        self._connection.close()

    # The connection

    async def _run(self) -> None:
        while not self._connection.is_over:
            addresses = self._servers.addresses
            rng().shuffle(addresses)
            self._address = next((each for each in addresses if each != self._address), addresses[0])
            try:
                connection = await dial(self._address, self._servers.links.introduction, self._connection)
            except IthacaError as error:
                self.problem = error
            else:
                await self._connection.attend(connection, Subscribe(self._received, self._stop, self._where))
            if not self._connection.is_over:
                await self._pauses.pause()

    def finished(self) -> None:
        assert self._stop is not None
        self._pieces.append(([], self._stop, 0))
        self._wake()

    def refused(self, error: IthacaError) -> None:
        self.problem = error
        if isinstance(error, Corrupt) and self._address is not None:
            self._damage[self._address] = error
        is_damaged = isinstance(error, Corrupt) and set(self._damage) >= set(self._servers.members)
        if is_damaged or not isinstance(error, _ASK_ANOTHER):
            self.error = error
            self._connection.close()
            self._wake()

    def lost(self, error: IthacaError) -> None:
        self.problem = error

    # What comes

    def delivered(self, received: Received) -> None:
        message = received.message
        if not isinstance(message, Deliver):
            raise ProtocolError(f"a server answered Subscribe with {type(message).__name__}")
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
            after = found.stop_position
            batches.append(found)
            size += batch.total_bytes
        self.problem = None
        self._pauses.reset()
        self._damage.clear()
        self._received = max(message.up_to, after)
        self._pieces.append((batches, self._received, size))
        self._connection.received(size)
        self._wake()

    def _piece(self, item: Delivered, batch: Batch) -> AnyPositioned | None:
        """One delivered batch, cut to what was not received before; None when nothing is left of it."""
        if item.rows is not None:
            found = scattered(batch, item.rows, item.position, SHARD).since(self._received)
            return found if len(found) else None
        check_data(batch)
        if not batch.belongs_to(_SEED) or batch.base_lsn + 1 != item.position:
            raise Corrupt(f"a batch at position {item.position} is not the one that was placed there")
        check_rows(batch, item.low, item.high)
        start = max(self._received, item.position + item.low)
        if start >= item.position + item.high:
            return None
        return PositionedBatch(batch, item.position, SHARD, start - item.position, item.high)
