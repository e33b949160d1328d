"""The pipeline demo's processes: what runs in each payment gateway.

They speak to the story through a pipe of their own, and end by themselves when the story is gone.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection

import ithaca
from ithaca.apps.demo_cast import Ready
from ithaca.apps.fraud.payments import events

BATCH_RECORDS = 100


@dataclass(frozen=True, slots=True)
class Errand:
    """What one gateway does: its part of a day of `records` payments, at a pace, waiting after `hold_at` of its own."""

    bootstrap: str
    seed: int
    source: int
    records: int
    records_per_s: float
    hold_at: int


@dataclass(frozen=True, slots=True)
class Appended:
    """So many more payments are durable and ordered, by the machine's monotonic clock at `at_s`."""

    count: int
    at_s: float


def produce(parent: Connection, errand: Errand) -> None:
    """Append under a session, a batch once the one before is acknowledged."""

    def shard_of(key: bytes | None, shards: Sequence[int]) -> int:
        return shards[errand.source % len(shards)]

    with suppress(BrokenPipeError, EOFError), ithaca.connect(errand.bootstrap, shard_policy=shard_of) as log:
        session = log.session(f"gateway-{errand.source}")
        made = events(errand.seed, errand.source, errand.records)
        parent.send(Ready())
        parent.recv()
        started, done, is_held = time.monotonic(), 0, True
        while batch := list(islice(made, BATCH_RECORDS)):
            if is_held and done >= errand.hold_at:
                parent.recv()
                is_held = False
            receipt = session.append_many([value for _, value in batch], keys=[key for key, _ in batch])
            done += receipt.count
            parent.send(Appended(receipt.count, time.monotonic()))
            time.sleep(max(0.0, started + done / errand.records_per_s - time.monotonic()))
