"""A producer with a named session and batches in flight. It may be killed, and goes on when it is started again.

Each call is in its history before it is made, and its outcome after it is known: so the next life knows what the last
one left open, and sends it again under the same numbers.
"""

import asyncio
import time
from collections import deque
from contextlib import suppress
from random import Random

from ithaca.model.errors import IthacaError, SequenceGap, Unsupported
from ithaca.model.interface.awaited import Session
from ithaca.model.limits import SESSION_BATCHES_MAX
from ithaca.model.records import Receipt
from ithaca.proof.history import Append, decode
from ithaca.torture.clients.batches import Batch, Pace, batch_of
from ithaca.torture.clients.client import RETRY_S, Client, Errand, passes, patient


async def produce(client: Client) -> None:
    """Append until told to finish; everything that was sent is acknowledged then."""
    log = await client.connected()
    number = client.errand.number
    if client.errand.life == 0:  # at first every shard has its producers; later it is left to the client
        with suppress(Unsupported):
            log.set_shard_policy(lambda key, shards: shards[number % len(shards)])
    producer = SessionProducer(client)
    while not client.is_finishing or producer.open:
        session = await patient(lambda: log.session(client.errand.name))
        producer.check(session.next_seq)
        await producer.send(session)
    await log.close()


class SessionProducer:
    """What was sent, and what is known of it."""

    def __init__(self, client: Client) -> None:
        errand = client.errand
        self._client = client
        self._errand = errand
        self._chance = Random(f"producer {errand.seed} {errand.number} {errand.life}")
        self._pace = Pace(errand.rate)
        self.open, self._next = left_open(errand)
        """Batches that were sent and whose outcome is not known, in their order; the number of the next record."""

    def check(self, next_seq: int) -> None:
        """The session must hold all that was acknowledged, and nothing that was not sent."""
        first = self.open[0].first if self.open else self._next
        assert first <= next_seq <= self._next, (
            f"session {self._errand.name} goes on with {next_seq}: everything before {first} was acknowledged, and "
            f"nothing from {self._next} on was sent"
        )

    async def send(self, session: Session) -> None:
        """Send what is open, then new batches, until told to finish or until one fails."""
        flying = deque((batch, self._start(session, batch)) for batch in self.open)
        try:
            while flying or not self._client.is_finishing:
                window = self._chance.randint(1, SESSION_BATCHES_MAX)
                while len(flying) < window and not self._client.is_finishing:
                    batch = await self._new_batch()
                    flying.append((batch, self._start(session, batch)))
                if flying:
                    batch, task = flying[0]
                    self._acknowledged(batch, await task)
                    flying.popleft()
        except IthacaError as error:
            if not passes(error):
                raise
            await self._settle(flying)
            await asyncio.sleep(RETRY_S)

    async def _new_batch(self) -> Batch:
        await self._pace.next(batch_of(self._errand.seed, self._errand.number, self._next, 0).count)
        batch = batch_of(self._errand.seed, self._errand.number, self._next, time.monotonic_ns())
        self._client.history.write(batch.event("info"))
        self._client.history.flush()
        self._next += batch.count
        self.open.append(batch)
        return batch

    def _start(self, session: Session, batch: Batch) -> "asyncio.Task[Receipt]":
        return asyncio.create_task(session.append_many(batch.values(), keys=batch.keys(), seq=batch.first))

    def _acknowledged(self, batch: Batch, receipt: Receipt) -> None:
        self._client.history.write(batch.event("ok", receipt))
        self._client.count(batch.count)
        self.open.remove(batch)

    async def _settle(self, flying: "deque[tuple[Batch, asyncio.Task[Receipt]]]") -> None:
        """Wait for what is in flight; what is not acknowledged stays open.

        Behind the first, which was refused, there may be gaps.
        """
        outcomes = await asyncio.gather(*(task for _, task in flying), return_exceptions=True)
        for (batch, _), outcome in zip(flying, outcomes, strict=True):
            if isinstance(outcome, Receipt):
                self._acknowledged(batch, outcome)
            elif not isinstance(outcome, IthacaError) or not (passes(outcome) or isinstance(outcome, SequenceGap)):
                raise outcome


def left_open(errand: Errand) -> tuple[list[Batch], int]:
    """What former lives of a producer sent and did not hear of, in order; the number of the next record."""
    invoked: dict[int, int] = {}
    next_number = 1
    for life in range(errand.life):
        for line in errand.history(life).read_bytes().splitlines(keepends=True):
            event = decode(line) if line.endswith(b"\n") else None
            if isinstance(event, Append):
                next_number = max(next_number, event.id[1] + event.n)
                if event.st == "ok":
                    invoked.pop(event.id[1], None)
                else:
                    invoked[event.id[1]] = event.inv
    return [batch_of(errand.seed, errand.number, *each) for each in sorted(invoked.items())], next_number
