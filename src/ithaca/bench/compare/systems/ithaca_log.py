"""Ithaca itself: a cluster of each engine, and the log in a directory."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import ithaca
from ithaca.bench.children import reason
from ithaca.bench.cluster.producers import Counted, Turn, append_until, submitter
from ithaca.bench.compare.open_loop import Done, Pace, append_when_due
from ithaca.bench.compare.system import Running, System
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Role, evenly
from ithaca.bench.measure import Progress
from ithaca.cluster.temporary import Shape, TemporaryCluster, temporary_cluster
from ithaca.model.engine import EngineName
from ithaca.model.errors import DeadlineExceeded
from ithaca.model.interface import Log, Pending, Subscription
from ithaca.version import VERSION

WAIT_S: Final = 30.0

SHAPES: dict[EngineName, Shape] = {
    "scalog": Shape(1, 2, 3),
    "belfast": Shape(1, 2, 3, engine="belfast"),
    "corfu": Shape(1, 2, 3, engine="corfu"),
    "raft": Shape(1, 1, 3, engine="raft"),
}
ORDERED: dict[EngineName, str] = {
    "scalog": ", and the order agreed on by a majority of three that synced it",
    "belfast": ", and the order agreed on by a majority of three that synced it",
    "corfu": ", in the order in which a sequencer gave the places away",
    "raft": ", which is a majority",
}
"""What is so of the order when an append is acknowledged, whatever the durability of the records."""
SERVERS: dict[EngineName, str] = {
    "scalog": "one shard of two replicas, three orderers",
    "belfast": "one shard of two replicas, three orderers",
    "corfu": "one chain of two units, three orderers",
    "raft": "three servers with the whole log",
}


class IthacaClient(Client):
    """The synchronous interface, as it is documented."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        return Appended.whole(turn, append_until(turn, values, submitter(self._log, turn.plan)))

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        log, is_single = self._log, pace.turn.plan.batch == 1

        def begin(batch: list[bytes], done: Done) -> None:
            pending = log.submit(batch[0]) if is_single else log.submit_many(batch)
            pending.add_done_callback(partial(tell, done))

        return append_when_due(pace, values, begin)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        pending = [self._log.submit_many(values[turn % len(values)]) for turn in range(-(-fill.records // fill.batch))]
        receipts = [each.result() for each in pending]
        places = [position for receipt in receipts for position in receipt.positions]
        start = min(places)
        return Filled(len(places), fill.record_bytes, (start, max(places) + 1), evenly(places))

    def read_all(self, filled: Filled) -> int:
        start, stop = filled.start
        with self._log.read_range(start, stop) as records:
            return sum(1 for record in records if record.value)

    def read_one(self, filled: Filled, place: Any) -> int:
        return len(self._log.read(place).value)

    @contextmanager
    def subscription(self) -> Iterator[Iterator[bytes]]:
        with self._log.subscribe(self._log.tail()) as subscription:
            yield self._arriving(subscription)

    @staticmethod
    def _arriving(subscription: Subscription) -> Iterator[bytes]:
        while records := subscription.poll(WAIT_S):
            for record in records:
                yield record.value
        raise DeadlineExceeded(f"nothing arrived for {WAIT_S:.0f} s")

    def clear(self) -> None:
        self._log.trim(self._log.tail())

    def close(self) -> None:
        self._log.close()


def tell(done: Done, pending: Pending) -> None:
    """What became of an append."""
    try:
        pending.result(0)
    except Exception as error:
        done(reason(error))
    else:
        done(None)


class IthacaCluster(System):
    """A cluster on this machine, each server a process of its own."""

    order = "total"

    def __init__(self, engine: EngineName, durability: Literal["fsync", "os"] = "fsync") -> None:
        self.name = f"ithaca {engine}" + (", page cache" if durability == "os" else "")
        self.durable = "synced" if durability == "fsync" else "page cache"
        self._engine, self._durability = engine, durability
        holders = "of two servers" if engine != "raft" else "of two of three servers"
        records = f"synced to the disks {holders}" if durability == "fsync" else f"in the page caches {holders}"
        self.acknowledged = records + ORDERED[engine]

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        shape = SHAPES[self._engine]
        asked = Shape(shape.shards, shape.replicas, shape.orderers, self._durability, engine=self._engine)
        with temporary_cluster(directory, asked, progress) as cluster:
            settings = {"engine": self._engine, "servers": SERVERS[self._engine], "durability": self._durability}
            yield Running(partial(connect, cluster.bootstrap), partial(pids_of, cluster), VERSION, settings)


class IthacaDirectory(System):
    """The log in a directory; the process that appends is its server."""

    name = "ithaca embedded"
    copies = 1
    order = "total"
    acknowledged = "synced to one disk"

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        progress("making a log in a directory")
        yield Running(partial(open_directory, directory), tuple, VERSION, {"durability": "fsync"}, appenders_max=1)


def connect(bootstrap: str, role: Role) -> IthacaClient:
    log = ithaca.connect(bootstrap)
    if role == "append":
        log.append(b"ready")  # its session is open from here on
    return IthacaClient(log)


def open_directory(directory: Path, role: Role) -> IthacaClient:
    return IthacaClient(ithaca.open(directory, mode="a" if role == "append" else "r"))


def pids_of(cluster: TemporaryCluster) -> Sequence[int]:
    return [child.pid for child in cluster.state().children if child.pid is not None]
