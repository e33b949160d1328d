"""The log as a table: `spark.read.format("ithaca")`."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ithaca.engines.tasks import extents_of
from ithaca.spark.admission import size_of
from ithaca.spark.filters import Pushed, push
from ithaca.spark.options import ReadOptions
from ithaca.spark.planning import LogPartition, plan, task_records
from ithaca.spark.reading import read_partition
from ithaca.spark.staying import settle
from ithaca.spark.target import bounds, driver_cores, driver_log, shards_of


class TableReader(DataSourceReader):
    """A range of positions as it is when the query is planned; tasks read it from the replicas."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        options = self._options
        with driver_log(options.target) as log:
            start, stop = self._pushed.narrow(*bounds(log, options))
            shards = shards_of(log) if options.split == "shard" else None
            wanted = self._pushed.wanted(options.key_filter)
            extents = extents_of(log)
            most = task_records(start, stop, options, lambda position: size_of(log, position), driver_cores())
            planned = list[InputPartition](plan(start, stop, options, wanted, shards, extents, max_records=most))
        settle()
        return planned

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, LogPartition):
            yield from read_partition(partition)


class PushingTableReader(TableReader):
    """The same, for a session that has `spark.sql.python.filterPushdown.enabled`; in others Spark refuses it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        self._pushed, left = push(filters, self._options.key_filter)
        return left
