"""The embedded demo's processes: what runs in the producer and in each follower.

They speak to the story through a pipe of their own, so that a killed one cannot take another's along, and
end by themselves when the story is gone.
"""

import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import ithaca
from ithaca.apps.demo_follower import follow_along
from ithaca.apps.transactions import transaction

SESSION_NAME = "demo-producer"
BATCH_RECORDS = 250
STEADY_RECORDS_PER_S = 25_000
"""The producer's pace while lag is measured: at full speed, lag would only say how busy the cores are."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Transactions `first_seq` up to `last_seq` are durable, the first at `position`.

    So far the producer has appended `fast_records` at full speed, in `fast_s`.
    """

    first_seq: int
    last_seq: int
    position: int
    fast_records: int
    fast_s: float


def produce(parent: Connection, path: str, first_seq: int, last_seq: int, steady_seq: int) -> None:
    """Append transactions `first_seq` to `last_seq`, numbered as the session's records.

    Up to `steady_seq` at a steady pace, from there at full speed. Batches always end at the same numbers,
    so a batch sent again is the batch that was sent before.
    """
    with suppress(BrokenPipeError), ithaca.open(path) as log:
        session = log.session(SESSION_NAME)
        started = fast_since = time.perf_counter()
        fast_records = 0
        seq = first_seq
        while seq <= last_seq:
            batch_last = min(-(-seq // BATCH_RECORDS) * BATCH_RECORDS, last_seq)
            pairs = [transaction(number) for number in range(seq, batch_last + 1)]
            receipt = session.append_many([value for _, value in pairs], keys=[key for key, _ in pairs], seq=seq)
            steady = batch_last <= steady_seq
            fast_records += 0 if steady else len(pairs)
            fast_s = 0.0 if steady else time.perf_counter() - fast_since
            parent.send(Acknowledged(seq, batch_last, receipt.position, fast_records, fast_s))
            if steady:
                due = started + (batch_last - first_seq + 1) / STEADY_RECORDS_PER_S
                time.sleep(max(0.0, due - time.perf_counter()))
                fast_since = time.perf_counter()
            seq = batch_last + 1


def follow(parent: Connection, path: str, count: int, steady_position: int) -> None:
    """Follow the log from its beginning; what is up to `steady_position` comes at a steady pace."""
    with (
        suppress(BrokenPipeError),
        ithaca.open(path, mode="r") as log,
        log.subscribe("earliest") as subscription,
    ):
        follow_along(parent, subscription, count, lambda record: record.position <= steady_position)
