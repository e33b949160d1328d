"""Reads of a store by replicas in processes of their own, each reading what it has: they share nothing but the log."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection

from ithaca.bench.children import Child, start_child
from ithaca.bench.measure import Budget, Progress, Sample, interleave, repeat
from ithaca.bench.objects.engines import Lineup, Samples
from ithaca.bench.objects.place import Address, Target, log_at
from ithaca.bench.place import SEED
from ithaca.model.engine import EngineName
from ithaca.objects import Store

READS = 1000
"""Gets that are timed together."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What each process is asked to do."""

    keys: tuple[bytes, ...]
    record_bytes: int
    seconds: float


def mirror(parent: Connection, address: Address, name: str) -> None:
    """A mirror's process: plays the store, then reads whenever it is asked to."""
    with log_at(address) as log, Store(log, name, read_only=True) as store:
        parent.send("ready")
        while True:
            parent.send(_read(store, parent.recv()))


def _read(store: Store, reading: Reading) -> Sample:
    names = random.Random(SEED).choices(reading.keys, k=READS)

    def gets(turn: int) -> None:
        for name in names:
            value = store.local_get(name)
            assert value is not None

    return repeat(gets, READS, reading.record_bytes, Budget(reading.seconds))


def measured_mirrors(
    targets: Mapping[EngineName, Target],
    name: str,
    reading: Reading,
    counts: Sequence[int],
    rounds: int,
    progress: Progress,
) -> tuple[Samples, dict[str, str]]:
    """Rates of so many mirrors of the store of this name, and to which number's rate each is compared."""
    lineup = Lineup()
    with ExitStack() as stack:
        for engine, target in targets.items():
            progress(f"starting {max(counts)} processes with a mirror each")
            children = [
                start_child(stack, f"mirror {number}", mirror, target.address, name) for number in range(max(counts))
            ]
            for child in children:
                assert child.answer() == "ready"
            of_one = Lineup({_named(count): _together(children[:count], reading) for count in counts})
            of_one.peers = {_named(count): _named(counts[0]) for count in counts[1:]}
            lineup.add(of_one, engine)
        return interleave(lineup.contenders, rounds, progress), lineup.peers


def _together(children: Sequence[Child], reading: Reading) -> Callable[[], Sample]:
    def measure() -> Sample:
        started = time.perf_counter()
        for child in children:
            child.ask(reading)
        samples: list[Sample] = [child.answer() for child in children]
        seconds = time.perf_counter() - started
        latency = sorted((sample.latency for sample in samples), key=lambda each: each.p50)[len(samples) // 2]
        return Sample(sum(each.records for each in samples), sum(each.bytes for each in samples), seconds, latency)

    return measure


def _named(count: int) -> str:
    return "local gets, 1 process" if count == 1 else f"local gets, {count} processes"
