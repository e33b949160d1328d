"""What waits to be sent through one producer: single records are gathered into batches while others are in flight.

A turn of the loop is waited for before the first batch is cut, so that whatever one turn submits travels together.
At most `COALESCED_BATCHES_INFLIGHT` batches that are not full are in flight; beyond that a batch waits to be full.
"""

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ithaca.client.intake import Slot
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.outgoing import Done, Outgoing, numbered
from ithaca.engines.scalog.client.append.producer import Producer
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, SessionExpired
from ithaca.model.limits import COALESCE_BYTES_MAX, COALESCED_BATCHES_INFLIGHT
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression, Durability, Receipt
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import HEAD_BYTES, Batch
from ithaca.wire.build import build


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
        return len(waiting.value) + (len(waiting.key) if waiting.key else 0) + HEAD_BYTES
    return waiting.batch.total_bytes


class Owner(NamedTuple):
    """What an accumulator tells the one who has made it."""

    unreachable: Callable[["Accumulator", IthacaError], None]
    moved: Callable[["Accumulator", LaneId], None]
    failed: Callable[["Accumulator", IthacaError], None]
    settled: Callable[[int], None]
    """So many bytes are not under way any more."""
    placed: Callable[[int, int, int], None]
    """The positions of a half-open range are in this shard."""
    again: Callable[[Waiting], None]
    """This was certainly not appended, and can be under another session."""


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
                self._send(head.batch, self._whole_done(head))
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
        self._hand_over(batch, self._singles_done(gathered, size))

    def _send(self, batch: Batch, done: Done) -> None:
        self._hand_over(numbered(batch, self._numbers(batch.count)), done)

    def _hand_over(self, batch: Batch, done: Done) -> None:
        assert self._producer is not None
        self._producer.send(Outgoing(batch, done))

    def _numbers(self, count: int) -> tuple[int, int, int]:
        session = self.session
        assert session is not None
        first_seq = self._next_seq
        self._next_seq += count
        return session.producer_id, session.epoch, first_seq

    # Answers

    def _singles_done(self, singles: list[Single], size: int) -> Done:
        def done(outcome: int | IthacaError, shard: int) -> None:
            if _can_go_again(outcome):
                for single in singles:
                    self._owner.again(single)
                return
            if isinstance(outcome, IthacaError):
                for single in singles:
                    refuse(single.slot, outcome)
            else:
                self._owner.placed(outcome, outcome + len(singles), shard)
                durability = self._durability
                for position, single in enumerate(singles, outcome):
                    if not single.slot.done():
                        single.slot.set_result(Receipt(position, 1, shard, durability))
            self._owner.settled(size)

        return done

    def _whole_done(self, whole: Whole) -> Done:
        def done(outcome: int | IthacaError, shard: int) -> None:
            if _can_go_again(outcome):
                self._owner.again(whole)
                return
            if isinstance(outcome, IthacaError):
                refuse(whole.slot, outcome)
            else:
                self._owner.placed(outcome, outcome + whole.batch.count, shard)
                if not whole.slot.done():
                    whole.slot.set_result(Receipt(outcome, whole.batch.count, shard, self._durability))
            self._owner.settled(whole.batch.total_bytes)

        return done

    @property
    def _durability(self) -> Durability:
        assert self._producer is not None
        return self._producer.durability

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


def _can_go_again(outcome: int | IthacaError) -> bool:
    """Whether only the session is at its end, which made room for others, and the batch was not appended."""
    return isinstance(outcome, SessionExpired) and not outcome.outcome_unknown


def refuse(slot: Slot, error: IthacaError) -> None:
    """Answer a slot with an error of its own, since many may raise it."""
    if not slot.done():
        slot.set_exception(copy.copy(error))
