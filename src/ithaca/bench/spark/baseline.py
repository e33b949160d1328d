"""What Spark itself can do: the same bytes as Arrow batches of 1 MiB, made in memory by the tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ithaca.bench.place import payload
from ithaca.spark import SCHEMA
from ithaca.spark.limits import SPARK_BATCH_BYTES
from ithaca.spark.planning import cut
from ithaca.wire.joined import schema as arrow_schema

NAME = "ithaca-bench-memory"


@dataclass
class PositionRange(InputPartition):
    """Positions that a task makes records for."""

    start: int
    stop: int


class MemorySource(DataSource):
    """Options: records, record_bytes, and max_records of a partition."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(*(int(self.options[name]) for name in ("records", "record_bytes", "max_records")))


class _Reader(DataSourceReader):
    def __init__(self, records: int, record_bytes: int, max_records: int) -> None:
        self._records = records
        self._record_bytes = record_bytes
        self._max_records = max_records

    def partitions(self) -> list[InputPartition]:
        parts = cut(1, self._records + 1, min_parts=1, max_records=self._max_records)
        return [PositionRange(start, stop) for start, stop in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, PositionRange):
            return
        step = max(1, SPARK_BATCH_BYTES // self._record_bytes)
        values = pa.py_buffer(payload(step * self._record_bytes))
        for start in range(partition.start, partition.stop, step):
            yield self._batch(start, min(step, partition.stop - start), values)

    def _batch(self, start: int, count: int, values: Any) -> Any:
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(self._record_bytes)
        columns = [
            pa.array(np.arange(start, start + count, dtype=np.int64)),
            pa.array(np.zeros(count, np.int32)),
            pa.array(np.zeros(count, np.int64)).cast(pa.timestamp("us", tz="UTC")),
            pa.nulls(count, pa.binary()),
            pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), values]),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema())
