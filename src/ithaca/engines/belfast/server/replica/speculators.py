"""Speculators at a primary: each gets the lane's batches as soon as they are durable, then how far slots are passed.

One whose user has used up its bytes of a second gets nothing meanwhile, and what is still here then. What is not was
ordered, and it reads that as everybody does.
"""

import asyncio
from collections import deque
from dataclasses import dataclass

from ithaca.engines.belfast.limits import SPECULATED_BYTES_MAX
from ithaca.engines.belfast.messages import Speculated
from ithaca.model.errors import Overloaded
from ithaca.model.limits import DELIVER_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer
from ithaca.runtime.connection import Connection
from ithaca.runtime.passage import Passage
from ithaca.wire.batch import Batch


@dataclass(eq=False, slots=True)
class _Stream:
    connection: Connection
    length: int = 0
    """Everything of the lane below was sent."""
    watermark: int = 0
    pacing: asyncio.Task[None] | None = None
    """Until more may be sent to it."""

    def end(self) -> None:
        if self.pacing is not None:
            self.pacing.cancel()


class LaneSpeculators:
    """Those of one lane, and the batches that they may be sent."""

    def __init__(self, lane: LaneId) -> None:
        self.lane = lane
        self._recent: deque[tuple[Batch, int]] = deque()
        """Batches with their positions, in order."""
        self._bytes = 0
        self._since = 0
        """All batches at this position or behind it are among them."""
        self._streams: dict[Connection, _Stream] = {}
        self._reached = (0, 0)
        """The watermark, and how much is durable."""

    def __len__(self) -> int:
        return len(self._streams)

    def placed(self, batch: Batch, position: int, ordered: int) -> None:
        """A batch is written; `ordered` is how much of the lane is ordered, and need not be kept for long."""
        if position:
            self._recent.append((batch, position))
            self._bytes += batch.kept_bytes
        while self._recent and self._bytes > SPECULATED_BYTES_MAX and self._recent[0][0].end_lsn <= ordered:
            gone, at = self._recent.popleft()
            self._bytes -= gone.kept_bytes
            self._since = at + gone.count

    def add(self, connection: Connection, watermark: int, durable: int) -> None:
        self.remove(connection)
        self._reached = (watermark, durable)
        self._streams[connection] = _Stream(connection)
        self._go_on(self._streams[connection])

    def remove(self, connection: Connection) -> None:
        stream = self._streams.pop(connection, None)
        if stream is not None:
            stream.end()

    def moved(self, watermark: int, durable: int) -> None:
        """More is durable, or passed."""
        self._reached = (watermark, durable)
        for stream in list(self._streams.values()):
            self._go_on(stream)

    def close(self) -> None:
        """There is no such lane any more."""
        for stream in self._streams.values():
            stream.end()
            stream.connection.close()
        self._streams.clear()

    def _go_on(self, stream: _Stream) -> None:
        passage = stream.connection.passage
        if stream.pacing is not None:
            return
        if passage is not None and passage.wait_s > 0:
            stream.pacing = asyncio.get_running_loop().create_task(self._pace(stream, passage))
        else:
            self._send(stream)

    async def _pace(self, stream: _Stream, passage: Passage) -> None:
        await passage.paced()
        stream.pacing = None
        self._send(stream)

    def _send(self, stream: _Stream) -> None:
        connection, (watermark, durable) = stream.connection, self._reached
        if not connection.is_writable:
            # It reads what is ordered, as everybody does, and comes again.
            self._streams.pop(connection, None)
            connection.abort(Overloaded(f"{connection.name} does not take what lane {self.lane} delivers"))
            return
        positions: list[int] = []
        payload: list[Buffer] = []
        size = 0
        for batch, position in self._due(stream.length, durable):
            if positions and size + batch.total_bytes > DELIVER_BYTES_MAX:
                connection.send(Speculated(self.lane, tuple(positions), 0, self._since), payload=payload)
                positions, payload, size = [], [], 0
            positions.append(position)
            payload += batch.buffers()
            size += batch.total_bytes
        if positions or watermark > stream.watermark:
            connection.send(Speculated(self.lane, tuple(positions), watermark, self._since), payload=payload)
        stream.length, stream.watermark = max(stream.length, durable), max(stream.watermark, watermark)

    def _due(self, sent: int, durable: int) -> list[tuple[Batch, int]]:
        """What is durable and was not sent, in order; the newest are looked at first, since there are few."""
        due: list[tuple[Batch, int]] = []
        for batch, position in reversed(self._recent):
            if batch.end_lsn <= sent:
                break
            if batch.end_lsn <= durable:
                due.append((batch, position))
        due.reverse()
        return due
