"""A table of the log, as Spark runs it; what needs no Spark is in `test_spark_reader`."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import ithaca
from ithaca.spark import SCHEMA, register
from ithaca.testing import Cluster

RECORDS = 600


def table(spark: SparkSession, address: str, **options: Any) -> DataFrame:
    return spark.read.format("ithaca").option("bootstrap", address).options(**options).load()


def values(rows: list[Row]) -> list[int]:
    return [int(row.value) for row in rows]


def test_a_table_has_every_record_in_partitions_that_follow_each_other(spark: SparkSession, bootstrap: str) -> None:
    frame = table(spark, bootstrap, minPartitions=4)
    assert frame.schema == SCHEMA
    with ithaca.connect(bootstrap) as log:
        wanted = list(log.read_range(1))
    time, part = sf.unix_micros("timestamp").alias("time"), sf.spark_partition_id().alias("part")
    found = frame.select("position", "shard", "key", "value", time, part).collect()
    assert [(row.position, row.shard, row.key, bytes(row.value), row.time) for row in found] == [
        (each.position, each.shard, each.key, each.value, each.timestamp_us) for each in wanted
    ]
    assert [row.part for row in found] == [(n * 4) // RECORDS for n in range(RECORDS)]


def test_filters_are_pushed_when_that_is_asked_for(spark: SparkSession, bootstrap: str) -> None:
    register(spark)  # it was found without; to be told once more does no harm
    where = "position > 100 and position <= 300 and shard = 1 and key = X'6B65792D33' and timestamp > '2020-01-01'"
    chosen = values(table(spark, bootstrap, pushFilters="true").where(where).collect())
    with ithaca.connect(bootstrap) as log:
        matching = [record for record in log.read_range(101, 301) if (record.shard, record.key) == (1, b"key-3")]
    assert chosen == [int(record.value) for record in matching] != []


@pytest.mark.parametrize("local_reads", ["true", "false"])
def test_a_lost_replica_does_not_stop_a_scan(spark: SparkSession, local_reads: str) -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        for first in range(1, 401, 10):
            log.append_many([b"%d" % n for n in range(first, first + 10)])
        frame = table(spark, cluster.bootstrap, minPartitions=2, localReads=local_reads)
        rows = frame.toLocalIterator()  # a partition at a time
        found = [int(next(rows).value)]
        cluster.kill_replica(0, 0)
        cluster.kill_replica(1, 1)
        found += [int(row.value) for row in rows]
        assert found == list(range(1, 401))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ofsets": "1"}, "there is no option ofsets.*: there are asOf,"),
        ({"bootstrap": "127.0.0.1:9", "timeout": "1"}, r"nobody answers at 127\.0\.0\.1:9 within 1 s"),
    ],
)
def test_what_is_wrong_is_told_in_the_driver(
    spark: SparkSession, bootstrap: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        table(spark, bootstrap, **options).collect()
