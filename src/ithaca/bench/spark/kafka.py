"""The same records in a topic of one Kafka broker, for Spark's own Kafka source to read.

Jars come from Maven Central through Spark's resolver. Spark gets the source, the broker the server: neither meets
the other's classes. The source is older than the Spark that runs it: of the same version it could not be had when this
was written, and 4.0.0 was the newest that came with all it needs. Reports name both.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from ithaca.bench.jars import SHIPPED_TOO, jvm_of, resolve, shipped_jars
from ithaca.bench.kafka_broker import BrokerPlan, kafka_broker
from ithaca.bench.measure import Progress, Sample
from ithaca.bench.spark.copying import copied, per_trigger
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import MIB

SOURCE_VERSION: Final = "4.0.0"
BROKER_VERSION: Final = "3.9.0"
"""That of the clients which the source brings along."""
SOURCE_PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SOURCE_VERSION}"
BROKER_PACKAGE: Final = f"org.apache.kafka:kafka_2.13:{BROKER_VERSION}"
TOPIC: Final = "bench"
COPIES: Final = "copies"
WARM_UPS: Final = 3
"""Passes that are not counted: all of it is Java, which compiles while it runs, so that early passes are slow."""

_SHIPPED: Final = ("org.apache.hadoop:hadoop-client-api", "org.apache.hadoop:hadoop-client-runtime")
_COMPRESSION: Final = ("org.lz4:lz4-java", "org.xerial.snappy:snappy-java")
_OVERHEAD_BYTES: Final = 64
"""At most so much does Kafka add to a record, and as much again to a batch."""


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic that holds the records of the log."""

    address: str
    partitions: int
    batch_bytes: int

    def read(self, spark: SparkSession) -> DataFrame:
        """All of it, with Kafka's defaults."""
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", self.address)
        return source.option("subscribe", TOPIC).load()

    def copies(self, spark: SparkSession, directory: Path, records: int, record_bytes: int) -> Callable[[], Sample]:
        """Each call copies the newest records into another topic, in as many micro-batches as a copy of the log; at
        least once, since Spark's sink promises no more.
        """
        ends = {row[0]: row[1] + 1 for row in self.read(spark).groupBy("partition").agg({"offset": "max"}).collect()}
        starts = {str(partition): end - records // len(ends) for partition, end in ends.items()}
        count = sum(ends[int(partition)] - start for partition, start in starts.items())

        def copy() -> Sample:
            stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.address)
            stream = stream.options(subscribe=TOPIC, maxOffsetsPerTrigger=per_trigger(count))
            rows = stream.option("startingOffsets", json.dumps({TOPIC: starts})).load()
            writing = rows.select("value").writeStream.format("kafka").options(**self.sink_options(COPIES))
            return copied(writing, directory, count, count * record_bytes)

        return copy

    def sink_options(self, topic: str) -> dict[str, str | int]:
        """In batches as large as the log's, uncompressed."""
        return {
            "topic": topic,
            "kafka.bootstrap.servers": self.address,
            "kafka.acks": "1",
            "kafka.compression.type": "none",
            "kafka.batch.size": self.batch_bytes,
            "kafka.linger.ms": 100,
            "kafka.max.request.size": self.batch_bytes + MIB,
            "kafka.buffer.memory": max(32 * MIB, 4 * self.partitions * self.batch_bytes),
        }


@contextmanager
def kafka_topic(
    spark: SparkSession, directory: Path, rows: DataFrame, partitions: int, batch_bytes: int, progress: Progress
) -> Iterator[KafkaTopic]:
    """A broker in `directory` whose topic holds `rows` of the log, spread evenly over its partitions."""
    directory.mkdir(mode=0o700, parents=True)
    progress("fetching Kafka, from Maven Central unless it was before")
    source = resolve(spark, directory, SOURCE_PACKAGE, excluded=(*_SHIPPED, *SHIPPED_TOO, *_COMPRESSION))
    jars = resolve(spark, directory, BROKER_PACKAGE, excluded=SHIPPED_TOO)
    for jar in source:
        spark.sql(f"ADD JAR '{jar}'")
    java = Path(str(jvm_of(spark).java.lang.System.getProperty("java.home"))) / "bin" / "java"
    plan = BrokerPlan(java, [*jars, *shipped_jars()], partitions, batch_bytes_max=batch_bytes + MIB)
    progress("starting a Kafka broker")
    with kafka_broker(directory / "broker", plan) as address:
        topic = KafkaTopic(address, partitions, batch_bytes)
        progress("copying the log into a topic")
        spread = rows.selectExpr("value", f"cast(position % {partitions} as int) as partition")
        spread.write.format("kafka").options(**topic.sink_options(TOPIC)).save()
        _compare(rows, topic.read(spark))
        yield topic


def versions(partitions: int) -> dict[str, Any]:
    """What was compared, for the report."""
    return {"spark": pyspark.__version__, "source": SOURCE_VERSION, "broker": BROKER_VERSION, "partitions": partitions}


def batch_bytes_of(batch: int, record_bytes: int) -> int:
    """What a batch of the log takes in Kafka.

    >>> batch_bytes_of(64, 4096)
    266304
    """
    return batch * (record_bytes + _OVERHEAD_BYTES) + _OVERHEAD_BYTES


def _compare(rows: DataFrame, copied: DataFrame) -> None:
    sums = ("count(*)", "sum(length(value))", "sum(crc32(value))")
    ours, theirs = (tuple(frame.selectExpr(*sums).collect()[0]) for frame in (rows, copied))
    if ours != theirs:
        raise ProtocolError(f"the topic differs from the log (records, bytes, checksums): {theirs}, not {ours}")
