"""The same records in a topic of one Kafka broker, for Spark's own Kafka source to read.

Jars come from Maven Central through Spark's resolver. Spark gets the source, the broker the server: neither meets
the other's classes. The source is older than the Spark that runs it: of the same version it could not be had when this
was written, and 4.0.0 was the newest that came with all it needs. Reports name both. It reads tables; its streams call
what Spark 4.3 does not have any more, so that a copy from topic to topic cannot be compared.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from ithaca.bench.jars import SHIPPED_TOO, jvm_of, resolve, shipped_jars
from ithaca.bench.kafka_broker import BrokerPlan, kafka_broker
from ithaca.bench.measure import Progress
from ithaca.model.errors import ProtocolError
from ithaca.model.limits import MIB

SOURCE_VERSION: Final = "4.0.0"
BROKER_VERSION: Final = "3.9.0"
"""That of the clients which the source brings along."""
SOURCE_PACKAGE: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SOURCE_VERSION}"
BROKER_PACKAGE: Final = f"org.apache.kafka:kafka_2.13:{BROKER_VERSION}"
TOPIC: Final = "bench"
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

    def read(self, spark: SparkSession) -> DataFrame:
        """All of it, with Kafka's defaults."""
        source = spark.read.format("kafka").option("kafka.bootstrap.servers", self.address)
        return source.option("subscribe", TOPIC).load()


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
        topic = KafkaTopic(address)
        progress("copying the log into a topic")
        _write(rows, address, partitions, batch_bytes)
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


def _write(rows: DataFrame, address: str, partitions: int, batch_bytes: int) -> None:
    """In batches as large as the log's, uncompressed."""
    options: dict[str, str | int] = {
        "topic": TOPIC,
        "kafka.bootstrap.servers": address,
        "kafka.acks": "1",
        "kafka.compression.type": "none",
        "kafka.batch.size": batch_bytes,
        "kafka.linger.ms": 100,
        "kafka.max.request.size": batch_bytes + MIB,
        "kafka.buffer.memory": max(32 * MIB, 4 * partitions * batch_bytes),
    }
    spread = rows.selectExpr("value", f"cast(position % {partitions} as int) as partition")
    spread.write.format("kafka").options(**options).save()


def _compare(rows: DataFrame, copied: DataFrame) -> None:
    sums = ("count(*)", "sum(length(value))", "sum(crc32(value))")
    ours, theirs = (tuple(frame.selectExpr(*sums).collect()[0]) for frame in (rows, copied))
    if ours != theirs:
        raise ProtocolError(f"the topic differs from the log (records, bytes, checksums): {theirs}, not {ours}")
