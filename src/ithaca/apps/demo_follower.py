"""A follower of a demo: it reads along in a process of its own, hashes, and notes how late steady batches come."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from ithaca.apps.running_hash import RunningHash
from ithaca.model.interface import Subscription
from ithaca.model.records import Record

POLL_S = 0.25
POLL_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class Followed:
    """A follower has seen so many records; at the end it says what it computed."""

    count: int
    digest: str = ""
    lags_ms: tuple[float, ...] = ()
    problem: str = ""


def follow_along(
    parent: Connection, subscription: Subscription, count: int, is_steady: Callable[[Record], bool]
) -> None:
    """Follow the first `count` records of the log, and say how far it is; a lag is that of a batch's first record."""
    running = RunningHash()
    lags_ms: list[float] = []
    position, newest_us, seen = 0, 0, 0
    while seen < count:
        if parent.poll():  # nothing is ever sent: the other end is gone
            return
        records = subscription.poll(POLL_S, max_records=POLL_RECORDS)
        if not records:
            continue
        now_us = time.time_ns() / 1e3
        for record in records:
            if record.position <= position:
                parent.send(Followed(seen, problem=f"after position {position} came {record.position}"))
                return
            position = record.position
            if record.timestamp_us != newest_us and is_steady(record):
                newest_us = record.timestamp_us
                lags_ms.append((now_us - newest_us) / 1e3)
        running.add(records)
        seen += len(records)
        parent.send(Followed(seen))
    parent.send(Followed(seen, running.hexdigest(), tuple(lags_ms)))
