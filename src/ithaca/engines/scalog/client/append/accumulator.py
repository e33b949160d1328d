"""What waits to be sent through one producer.

A turn of the loop is waited for before the first batch is cut, so that whatever one turn submits travels together.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ithaca.client.appending.coalescing import Cut, Waiting, WaitingAppends, answer
from ithaca.client.appending.outgoing import Outgoing
from ithaca.client.intake import RecordSlot, refuse
from ithaca.engines.scalog.client.append.home import Homes
from ithaca.engines.scalog.client.append.producer import Producer
from ithaca.engines.scalog.ordering.outcomes import Session
from ithaca.model.errors import IthacaError, SessionExpired
from ithaca.model.positions import LaneId
from ithaca.model.records import Compression


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
    """A batch that is under way."""

    __slots__ = ("_accumulator", "_cut")

    def __init__(self, accumulator: "Accumulator", cut: Cut) -> None:
        self._accumulator = accumulator
        self._cut = cut

    def settled(self, outcome: int | IthacaError, shard: int) -> None:
        self._accumulator.settled(self._cut, outcome, shard)


class Accumulator:
    """The way into one lane, for one handle."""

    def __init__(self, lane: LaneId, homes: Homes, compression: Compression, owner: Owner) -> None:
        self.lane = lane
        """Where the session lives."""
        self._homes = homes
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._waiting = WaitingAppends(compression)
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
        self._waiting.add(waiting)
        self._flush_soon()

    def add_all(self, run: Sequence[RecordSlot]) -> None:
        """Queue records in this order; never waits."""
        self._waiting.add_all(run)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush)

    def take_back(self) -> list[Waiting]:
        """What was not sent yet, to be sent elsewhere."""
        return self._waiting.take_all()

    async def close(self, error: IthacaError) -> None:
        """Stop; what is not settled fails."""
        self.fail_waiting(error)
        if self._producer is not None:
            await self._producer.close(error)

    def fail_waiting(self, error: IthacaError) -> None:
        for waiting in self.take_back():
            refuse(waiting.slot, error)
            self._owner.settled(waiting.size_bytes)

    # Sending

    def _flush(self) -> None:
        self._is_scheduled = False
        producer = self._producer
        if producer is None:
            return
        producer.start()
        while producer.has_room and (cut := self._waiting.cut(len(producer), self._numbers)) is not None:
            producer.send(Outgoing(cut.batch, _Sent(self, cut)))

    def _numbers(self, count: int) -> tuple[int, int, int]:
        session = self.session
        assert session is not None
        first_seq = self._next_seq
        self._next_seq += count
        return session.producer_id, session.epoch, first_seq

    # Answers

    def settled(self, cut: Cut, outcome: int | IthacaError, shard: int) -> None:
        """A batch is in the log, or will never be."""
        if isinstance(outcome, SessionExpired) and not outcome.outcome_unknown:
            for waiting in cut.appends:  # only the session is at its end, which made room for others
                self._owner.put_again(waiting)
            return
        if isinstance(outcome, IthacaError):
            for waiting in cut.appends:
                refuse(waiting.slot, outcome)
        else:
            assert self._producer is not None
            self._owner.placed(outcome, outcome + cut.batch.count, shard)
            answer(cut.appends, outcome, shard, self._producer.durability)
        self._owner.settled(cut.size_bytes)

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
