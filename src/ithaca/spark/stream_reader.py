"""The log as a stream: `spark.readStream.format("ithaca")`.

The order is total, so one number is the whole offset of a stream: everything below it was read, in every shard, in
those that came meanwhile and those that are finalized. Which shards there are is the tasks' concern.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ithaca.engines.tasks import extents_of
from ithaca.model.errors import InvalidInput, NotWritten
from ithaca.model.interface import Log
from ithaca.spark.admission import admitted, dense, size_of
from ithaca.spark.mirroring import ConsumerMirror
from ithaca.spark.options import ReadOptions
from ithaca.spark.planning import LogPartition, Wanted, plan, task_records
from ithaca.spark.reading import read_partition
from ithaca.spark.target import check_start, driver_cores, open_log, position_of, shards_of

Offset = dict[str, int]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side keeps one handle; what tasks get of this object is its options."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._handle: Log | None = None
        self._mirror = None if options.consumer is None else ConsumerMirror(options.consumer)
        self._target: int | None = None
        """Where a query ends that is to process what is there now."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None}

    @property
    def _log(self) -> Log:
        if self._handle is None:
            self._handle = open_log(self._options.target)
        return self._handle

    # Offsets

    def initialOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        log, options = self._log, self._options
        start = position_of(log, options.start)
        tail = log.tail()
        if start > tail:
            raise NotWritten(f"startingOffsets is {start}, and the tail is {tail}: use at most that", tail=tail)
        check_start(log, start, options.fail_on_data_loss)
        return _offset(max(start, log.first()))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 (Spark's name)
        """Of two limits Spark can be told one; `latestOffset` knows both."""
        if self._options.trigger_records is not None:
            return ReadMaxRows(self._options.trigger_records)
        if self._options.trigger_bytes is not None:
            return ReadMaxBytes(self._options.trigger_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 (Spark's name)
        log, position = self._log, _position(start)
        tail = log.tail() if self._target is None else self._target
        if position >= tail:
            self._check_same_log(position, log)
            return start
        check_start(log, position, self._options.fail_on_data_loss)
        records, byte_count = self._limits(limit)
        extents = extents_of(log)
        return _offset(
            admitted(
                position,
                tail,
                records=records,
                byte_count=byte_count,
                size=lambda place: size_of(log, place),
                extents=dense if extents is None else extents,
            )
        )

    def _limits(self, limit: ReadLimit) -> tuple[int | None, int | None]:
        if isinstance(limit, ReadAllAvailable):
            return None, None
        records = limit.max_rows if isinstance(limit, ReadMaxRows) else self._options.trigger_records
        byte_count = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._options.trigger_bytes
        return records, byte_count

    def _check_same_log(self, position: int, log: Log) -> None:
        tail = log.tail()
        if position > tail:
            raise NotWritten(
                f"the checkpoint is at position {position}, and the tail is {tail}: it belongs to another log",
                tail=tail,
            )

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name)
        self._target = self._log.tail()

    def reportLatestOffset(self) -> Offset:  # noqa: N802 (Spark's name)
        return _offset(self._log.tail())

    def commit(self, end: Offset) -> None:
        """What Spark says once a batch is done: the position that a named consumer shows, if one was asked for."""
        if self._mirror is not None:
            self._mirror.move(lambda: self._log, _position(end))

    # Partitions

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        low, high = _position(start), _position(end)
        if low >= high:
            return []
        options = self._options
        log = self._log
        check_start(log, low, options.fail_on_data_loss)
        shards = shards_of(log) if options.split == "shard" else None
        extents = extents_of(log)
        most = task_records(low, high, options, lambda position: size_of(log, position), driver_cores())
        return list(plan(low, high, options, Wanted(options.key_filter), shards, extents, max_records=most))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, LogPartition):
            yield from read_partition(partition)

    def stop(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()


def _offset(position: int) -> Offset:
    return {"position": position}


def _position(offset: Offset) -> int:
    position = offset.get("position")
    if not isinstance(position, int):
        raise InvalidInput(f"the checkpoint's offset is {offset!r}, not a position of a log: it is of another source")
    return position
