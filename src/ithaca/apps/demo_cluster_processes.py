"""The demo's processes: what runs in each producer and in each follower of the cluster.

They speak to the story through a pipe of their own, and end by themselves when the story is gone. Times are
those of the machine's monotonic clock, which all processes share.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import ithaca
from ithaca.apps.demo_cast import Ready
from ithaca.apps.demo_follower import follow_along
from ithaca.apps.transactions import origin, transaction

STEADY_RECORDS_PER_S = 2_500
"""A producer's pace while lag is measured: at full speed, lag would only say how busy the cores are."""
STEADY_BATCH = 50
FAST_BATCH = 500


@dataclass(frozen=True, slots=True)
class Errand:
    """What one producer does: its transactions 1 to `last`, up to `steady` at a steady pace, into `shard`."""

    bootstrap: str
    producer: int
    shard: int
    last: int
    steady: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """`count` transactions from number `first` on are durable and ordered, the first at `position`."""

    producer: int
    first: int
    count: int
    position: int
    shard: int
    began_s: float
    done_s: float


def produce(parent: Connection, errand: Errand) -> None:
    """Append the errand's transactions under a session, each batch once the one before is acknowledged.

    The producer waits for a word from the story before it begins, before it goes to full speed, and before its
    last batch: so all change pace together, and something is appended after whatever the story does.
    """
    with suppress(BrokenPipeError, EOFError), ithaca.connect(errand.bootstrap) as log:
        log.set_shard_policy(lambda key, shards: errand.shard)
        session = log.session(f"producer-{errand.producer}")
        parent.send(Ready())
        parent.recv()
        started = time.monotonic()
        first = 1
        while first <= errand.last:
            is_steady = first <= errand.steady
            size = STEADY_BATCH if is_steady else min(FAST_BATCH, max(1, errand.last // 20))
            last = min(first + size - 1, errand.steady if is_steady else errand.last)
            if first == errand.steady + 1 or last == errand.last:
                parent.recv()
            pairs = [transaction(number, errand.producer) for number in range(first, last + 1)]
            began_s = time.monotonic()
            receipt = session.append_many([value for _, value in pairs], keys=[key for key, _ in pairs], seq=first)
            done_s = time.monotonic()
            parent.send(
                Acknowledged(errand.producer, first, len(pairs), receipt.position, receipt.shard, began_s, done_s)
            )
            if is_steady:
                time.sleep(max(0.0, started + last / STEADY_RECORDS_PER_S - time.monotonic()))
            first = last + 1


def follow(parent: Connection, bootstrap: str, count: int, steady: int) -> None:
    """Follow the log from its beginning; transactions up to number `steady` come at a steady pace."""
    with (
        suppress(BrokenPipeError),
        ithaca.connect(bootstrap) as log,
        log.subscribe("earliest") as subscription,
    ):
        parent.send(Ready())
        follow_along(parent, subscription, count, lambda record: origin(record.value)[1] <= steady)
