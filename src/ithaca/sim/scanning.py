"""A range read as tasks of Spark read it, in chunks, and recorded."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

from msgspec import structs

from ithaca.client.scan import AwaitedScan
from ithaca.model.interface.awaited import ClusterLog
from ithaca.model.records import Record
from ithaca.runtime import machine
from ithaca.sim.configuration import Configuration
from ithaca.sim.neighbours import Neighbours
from ithaca.sim.recorder import Recorder
from ithaca.wire.positioned import PositionedRows

CHUNK_BYTES = (1, 500, 1 << 20)
_FILES_END_CHANCE = 0.08
_LOOKS_MAX = 40
"""How often a scan looks at files, at most, where they end."""


async def recorded_scan(
    recorder: Recorder, random: Random, log: ClusterLog, begun: Callable[[int, int, int], Awaitable[AwaitedScan]]
) -> None:
    """Scan from the first position up to somewhere; `begun(start, stop, chunk_bytes)` begins one."""
    start, tail = await recorder.first(log.first()), await recorder.tail(log.tail())
    stop, inv = random.randint(start, tail), recorder.now_ns()
    found: list[Record] = []
    scan = await begun(start, stop, random.choice(CHUNK_BYTES))
    try:
        while chunk := scan.read_local() or await scan.next():
            found += [record for stretch in chunk for record in records_of(stretch)]
    finally:
        await scan.close()
    recorder.ranged(inv, start, stop, None, found)


def with_files_that_end(configuration: Configuration) -> Configuration:
    """The same, or with files that a scan cannot read to their end. Drawn apart from the rest."""
    random = Random(f"files that end of {configuration.seed}")
    return replace(configuration, files_end=random.random() < _FILES_END_CHANCE)


def limit_looks(configuration: Configuration, start: int, stop: int) -> None:
    """Where files end: the next scan of files looks at them so often, and then cannot any more."""
    if configuration.files_end:
        disk = machine.current().local_disk()
        assert isinstance(disk, Neighbours)
        disk.looks_left = Random(f"{configuration.seed} {start} {stop}").randint(1, _LOOKS_MAX)


def records_of(stretch: PositionedRows) -> list[Record]:
    """The records of a piece of a chunk, with their positions."""
    found = stretch.batch.records(0, stretch.shard, stretch.low, stretch.high)
    places = stretch.positions.tolist()
    return [structs.replace(record, position=place) for record, place in zip(found, places, strict=True)]
