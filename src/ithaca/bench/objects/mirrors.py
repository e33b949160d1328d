"""Reads of a store by replicas in processes of their own, each reading what it has: they share nothing but the log.

Two processes read twice as much as one only where two cores are free. What a read takes of a processor's time says on a
busy machine, too, whether they are in each other's way.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from statistics import median

from ithaca.bench.children import Child, start_child
from ithaca.bench.measure import Budget, Progress, Sample, interleave, repeat
from ithaca.bench.objects.engines import Lineup, Samples, named
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


@dataclass(frozen=True, slots=True)
class Read:
    """What a process has read, and the processor time that it took."""

    sample: Sample
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Mirrors:
    """What all turns gave, with which number's rate each is compared, and a get's processor time."""

    samples: Samples
    peers: dict[str, str]
    cpu_us: dict[str, float]


def mirror(parent: Connection, address: Address, name: str) -> None:
    """A mirror's process: plays the store, then reads whenever it is asked to."""
    with log_at(address) as log, Store(log, name, read_only=True) as store:
        parent.send("ready")
        while True:
            parent.send(_read(store, parent.recv()))


def _read(store: Store, reading: Reading) -> Read:
    names = random.Random(SEED).choices(reading.keys, k=READS)

    def gets(turn: int) -> None:
        for name in names:
            value = store.local_get(name)
            assert value is not None

    before_s = time.process_time()
    sample = repeat(gets, READS, reading.record_bytes, Budget(reading.seconds))
    return Read(sample, time.process_time() - before_s)


def measured_mirrors(
    targets: Mapping[EngineName, Target],
    name: str,
    reading: Reading,
    counts: Sequence[int],
    rounds: int,
    progress: Progress,
) -> Mirrors:
    """Reads by so many mirrors of the store of this name."""
    lineup = Lineup()
    cpu_us: dict[str, list[float]] = {}
    with ExitStack() as stack:
        for engine, target in targets.items():
            progress(f"starting {max(counts)} processes with a mirror each")
            children = [
                start_child(stack, f"mirror {number}", mirror, target.address, name) for number in range(max(counts))
            ]
            for child in children:
                assert child.answer() == "ready"
            of_one = Lineup()
            for count in counts:
                spent = cpu_us.setdefault(named(engine, _named(count)), [])
                of_one.contenders[_named(count)] = _together(children[:count], reading, spent)
            of_one.peers = {_named(count): _named(counts[0]) for count in counts[1:]}
            lineup.add(of_one, engine)
        samples = interleave(lineup.contenders, rounds, progress)
    return Mirrors(samples, lineup.peers, {name: round(median(each), 3) for name, each in cpu_us.items()})


def _together(children: Sequence[Child], reading: Reading, cpu_us: list[float]) -> Callable[[], Sample]:
    """Has all of them read at once; notes what a get took of a processor."""

    def measure() -> Sample:
        started = time.perf_counter()
        for child in children:
            child.ask(reading)
        reads: list[Read] = [child.answer() for child in children]
        seconds = time.perf_counter() - started
        records = sum(each.sample.records for each in reads)
        cpu_us.append(sum(each.cpu_s for each in reads) * 1e6 / records)
        latency = sorted((each.sample.latency for each in reads), key=lambda each: each.p50)[len(reads) // 2]
        return Sample(records, sum(each.sample.bytes for each in reads), seconds, latency)

    return measure


def _named(count: int) -> str:
    return "local gets, 1 process" if count == 1 else f"local gets, {count} processes"
