"""The process that reads in a measurement: one handle, and one way of reading at a time."""

import random
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from typing import Literal

import ithaca
from ithaca.bench.children import Child, start_child
from ithaca.bench.cluster.loopback import Loopback, receive_bytes, receive_records, round_trips
from ithaca.bench.measure import Budget, Latency, Sample, repeat
from ithaca.bench.place import SEED
from ithaca.engines.tasks import Scan
from ithaca.model.errors import EmptyPosition, Unavailable
from ithaca.model.interface import ClusterLog, Records
from ithaca.model.limits import MIB

Way = Literal[
    "subscribe, batches",
    "subscribe, records",
    "read_range",
    "read",
    "scan, files",
    "scan, sockets",
    "loopback, bytes",
    "loopback, records",
    "round trip",
]


SCAN_CHUNK_BYTES = 4 * MIB
"""Of a scan, as tasks of Spark have it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is there to be read: so many records in `[start, stop)`, and the same bytes from a bare sender.

    `seconds` is how long single records are asked for, `batch` how many are timed together in a stream.
    """

    start: int
    stop: int
    records: int
    record_bytes: int
    batch: int
    seconds: float
    loopback: Loopback
    positions: tuple[int, ...] = ()
    """Some that hold a record, for single reads; any place in the range where that is dense enough."""


class Reader:
    """The reading process from the outside."""

    def __init__(self, child: Child) -> None:
        self.child = child

    def contender(self, way: Way, reading: Reading) -> Callable[[], Sample]:
        """Has everything read that way, each time it is called."""

        def measure() -> Sample:
            self.child.ask((way, reading))
            sample: Sample = self.child.answer()
            return sample

        return measure


def start_reader(stack: ExitStack, bootstrap: str) -> Reader:
    """A reading process, until the stack is left."""
    return Reader(start_child(stack, "reader", read, bootstrap))


def read(parent: Connection, bootstrap: str) -> None:
    """The reader's process: does what it is asked until the parent is gone."""
    with ithaca.connect(bootstrap) as log:
        while True:
            way, reading = parent.recv()
            parent.send(_read(log, bootstrap, way, reading))


def _read(log: ClusterLog, bootstrap: str, way: Way, reading: Reading) -> Sample:
    match way:
        case "subscribe, batches":
            with log.subscribe(reading.start) as records:
                return _batches(records, reading)
        case "subscribe, records":
            with log.subscribe(reading.start) as records:
                return _records(records, reading)
        case "read_range":
            with log.read_range(reading.start, reading.stop) as records:
                return _records(records, reading)
        case "read":
            return _points(log, reading)
        case "scan, files":
            return _scanned(bootstrap, reading, local=True)
        case "scan, sockets":
            return _scanned(bootstrap, reading, local=False)
        case "loopback, bytes":
            return receive_bytes(reading.loopback)
        case "loopback, records":
            return receive_records(reading.loopback)
        case "round trip":
            return round_trips(reading.loopback, reading.seconds)


def _batches(records: Records, reading: Reading) -> Sample:
    """As vectors; nothing is decoded. What is timed is one batch after the other."""
    durations: list[float] = []
    count, total = 0, reading.records
    started = now = time.perf_counter()
    for batch in records.batches():
        count += len(batch)
        then, now = now, time.perf_counter()
        durations.append(now - then)
        if count >= total:
            break
    return _sample(records, count, now - started, durations, reading)


def _records(records: Records, reading: Reading) -> Sample:
    """Record by record, as a program iterates; timed a batch's worth at a time."""
    durations: list[float] = []
    total = reading.records
    started = now = time.perf_counter()
    for begun in range(0, total, reading.batch):
        deque(islice(records, min(reading.batch, total - begun)), maxlen=0)
        then, now = now, time.perf_counter()
        durations.append(now - then)
    return _sample(records, total, now - started, durations, reading)


def _scanned(bootstrap: str, reading: Reading, *, local: bool) -> Sample:
    """As a task of Spark reads, with a handle of its own: nothing is decoded. One chunk after the other is timed."""
    durations: list[float] = []
    count = 0
    started = now = time.perf_counter()
    with Scan(bootstrap, reading.start, reading.stop, chunk_bytes=SCAN_CHUNK_BYTES, local=local) as scan:
        for chunk in scan:
            count += sum(len(stretch.positions) for stretch in chunk)
            then, now = now, time.perf_counter()
            durations.append(now - then)
        if scan.is_local is not local or count != reading.records:
            raise Unavailable(f"{count} of {reading.records} records were scanned, from files: {scan.is_local}")
    return Sample(count, count * reading.record_bytes, now - started, Latency.of(durations))


def _sample(records: Records, count: int, seconds: float, durations: list[float], reading: Reading) -> Sample:
    if count != reading.records or records.position > reading.stop:
        raise Unavailable(
            f"{count} records from {reading.start} on ended at {records.position}; there are {reading.records} up to "
            f"{reading.stop}"
        )
    return Sample(count, count * reading.record_bytes, seconds, Latency.of(durations))


def _points(log: ClusterLog, reading: Reading) -> Sample:
    """Single records at random places."""
    chosen = random.Random(SEED)

    def read_one(turn: int) -> None:
        while True:
            try:
                if reading.positions:
                    log.read(chosen.choice(reading.positions))
                else:
                    log.read(chosen.randrange(reading.start, reading.stop))
                return
            except EmptyPosition:
                continue  # the next place may hold a record; the time counts

    return repeat(read_one, 1, reading.record_bytes, Budget(reading.seconds))
