"""Streaming copies of the log into itself, one query after the other: each copies what the one before has written.

The first one of a session starts Spark's workers, and Java compiles the code of streams; those after it do not.
"""

import shutil
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import ithaca
from ithaca.bench.cluster.target import Measured
from ithaca.bench.measure import Latency, Sample
from ithaca.engines.tasks import count_records
from ithaca.model.errors import ProtocolError
from ithaca.spark.options import Delivery

COPY_BATCHES = 4
"""Micro-batches of a copy."""


class LogCopies:
    """Each call copies the newest records of the log, as many as lie behind `start`; latencies are those of whole
    micro-batches.
    """

    def __init__(
        self, spark: SparkSession, cluster: Measured, directory: Path, start: int, record_bytes: int, delivery: Delivery
    ) -> None:
        self._spark = spark
        self._cluster = cluster
        self._directory = directory
        self._start = start
        self._record_bytes = record_bytes
        self._delivery = delivery

    def __call__(self) -> Sample:
        with ithaca.connect(self._cluster.bootstrap) as log:
            start, stop = self._start, log.tail()
            records = count_records(log, start, stop)
            stream = self._spark.readStream.format("ithaca").option("bootstrap", self._cluster.bootstrap)
            rows = stream.options(startingOffsets=start, maxOffsetsPerTrigger=per_trigger(records)).load()
            writing = rows.select("value").writeStream.format("ithaca").option("bootstrap", self._cluster.bootstrap)
            sample = copied(
                writing.option("delivery", self._delivery), self._directory, records, records * self._record_bytes
            )
            written = count_records(log, stop, log.tail())
        if written != records:
            raise ProtocolError(f"{records} records were to be copied, and the log has {written} more")
        self._start = stop
        return sample


def per_trigger(records: int) -> int:
    """Records of a micro-batch."""
    return max(1, -(-records // COPY_BATCHES))


def copied(writing: DataStreamWriter, directory: Path, records: int, byte_count: int) -> Sample:
    """Run the query to the end of what is there, with a checkpoint in `directory`."""
    checkpoint = directory / "checkpoint"
    began = time.perf_counter()
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - began
    progress: list[Any] = list(query.recentProgress)
    batches = [each.durationMs["triggerExecution"] / 1000 for each in progress if each.numInputRows]
    shutil.rmtree(checkpoint)
    return Sample(records, byte_count, seconds, Latency.of(batches or [seconds]))
