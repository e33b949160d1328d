"""`ithaca bench store`: atomic puts and gets of several keys, in turns with `append_many` of as many records."""

import random
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ithaca.bench.measure import Budget, Progress, Sample, in_threads, interleave, repeat
from ithaca.bench.objects.place import Contenders, measured_log, report_of
from ithaca.bench.place import SEED, payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.objects import Store


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`keys` are numbers of keys in one operation; the store has `space` of them in all."""

    cluster: str | Shape | None = None
    record_bytes: int = 4096
    keys: tuple[int, ...] = (1, 2, 5, 10)
    clients: int = 8
    space: int = 1000
    seconds: float = 2.0
    rounds: int = 5
    batch: int = 1


def run_store(parent: Path, settings: StoreSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        log = stack.enter_context(measured_log(directory, settings.cluster, progress))
        store = stack.enter_context(Store(log, "measured"))
        names = [b"%08d" % number for number in range(settings.space)]
        value, budget = payload(settings.record_bytes), Budget(settings.seconds)
        store.put_many(dict.fromkeys(names, value))
        contenders: Contenders = {}
        peers: dict[str, str] = {}
        for keys in settings.keys:

            def append(keys: int = keys) -> Sample:
                values = [value] * keys
                return repeat(lambda turn: _done(log.append_many(values)), keys, len(value), budget)

            def put(keys: int = keys) -> Sample:
                draw = random.Random(SEED)
                return repeat(
                    lambda turn: _done(store.put_many(dict.fromkeys(draw.sample(names, keys), value))),
                    keys,
                    len(value),
                    budget,
                )

            def get(keys: int = keys, at_least: int | None = None) -> Sample:
                draw = random.Random(SEED)
                return repeat(
                    lambda turn: _done(store.get_many(draw.sample(names, keys), at_least=at_least)),
                    keys,
                    len(value),
                    budget,
                )

            contenders |= {
                f"append_many {keys}": lambda append=append: in_threads(settings.clients, append),  # type: ignore[misc]
                f"put {keys}": lambda put=put: in_threads(settings.clients, put),  # type: ignore[misc]
                f"get {keys}, fresh": lambda get=get: in_threads(settings.clients, get),  # type: ignore[misc]
                f"get {keys}, local": lambda get=get: get(at_least=0),  # type: ignore[misc]
            }
            peers[f"put {keys}"] = f"append_many {keys}"
        samples = interleave(contenders, settings.rounds, progress)
    return report_of("store", samples, peers, setting)


def _done(result: object) -> None:
    assert result is not None
