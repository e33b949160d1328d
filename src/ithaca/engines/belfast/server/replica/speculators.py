"""Speculators at a primary: each gets the lane's batches as soon as they are durable, then how far slots are passed."""

from collections import deque
from dataclasses import dataclass

from ithaca.engines.belfast.limits import SPECULATED_BYTES_MAX
from ithaca.engines.belfast.messages import Speculated
from ithaca.model.errors import Overloaded
from ithaca.model.limits import DELIVER_BYTES_MAX
from ithaca.model.positions import LaneId
from ithaca.model.records import Buffer
from ithaca.runtime.connection import Connection
from ithaca.wire.batch import Batch


@dataclass(eq=False, slots=True)
class _Stream:
    connection: Connection
    length: int = 0
    """Everything of the lane below was sent."""
    watermark: int = 0


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
        self._streams[connection] = _Stream(connection)
        self._send(self._streams[connection], watermark, durable)

    def remove(self, connection: Connection) -> bool:
        """Whether it was one of them."""
        return self._streams.pop(connection, None) is not None

    def moved(self, watermark: int, durable: int) -> None:
        """More is durable, or passed."""
        for stream in list(self._streams.values()):
            self._send(stream, watermark, durable)

    def close(self) -> None:
        """There is no such lane any more."""
        for connection in list(self._streams):
            connection.close()
        self._streams.clear()

    def _send(self, stream: _Stream, watermark: int, durable: int) -> None:
        connection = stream.connection
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
