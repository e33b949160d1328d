"""What waits to be sent through one producer: single records are gathered into batches while others are in flight.

A turn of the loop is waited for before the first batch is cut, so that whatever one turn submits travels together.
At most `COALESCED_BATCHES_INFLIGHT` batches that are not full are in flight; beyond that a batch waits to be full.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ithaca.client.intake import Slot, refuse
from ithaca.client.outgoing import Outgoing, Waiter, numbered
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.producer import Producer
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, SessionExpired
from ithaca.model.limits import COALESCE_BYTES_MAX, COALESCED_BATCHES_INFLIGHT
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression, Receipt
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build, record_bytes


class Single(NamedTuple):
    """One record."""

    value: bytes
    key: bytes | None
    slot: Slot
    shard: int | None = None
    """Where it must go, whatever the policy says."""


class Whole(NamedTuple):
    """One atomic batch."""

    batch: Batch
    slot: Slot


Waiting = Single | Whole


def bytes_of(waiting: Waiting) -> int:
    """What an append counts for while it is under way."""
    if isinstance(waiting, Single):
        return record_bytes(waiting.value, waiting.key)
    return waiting.batch.total_bytes


class Owner(Protocol):
    """Who has made an accumulator."""

    def unreachable(self, accumulator: "Accumulator", error: IthacaError) -> None:
        """Its lane does not answer; what was sent goes on being tried."""

    def moved(self, accumulator: "Accumulator", source: LaneId) -> None:
        """Its session had this home, and has another one."""

    def failed(self, accumulator: "Accumulator", error: IthacaError) -> None:
        """Its session is at its end."""

    def settled(self, size: int) -> None:
        """So many bytes are not under way any more."""

    def placed(self, start: int, stop: int, shard: int) -> None:
        """The positions of a half-open range are in this shard."""

    def put_again(self, waiting: Waiting) -> None:
        """This was certainly not appended, and can be under another session."""


class _Sent:
    """Appends that travel in one batch, and what they count for."""

    __slots__ = ("_accumulator", "_appends", "_size")

    def __init__(self, accumulator: "Accumulator", appends: Sequence[Waiting], size: int) -> None:
        self._accumulator = accumulator
        self._appends = appends
        self._size = size

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._accumulator.settled(self._appends, self._size, outcome, shard)


class Accumulator:
    """The way into one lane, for one handle."""

    def __init__(self, lane: LaneId, homes: Homes, compression: Compression, owner: Owner) -> None:
        self.lane = lane
        """Where the session lives."""
        self._homes = homes
        self._compression = compression
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()
        self._waiting_bytes = 0
        self._producer: Producer | None = None
        self._next_seq = 1
        self._is_scheduled = False

    @property
    def session(self) -> Session | None:
        return None if self._producer is None else self._producer.session

    @property
    def is_idle(self) -> bool:
        return not self._waiting and (self._producer is None or len(self._producer) == 0)

    def opened(self, session: Session) -> None:
        """The session is there: sending can begin."""
        self.lane = session.home
        self._producer = Producer(self._homes, session, self, one_by_one=False)
        self._producer.start()

    def add(self, waiting: Waiting) -> None:
        """Queue an append; never waits."""
        self._waiting.append(waiting)
        self._waiting_bytes += bytes_of(waiting)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def take_back(self) -> list[Waiting]:
        """What was not sent yet, to be sent elsewhere."""
        waiting, self._waiting, self._waiting_bytes = list(self._waiting), deque(), 0
        return waiting

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails."""
        self.fail_waiting(error)
        if self._producer is not None:
            await self._producer.close(error)

    def fail_waiting(self, error: IthacaError) -> None:
        for waiting in self.take_back():
            refuse(waiting.slot, error)
            self._owner.settled(bytes_of(waiting))

    # Sending

    def _flush(self) -> None:
        self._is_scheduled = False
        producer = self._producer
        if producer is None:
            return
        producer.start()
        while self._waiting and producer.has_room:
            head = self._waiting[0]
            if isinstance(head, Whole):
                self._waiting.popleft()
                self._waiting_bytes -= head.batch.total_bytes
                size, batch = head.batch.total_bytes, numbered(head.batch, self._numbers(head.batch.count))
                self._send(batch, _Sent(self, [head], size))
            elif len(producer) < COALESCED_BATCHES_INFLIGHT or self._waiting_bytes >= COALESCE_BYTES_MAX:
                self._send_singles()
            else:
                break

    def _send_singles(self) -> None:
        waiting, size = self._waiting, 0
        gathered: list[Single] = []
        has_keys = False
        while waiting:
            head = waiting[0]
            if isinstance(head, Whole):
                break
            head_bytes = bytes_of(head)
            if gathered and size + head_bytes > COALESCE_BYTES_MAX:
                break
            waiting.popleft()
            size += head_bytes
            has_keys = has_keys or head.key is not None
            gathered.append(head)
        self._waiting_bytes -= size
        batch = build(
            [each.value for each in gathered],
            [each.key for each in gathered] if has_keys else None,
            timestamp_us=wall_us(),
            compress=self._compression,
            producer=self._numbers(len(gathered)),
        )
        self._send(batch, _Sent(self, gathered, size))

    def _send(self, batch: Batch, waiter: Waiter) -> None:
        assert self._producer is not None
        self._producer.send(Outgoing(batch, waiter))

    def _numbers(self, count: int) -> tuple[int, int, int]:
        session = self.session
        assert session is not None
        first_seq = self._next_seq
        self._next_seq += count
        return session.producer_id, session.epoch, first_seq

    # Answers

    def settled(self, appends: Sequence[Waiting], size: int, outcome: int | IthacaError, shard: int) -> None:
        """A batch with these appends is in the log, or will never be."""
        if isinstance(outcome, SessionExpired) and not outcome.outcome_unknown:
            for waiting in appends:  # only the session is at its end, which made room for others
                self._owner.put_again(waiting)
            return
        if isinstance(outcome, IthacaError):
            for waiting in appends:
                refuse(waiting.slot, outcome)
        else:
            self._answer(appends, outcome, shard)
        self._owner.settled(size)

    def _answer(self, appends: Sequence[Waiting], position: int, shard: int) -> None:
        assert self._producer is not None
        durability = self._producer.durability
        counts = [1 if isinstance(waiting, Single) else waiting.batch.count for waiting in appends]
        self._owner.placed(position, position + sum(counts), shard)
        for waiting, count in zip(appends, counts, strict=True):
            if not waiting.slot.done():
                waiting.slot.set_result(Receipt(position, count, shard, durability))
            position += count

    # What the producer calls

    def has_room(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._flush()

    def unreachable(self, error: IthacaError) -> None:
        self._owner.unreachable(self, error)

    def moved(self) -> None:
        assert self._producer is not None
        source, self.lane = self.lane, self._producer.session.home
        self._owner.moved(self, source)

    def failed(self, error: IthacaError) -> None:
        self._owner.failed(self, error)
