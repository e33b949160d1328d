"""A table of the log: all of it, parts of it, filtered, and while a replica is lost."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

import ithaca
from ithaca.model.limits import SPARK_BATCH_BYTES
from ithaca.spark import SCHEMA, register
from ithaca.spark.batch_reader import TableReader
from ithaca.spark.options import Options, read_options
from ithaca.testing import Cluster

RECORDS = 600


def table(spark: SparkSession, bootstrap: str, **options: Any) -> DataFrame:
    return spark.read.format("ithaca").option("bootstrap", bootstrap).options(**options).load()


def values(rows: list[Row]) -> list[int]:
    return [int(row.value) for row in rows]


def test_a_table_has_every_record_with_all_that_belongs_to_it(spark: SparkSession, bootstrap: str) -> None:
    frame = table(spark, bootstrap)
    assert frame.schema == SCHEMA
    with ithaca.connect(bootstrap) as log:
        wanted = list(log.read_range(1))
    found = frame.select("position", "shard", "key", "value", sf.unix_micros("timestamp").alias("time")).collect()
    assert [(row.position, row.shard, row.key, bytes(row.value), row.time) for row in found] == [
        (each.position, each.shard, each.key, each.value, each.timestamp_us) for each in wanted
    ]


def test_partitions_follow_each_other_in_the_order_of_the_log(spark: SparkSession, bootstrap: str) -> None:
    frame = table(spark, bootstrap, minPartitions=4)
    parts = frame.select("position", sf.spark_partition_id().alias("part")).collect()
    assert [row.position for row in parts] == list(range(1, RECORDS + 1))
    assert [row.part for row in parts] == [(n * 4) // RECORDS for n in range(RECORDS)]


def test_a_partition_has_no_more_records_than_it_may(spark: SparkSession, bootstrap: str) -> None:
    counts = table(spark, bootstrap, maxRecordsPerPartition=250).groupBy(sf.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in counts) == [200, 200, 200]


def test_by_shard_a_partition_has_one_shard(spark: SparkSession, bootstrap: str) -> None:
    frame = table(spark, bootstrap, split="shard").withColumn("part", sf.spark_partition_id())
    assert sorted(map(tuple, frame.select("part", "shard").distinct().collect())) == [(0, 0), (1, 1)]
    assert sorted(values(frame.collect())) == list(range(1, RECORDS + 1))


def test_a_range_of_positions_is_half_open(spark: SparkSession, bootstrap: str) -> None:
    assert values(table(spark, bootstrap, startingOffsets=5, endingOffsets=9).collect()) == [5, 6, 7, 8]
    assert values(table(spark, bootstrap, startingOffsets=590, asOf=595).collect()) == list(range(590, 595))


def test_a_range_may_be_empty(spark: SparkSession, bootstrap: str) -> None:
    assert table(spark, bootstrap, startingOffsets="latest").collect() == []


def test_keys_are_selected_by_the_replicas(spark: SparkSession, bootstrap: str) -> None:
    wanted = [n for n in range(1, RECORDS + 1) if n % 7 == 3 and n % 5]
    assert values(table(spark, bootstrap, keyFilter="equals:key-3", minPartitions=3).collect()) == wanted


def test_filters_are_pushed_when_that_is_asked_for(spark: SparkSession, bootstrap: str) -> None:
    frame = table(spark, bootstrap, pushFilters="true")
    chosen = frame.where("position > 100 and position <= 300 and shard = 1 and key = X'6B65792D33'")
    unpushed = table(spark, bootstrap).where("position > 100 and position <= 300 and shard = 1 and key = X'6B65792D33'")
    assert values(chosen.collect()) == values(unpushed.collect()) != []


def test_a_filter_on_the_records_time_is_pushed(spark: SparkSession, bootstrap: str) -> None:
    middle = table(spark, bootstrap).select(sf.expr("percentile(unix_micros(timestamp), 0.5)").cast("long")).head()
    assert middle is not None
    bound = f"timestamp >= timestamp_micros({middle[0]})"
    pushed = values(table(spark, bootstrap, pushFilters="true").where(bound).collect())
    assert pushed == values(table(spark, bootstrap).where(bound).collect()) != []


def test_a_time_is_a_place_in_the_order(spark: SparkSession) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"1", b"2"])
        between = datetime.now(UTC)
        log.append_many([b"3", b"4"])
        later = datetime.now(UTC).isoformat()
        assert values(table(spark, cluster.bootstrap, startingTimestamp=between.isoformat()).collect()) == [3, 4]
        assert values(table(spark, cluster.bootstrap, asOf=between.isoformat()).collect()) == [1, 2]
        assert values(table(spark, cluster.bootstrap, endingTimestamp=later).collect()) == [1, 2, 3, 4]


def test_a_lost_replica_does_not_stop_a_scan(spark: SparkSession) -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        for first in range(1, 401, 10):
            log.append_many([b"%d" % n for n in range(first, first + 10)])
        rows = table(spark, cluster.bootstrap, minPartitions=4).toLocalIterator()  # a partition at a time
        found = [int(next(rows).value)]
        cluster.kill_replica(0, 0)
        cluster.kill_replica(1, 1)
        found += [int(row.value) for row in rows]
        assert found == list(range(1, 401))


def test_what_was_trimmed_fails_a_table_or_is_left_out(spark: SparkSession) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"%d" % n for n in range(1, 21)])
        log.trim(11)
        assert values(table(spark, cluster.bootstrap).collect()) == list(range(11, 21))
        loose = table(spark, cluster.bootstrap, startingOffsets=5, failOnDataLoss="false")
        assert values(loose.collect()) == list(range(11, 21))
        with pytest.raises(Exception, match="position 5 was trimmed; the first one left is 11"):
            table(spark, cluster.bootstrap, startingOffsets=5).collect()


def test_what_is_trimmed_after_planning_is_left_out_if_it_may_be() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"%d" % n for n in range(1, 21)])
        found = {}
        for loss in ("true", "false"):
            given = {"bootstrap": cluster.bootstrap, "endingOffsets": "21", "failOnDataLoss": loss}
            reader = TableReader(read_options(Options(given), "table"))
            found[loss] = (reader, reader.partitions())
        log.trim(6)
        strict, strict_parts = found["true"]
        with pytest.raises(ithaca.Trimmed):
            list(strict.read(strict_parts[0]))
        loose, loose_parts = found["false"]
        batches = list(loose.read(loose_parts[0]))
        assert [each for batch in batches for each in batch.column("position").to_pylist()] == list(range(6, 21))


def test_small_batches_are_joined_for_spark() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        for _ in range(40):
            log.append_many([bytes(4096)] * 16)
        reader = TableReader(read_options(Options({"bootstrap": cluster.bootstrap}), "table"))
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        sizes = [batch.get_total_buffer_size() for batch in batches]
        assert len(batches) <= 3
        assert all(SPARK_BATCH_BYTES <= size <= 2 * SPARK_BATCH_BYTES for size in sizes[:-1])
        assert sum(len(batch) for batch in batches) == 640


def test_an_embedded_log_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "events") as log:
        log.append_many([b"1", b"2", b"3"], keys=[b"a", None, b"b"])
        frame = spark.read.format("ithaca").load(str(tmp_path / "events"))
        assert [(row.position, row.key, row.value) for row in frame.collect()] == [
            (1, b"a", b"1"),
            (2, None, b"2"),
            (3, b"b", b"3"),
        ]
        chosen = spark.read.format("ithaca").option("keyFilter", "equals:b").load(str(tmp_path / "events"))
        assert values(chosen.collect()) == [3]


def test_a_session_can_be_told(spark: SparkSession, bootstrap: str) -> None:
    register(spark)
    assert table(spark, bootstrap).count() == RECORDS


# Bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ofsets": "1"}, "there is no option ofsets: there are asOf,"),
        ({"startingOffsets": "9", "endingOffsets": "8"}, "startingOffsets is 9, which is after the end, 8"),
        ({"endingOffsets": "601000"}, "endingOffsets is 601000, and the tail is 601"),
        ({"asOf": "602"}, "asOf is 602, and the tail is 601"),
        ({"startingOffsets": "latest", "endingOffsets": "7"}, "would start at 601, which is after its end, 7"),
    ],
)
def test_bad_options_are_told_in_the_driver(
    spark: SparkSession, bootstrap: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        table(spark, bootstrap, **options).collect()


def test_a_cluster_that_is_not_there_is_told(spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"the ordering layer did not answer at 127\.0\.0\.1:9 within 1 s"):
        table(spark, "127.0.0.1:9", timeout=1).collect()


def test_another_schema_is_refused(spark: SparkSession, bootstrap: str) -> None:
    reading = spark.read.format("ithaca").option("bootstrap", bootstrap).schema(StructType.fromDDL("name string"))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="a log has the columns"):
        reading.load().collect()
