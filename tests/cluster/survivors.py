"""Processes that append to a cluster and follow it while its servers are killed, and what they have to say."""

import hashlib
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection

import ithaca
from ithaca.model.interface import Pending, Subscription

BATCH = 25
WINDOW = 6
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Progress:
    """So many records of this process are acknowledged, or were seen."""

    records: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """All that a producer was told: (first number, records, position) of each batch."""

    batches: list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Seen:
    """A digest over everything a follower saw, in its order."""

    digest: str
    problem: str = ""


def value_of(producer: int, number: int) -> bytes:
    return b"%d:%d:%s" % (producer, number, hashlib.blake2b(b"%d/%d" % (producer, number)).hexdigest().encode())


def id_of(value: bytes) -> tuple[int, int]:
    """Producer and number of a record, once its contents are found to be what was sent."""
    producer, number, _ = value.split(b":")
    assert value == value_of(int(producer), int(number)), f"not what was sent: {value!r}"
    return int(producer), int(number)


def produce(parent: Connection, bootstrap: str, producer: int, records: int) -> None:
    """Append records 0 to `records`, some batches in flight at a time."""
    acknowledged: list[tuple[int, int, int]] = []
    flying: deque[tuple[int, Pending]] = deque()

    def take() -> None:
        first, pending = flying.popleft()
        receipt = pending.result()
        acknowledged.append((first, receipt.count, receipt.position))
        parent.send(Progress(first + receipt.count))

    with ithaca.connect(bootstrap, timeout=TIMEOUT_S) as log:
        for first in range(0, records, BATCH):
            if len(flying) >= WINDOW:
                take()
            numbers = range(first, min(first + BATCH, records))
            flying.append((first, log.submit_many([value_of(producer, number) for number in numbers])))
        while flying:
            take()
    parent.send(Acknowledged(acknowledged))


def follow(parent: Connection, bootstrap: str, records: int) -> None:
    """See every record up to the last, and say what was seen."""
    with ithaca.connect(bootstrap, timeout=TIMEOUT_S) as log, log.subscribe("earliest") as subscription:
        parent.send(_watch(subscription, records))


def _watch(subscription: Subscription, records: int) -> Seen:
    digest = hashlib.blake2b(digest_size=16)
    expected = 1
    seen: set[tuple[int, int]] = set()
    while expected <= records:
        for record in subscription.poll(TIMEOUT_S):
            if record.position != expected:
                return Seen("", f"position {record.position} came instead of {expected}")
            who = id_of(record.value)
            if who in seen:
                return Seen("", f"record {who} came twice")
            seen.add(who)
            digest.update(b"%d=%d:%d;" % (record.position, *who))
            expected += 1
    return Seen(digest.hexdigest())
