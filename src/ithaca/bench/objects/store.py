"""`ithaca bench store`: atomic puts and gets of several keys, in turns with `append_many` of as many records."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ithaca.bench.measure import Budget, Progress, Sample, in_threads, interleave, repeat
from ithaca.bench.objects.engines import Lineup, on_engines, report_of
from ithaca.bench.objects.mirrors import Mirrors, Reading, measured_mirrors
from ithaca.bench.objects.place import Target, measured_logs
from ithaca.bench.place import SEED, payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import EngineName
from ithaca.model.interface import Log
from ithaca.objects import Store

NAME = "measured"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`keys` are numbers of keys in one operation; the store has `space` of them in all.

    `mix` are shares of gets among the operations of each client, which are gets and puts by chance. `mirrors` are
    numbers of processes that read, each with a replica of its own. With `engines` each has a cluster of this shape.
    """

    cluster: str | Shape | None = None
    record_bytes: int = 4096
    keys: tuple[int, ...] = (1, 2, 5, 10)
    clients: tuple[int, ...] = (8,)
    mix: tuple[float, ...] = ()
    mirrors: tuple[int, ...] = ()
    engines: tuple[EngineName, ...] = ()
    space: int = 1000
    seconds: float = 2.0
    rounds: int = 5
    batch: int = 1

    def names(self) -> tuple[bytes, ...]:
        """All keys of the store."""
        return tuple(b"%08d" % number for number in range(self.space))


def run_store(parent: Path, settings: StoreSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        targets = stack.enter_context(measured_logs(directory, settings.cluster, settings.engines, progress))
        lineup = on_engines(targets, partial(_of_one, stack, settings))
        mirrors = Mirrors({}, {}, {})
        if settings.mirrors:  # first, while nothing but the keys is there to be played
            reading = Reading(settings.names(), settings.record_bytes, settings.seconds)
            mirrors = measured_mirrors(targets, NAME, reading, settings.mirrors, settings.rounds, progress)
        samples = mirrors.samples | interleave(lineup.contenders, settings.rounds, progress)
    report = report_of("store", samples, mirrors.peers | lineup.peers, settings.engines, setting)
    for name, cpu_us in mirrors.cpu_us.items():
        report["contenders"][name]["cpu_us_per_record"] = cpu_us
    return report


def _of_one(stack: ExitStack, settings: StoreSettings, target: Target) -> Lineup:
    store = stack.enter_context(Store(target.log, NAME))
    work = _Work(target.log, store, settings)
    store.put_many(dict.fromkeys(work.names, work.value))
    lineup = Lineup()
    for keys in settings.keys:
        for clients in settings.clients:
            lineup.add(_of_clients(work, keys, clients, settings))
        lineup.contenders[f"get {keys}, local"] = partial(work.get, keys, at_least=0)
    return lineup


def _of_clients(work: "_Work", keys: int, clients: int, settings: StoreSettings) -> Lineup:
    """What so many threads do with so many keys at a time."""
    by = "" if len(settings.clients) == 1 else f", {clients} client{'s' if clients > 1 else ''}"

    def many(one: Callable[[], Sample]) -> Callable[[], Sample]:
        return lambda: in_threads(clients, one)

    append, put = f"append_many {keys}{by}", f"put {keys}{by}"
    lineup = Lineup(
        {
            append: many(partial(work.append, keys)),
            put: many(partial(work.put, keys)),
            f"get {keys}, fresh{by}": many(partial(work.get, keys)),
        },
        {put: append},
    )
    for share in settings.mix:
        mix = f"mix {keys}, {share:g} gets{by}"
        lineup.contenders[mix] = many(partial(work.mix, keys, share))
        lineup.peers[mix] = put
    return lineup


class _Work:
    """What one client does until its time is over."""

    def __init__(self, log: Log, store: Store, settings: StoreSettings) -> None:
        self._log = log
        self._store = store
        self._budget = Budget(settings.seconds)
        self.names = settings.names()
        self.value = payload(settings.record_bytes)

    def append(self, keys: int) -> Sample:
        values = [self.value] * keys
        return self._repeat(keys, lambda: self._log.append_many(values))

    def put(self, keys: int) -> Sample:
        draw = random.Random(SEED)
        return self._repeat(keys, lambda: self._put(draw, keys))

    def get(self, keys: int, at_least: int | None = None) -> Sample:
        draw = random.Random(SEED)
        return self._repeat(keys, lambda: self._store.get_many(draw.sample(self.names, keys), at_least=at_least))

    def mix(self, keys: int, share: float) -> Sample:
        """Linearizable gets, so many of all operations, and puts."""
        draw = random.Random(SEED)
        return self._repeat(
            keys,
            lambda: (
                self._store.get_many(draw.sample(self.names, keys)) if draw.random() < share else self._put(draw, keys)
            ),
        )

    def _put(self, draw: random.Random, keys: int) -> int:
        return self._store.put_many(dict.fromkeys(draw.sample(self.names, keys), self.value))

    def _repeat(self, keys: int, work: Callable[[], object]) -> Sample:
        def turn(number: int) -> None:
            result = work()
            assert result is not None

        return repeat(turn, keys, len(self.value), self._budget)
