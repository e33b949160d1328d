"""`ithaca bench versions`: versions of objects on clusters of several sizes, in turns with plain appends and reads."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ithaca.bench.measure import Budget, Progress, Sample, in_threads, interleave, repeat
from ithaca.bench.objects.engines import Lineup, report_of
from ithaca.bench.objects.place import measured_log
from ithaca.bench.place import SEED, payload, surroundings, workspace
from ithaca.cluster.layout import has_shards
from ithaca.cluster.temporary import Shape
from ithaca.model.engine import FEATURES, EngineName, Feature
from ithaca.model.interface import ClusterLog
from ithaca.model.records import Receipt
from ithaca.objects import Versions


@dataclass(frozen=True, slots=True)
class VersionsSettings:
    """A cluster of `shape` for each number of shards, and for each of the `engines` if there are any.

    An engine that has no shards is measured as it is, once. Where nobody can choose the shard, the log does.
    """

    shape: Shape
    shards: tuple[int, ...] = (1, 2)
    record_bytes: int = 4096
    clients: int = 8
    seconds: float = 2.0
    rounds: int = 5
    engines: tuple[EngineName, ...] = ()
    objects: int = 200
    """In each shard."""
    batch: int = 1


def run_versions(parent: Path, settings: VersionsSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        lineup = Lineup()
        for engine in settings.engines or (settings.shape.engine,):
            for count in settings.shards if has_shards(engine) else (1,):
                shape = replace(settings.shape, shards=count, engine=engine)
                log = stack.enter_context(measured_log(directory / f"{engine}-{count}", shape, progress)).log
                assert isinstance(log, ClusterLog)
                of_one = _of_one(stack, log, shape, settings)
                lineup.add(of_one, engine if settings.engines else "")
        samples = interleave(lineup.contenders, settings.rounds, progress)
    return report_of("versions", samples, lineup.peers, settings.engines, setting)


def _of_one(stack: ExitStack, log: ClusterLog, shape: Shape, settings: VersionsSettings) -> Lineup:
    versions = stack.enter_context(Versions(log, "measured"))
    value, count = payload(settings.record_bytes), shape.shards
    names = [b"%06d" % number for number in range(count * settings.objects)]
    is_chosen = Feature.SHARDS in FEATURES[shape.engine]

    def shard_of(at: int) -> int | None:
        return at % count if is_chosen else None

    def append(at: int) -> Receipt:
        shard = shard_of(at)
        return log.append(value) if shard is None else log.append_to_shard(shard, value)

    known = [versions.put(name, value, shard=shard_of(at)) for at, name in enumerate(names)]
    versions.newest(names[0])

    def many(work: Callable[[int], object]) -> Callable[[], Sample]:
        def one() -> Sample:
            draw = random.Random(SEED)

            def turn(number: int) -> None:
                result = work(draw.randrange(len(names)))
                assert result is not None

            return repeat(turn, 1, len(value), Budget(settings.seconds))

        return lambda: in_threads(settings.clients, one)

    size = "1 shard" if count == 1 else f"{count} shards"
    contenders = {
        f"{size}, append": many(append),
        f"{size}, put": many(lambda at: versions.put(names[at], value, shard=shard_of(at))),
        f"{size}, read": many(lambda at: log.read(known[at].position, shard=known[at].shard)),
        f"{size}, get": many(lambda at: versions.get(names[at], at_least=0)),
    }
    return Lineup(contenders, {f"{size}, put": f"{size}, append", f"{size}, get": f"{size}, read"})
