"""Rows into the log, at least once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import ithaca
from ithaca.testing import Cluster


def test_rows_of_a_frame_are_appended(spark: SparkSession, ithaca_cluster: Cluster) -> None:
    frame = spark.range(1, 1001, numPartitions=2).select(
        sf.col("id").cast("string").alias("value"), sf.when(sf.col("id") % 2 == 0, sf.lit("even")).alias("key")
    )
    frame.write.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).option("batchBytes", 200).mode(
        "append"
    ).save()
    with ithaca.connect(ithaca_cluster.bootstrap) as log:
        found = list(log.read_range(1))
    assert sorted(int(record.value) for record in found) == list(range(1, 1001))
    assert all(record.key == (None if int(record.value) % 2 else b"even") for record in found)


def test_rows_of_a_stream_are_appended(spark: SparkSession, ithaca_cluster: Cluster, tmp_path: Path) -> None:
    with ithaca.connect(ithaca_cluster.bootstrap) as log, Cluster() as other:
        log.append_many([b"%d" % n for n in range(1, 101)])
        stream = spark.readStream.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap)
        copied = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 60).load().select("value")
        writing = copied.writeStream.format("ithaca").option("bootstrap", other.bootstrap)
        query = writing.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
        query.awaitTermination()
        with ithaca.connect(other.bootstrap) as copy:
            assert [int(record.value) for record in copy.read_range(1)] == list(range(1, 101))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("'a' as text", "has no column value"),
        ("'a' as value, 1 as size, 2 as weight", "has other columns: size, weight"),
        ("1 as value", "has value of type int"),
        ("'a' as value, 1.5D as key", "has key of type double"),
    ],
)
def test_rows_that_are_no_records_are_refused(spark: SparkSession, bootstrap: str, columns: str, words: str) -> None:
    writing = spark.sql(f"select {columns}").write.format("ithaca").option("bootstrap", bootstrap).mode("append")
    with pytest.raises(Exception, match=words):
        writing.save()


def test_a_log_is_not_written_over(spark: SparkSession, bootstrap: str) -> None:
    writing = spark.sql("select 'a' as value").write.format("ithaca").option("bootstrap", bootstrap)
    with pytest.raises(Exception, match="never written over"):
        writing.mode("overwrite").save()


def test_a_value_that_is_null_is_refused(spark: SparkSession, bootstrap: str) -> None:
    rows = spark.sql("select cast(null as string) as value")
    with pytest.raises(Exception, match="the value of record 0 is null"):
        rows.write.format("ithaca").option("bootstrap", bootstrap).mode("append").save()
