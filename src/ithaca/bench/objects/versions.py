"""`ithaca bench versions`: versions of objects on clusters of several sizes, in turns with plain appends and reads."""

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ithaca.bench.measure import Budget, Progress, Sample, in_threads, interleave, repeat
from ithaca.bench.objects.place import Contenders, measured_log, report_of
from ithaca.bench.place import SEED, payload, surroundings, workspace
from ithaca.cluster.temporary import Shape
from ithaca.model.interface import ClusterLog
from ithaca.objects import Versions


@dataclass(frozen=True, slots=True)
class VersionsSettings:
    """A cluster of `shape` for each number of shards."""

    shape: Shape
    shards: tuple[int, ...] = (1, 2)
    record_bytes: int = 4096
    clients: int = 8
    seconds: float = 2.0
    rounds: int = 5
    objects: int = 200
    """In each shard."""
    batch: int = 1


def run_versions(parent: Path, settings: VersionsSettings, progress: Progress) -> dict[str, Any]:
    """Everything the settings ask for, as one JSON-ready report."""
    with workspace(parent) as directory, ExitStack() as stack:
        setting = asdict(settings) | surroundings(directory)
        contenders: Contenders = {}
        peers: dict[str, str] = {}
        for count in settings.shards:
            shape = replace(settings.shape, shards=count)
            place = directory / f"{count}-shards"
            log = stack.enter_context(measured_log(place, shape, progress))
            assert isinstance(log, ClusterLog)
            added, of_added = _of_one(stack, log, count, settings)
            contenders |= added
            peers |= of_added
        samples = interleave(contenders, settings.rounds, progress)
    return report_of("versions", samples, peers, setting)


def _of_one(
    stack: ExitStack, log: ClusterLog, count: int, settings: VersionsSettings
) -> tuple[Contenders, dict[str, str]]:
    versions = stack.enter_context(Versions(log, "measured"))
    value = payload(settings.record_bytes)
    names = [b"%06d" % number for number in range(count * settings.objects)]
    known = [versions.put(name, value, shard=number % count) for number, name in enumerate(names)]
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
        f"{size}, append": many(lambda at: log.append_to_shard(at % count, value)),
        f"{size}, put": many(lambda at: versions.put(names[at], value, shard=at % count)),
        f"{size}, read": many(lambda at: log.read(known[at].position, shard=known[at].shard)),
        f"{size}, get": many(lambda at: versions.get(names[at], at_least=0)),
    }
    return contenders, {f"{size}, put": f"{size}, append", f"{size}, get": f"{size}, read"}
