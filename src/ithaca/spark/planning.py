"""Partitions of a range: the same range gives the same partitions, today and after a restart.

Because a position says where a record is in the total order, a range can be cut anywhere, whatever shards hold it:
partition k is globally before partition k+1. Where positions are dense, they alone say where to cut; elsewhere the
engine says how many records there are (`EngineLog.extents`), so that a partition of empty positions is none. How large
records are is asked of a few of them, and what was written never changes: so that is the same each time, too.

Unless the query says how many partitions it wants, every core of the driver's machine gets as many of them, where that
is worth a task. So another machine may cut the same range elsewhere. No promise rests on it: whatever the cuts are, all
partitions in turn are the range in its order, a batch is repeated as a whole, by tasks of one plan, and what the sink
publishes of it is known by the number of the batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ithaca.engines.tasks import Extents
from ithaca.model.limits import RECORD_BYTES_MAX
from ithaca.model.records import KeyFilter
from ithaca.spark.limits import SPARK_SIZE_SAMPLES, SPARK_TASK_BYTES
from ithaca.spark.options import ReadOptions, Target

_SAMPLED_POSITIONS = 256
"""One record is looked at for so many positions of a range: a small micro-batch is planned after one look."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task leaves out of its range."""

    key_filter: KeyFilter | None = None
    shards: frozenset[int] | None = None
    since_us: int | None = None
    """Of the records' own time, as are all filters on the column `timestamp`; both ends included."""
    until_us: int | None = None


class LogPartition(InputPartition):
    """What one task reads: `[start, stop)` of a log."""

    def __init__(self, target: Target, start: int, stop: int, wanted: Wanted, fail_on_data_loss: bool) -> None:
        super().__init__((start, stop))
        self.target = target
        self.start = start
        self.stop = stop
        self.wanted = wanted
        self.fail_on_data_loss = fail_on_data_loss

    def __repr__(self) -> str:
        shards = "" if self.wanted.shards is None else f", shards {sorted(self.wanted.shards)}"
        return f"LogPartition([{self.start}, {self.stop}){shards})"


def cut(start: int, stop: int, *, min_parts: int, max_records: int) -> list[tuple[int, int]]:
    """The range in even parts: at least so many, none larger than that, and none empty.

    >>> cut(1, 11, min_parts=3, max_records=100)
    [(1, 4), (4, 7), (7, 11)]
    >>> cut(1, 11, min_parts=1, max_records=4)
    [(1, 4), (4, 7), (7, 11)]
    """
    count = max(0, stop - start)
    parts = min(count, max(min_parts, -(-count // max_records)))
    return [(start + count * part // parts, start + count * (part + 1) // parts) for part in range(parts)]


def cut_counted(
    start: int, stop: int, extents: Extents, *, min_parts: int, max_records: int, shards: frozenset[int] | None
) -> list[tuple[int, int]]:
    """The same by the records that there are: parts that cover the range, each with some of them."""
    if start >= stop:
        return []
    found = extents(start, stop, records_max=max_records, shards=shards)
    total = sum(extent.records for extent in found)
    if len(found) < min(min_parts, total):
        found = extents(start, stop, records_max=total // min(min_parts, total), shards=shards)
    return [(extent.start, extent.stop) for extent in found if extent.records]


def task_records(start: int, stop: int, options: ReadOptions, size: Callable[[int], int], cores: int = 1) -> int:
    """At most so many records of the range for one task: those that have about `maxBytesPerPartition`, or fewer, so
    that all cores have as many tasks.

    `size` tells how large the record at a position, or the next one, is; a few are looked at, spread over the range.
    """
    if options.max_bytes is None or (stop - start) * RECORD_BYTES_MAX <= options.max_bytes:
        return options.max_records
    samples = min(SPARK_SIZE_SAMPLES, 1 + (stop - start) // _SAMPLED_POSITIONS)
    sizes = [size(start + (stop - start) * sample // samples) for sample in range(samples)]
    total = sum(sizes)
    if not total:
        return options.max_records
    most = max(1, min(options.max_records, options.max_bytes * samples // total))
    if options.min_partitions is not None or options.split == "shard":
        return most
    return evened(stop - start, most, (stop - start) * total // samples, cores)


def evened(records: int, most: int, byte_count: int, cores: int) -> int:
    """At most so many records for a task, and no more than `most`, for as many tasks on each core.

    >>> MIB = 1 << 20
    >>> evened(80, 32, 80 * MIB, 2), evened(20, 32, 20 * MIB, 4), evened(20, 32, 20 * MIB, 16), evened(1, 32, MIB, 16)
    (20, 5, 4, 1)
    """
    needed = -(-records // most)
    wanted = -(-needed // cores) * cores
    parts = max(needed, min(wanted, byte_count // SPARK_TASK_BYTES))
    return -(-records // parts)


def plan(
    start: int,
    stop: int,
    options: ReadOptions,
    wanted: Wanted,
    shards: Sequence[int] | None = None,
    extents: Extents | None = None,
    *,
    max_records: int,
) -> list[LogPartition]:
    """The partitions of a range, none with more than `max_records`; with `shards`, those of each shard apart, one shard
    after the other.

    `extents` counts records where positions are not dense.
    """

    def parts(wanted: Wanted, min_parts: int) -> list[LogPartition]:
        if extents is None:
            ranges = cut(start, stop, min_parts=min_parts, max_records=max_records)
        else:
            ranges = cut_counted(
                start, stop, extents, min_parts=min_parts, max_records=max_records, shards=wanted.shards
            )
        return [LogPartition(options.target, low, high, wanted, options.fail_on_data_loss) for low, high in ranges]

    min_parts = options.min_partitions or 1
    if shards is None:
        return parts(wanted, min_parts)
    chosen = [shard for shard in shards if wanted.shards is None or shard in wanted.shards]
    found: list[LogPartition] = []
    for shard in chosen:
        of_one = Wanted(wanted.key_filter, frozenset({shard}), wanted.since_us, wanted.until_us)
        found += parts(of_one, -(-min_parts // len(chosen)))
    return found
