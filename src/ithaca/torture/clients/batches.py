"""What producers append. A batch of a session is a function of the seed, the session and its first number: so a
producer that was killed can send the same batches again."""

import asyncio
import time
from dataclasses import dataclass
from random import Random

from msgspec import UNSET

from ithaca.model.records import Receipt
from ithaca.proof.history import LATER_US, Append, Outcome
from ithaca.proof.payload import HEAD_BYTES, encode

KEYS = tuple(f"key-{number}" for number in range(8))
KEYED = 0.75
"""The part of batches that have a key."""
COUNTS = ((1, 1), (2, 9), (20, 120), (200, 500))
"""Records in a batch: between two of these."""
WEIGHTS = (3, 4, 4, 2)
CLOCK_SLACK_US = 1_000_000
"""What the machine's time of day may be set by while a batch is under way."""
BEHIND_S_MAX = 1.0
"""A producer that is further behind its pace than this forgets about it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Record `first` of a session and the `count - 1` behind it; `invoked` is when they were sent first."""

    session: int
    first: int
    count: int
    size: int
    key: str | None
    invoked: int

    def values(self) -> list[bytes]:
        return [encode(self.session, number, self.size) for number in range(self.first, self.first + self.count)]

    def keys(self) -> list[bytes | None] | None:
        return None if self.key is None else [self.key.encode()] * self.count

    def event(self, outcome: Outcome, receipt: Receipt | None = None) -> Append:
        """The line that says what became of it."""
        returned, now_us = time.monotonic_ns(), time.time_ns() // 1000
        low_us = now_us - (returned - self.invoked) // 1000 - CLOCK_SLACK_US
        bounds = low_us, LATER_US if outcome == "info" else now_us + CLOCK_SLACK_US  # it may still be made and sent
        position, shard = (None, UNSET) if receipt is None else (receipt.position, receipt.shard)
        record = (self.session, self.first)
        return Append(record, self.count, self.invoked, returned, outcome, position, self.key, shard, bounds)


def batch_of(seed: int, session: int, first: int, invoked: int) -> Batch:
    """The batch of a session that begins with this number."""
    chance = Random(f"batch {seed} {session} {first}")
    count = chance.randint(*chance.choices(COUNTS, WEIGHTS)[0])
    size = chance.randint(HEAD_BYTES, 200 if count > 100 else 2000)
    key = chance.choice(KEYS) if chance.random() < KEYED else None
    return Batch(session, first, count, size, key, invoked)


class Pace:
    """Keeps a producer to so many records per second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._due_s = time.monotonic()

    async def next(self, count: int) -> None:
        """Wait until it is time for so many more."""
        now_s = time.monotonic()
        self._due_s = max(self._due_s, now_s - BEHIND_S_MAX) + count / self._rate
        await asyncio.sleep(max(0.0, self._due_s - now_s))
