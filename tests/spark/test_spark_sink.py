"""Rows into the log, at least once."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

import ithaca
from ithaca.spark import IthacaDataSource
from ithaca.spark.rows import log_batches
from ithaca.testing import Cluster
from tests.engines import toy


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
        ("text string", "has no column value"),
        ("value string, size integer, weight integer", "has other columns: size, weight"),
        ("value integer", "has value of type int"),
        ("value binary, key double", "has key of type double"),
    ],
)
def test_rows_that_are_no_records_are_refused(bootstrap: str, columns: str, words: str) -> None:
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split()
        schema.add(name, kind)
    source = IthacaDataSource({"bootstrap": bootstrap})
    for make in (source.writer, source.streamWriter):
        with pytest.raises(ithaca.InvalidInput, match=words):
            make(schema, False)


def test_a_log_is_not_written_over(bootstrap: str) -> None:
    with pytest.raises(ithaca.InvalidInput, match="never written over"):
        IthacaDataSource({"bootstrap": bootstrap}).writer(StructType().add("value", "string"), True)


def test_a_value_that_is_null_is_refused(bootstrap: str) -> None:
    rows = pa.record_batch([pa.array(["a", None])], ["value"])
    writer = IthacaDataSource({"bootstrap": bootstrap}).writer(StructType().add("value", "string"), False)
    with pytest.raises(ithaca.InvalidInput, match="the value of record 1 is null"):
        writer.write(iter([rows]))


@pytest.mark.parametrize("make", ["writer", "streamWriter"])
def test_exactly_once_is_refused_in_the_driver_where_the_engine_cannot(make: str) -> None:
    schema = StructType().add("value", "string")
    rows = pa.record_batch([pa.array(["a", "b"])], ["value"])
    with Cluster(engine=toy.Toy.name) as cluster:
        with pytest.raises(ithaca.Unsupported, match=r"the engine of this cluster, toy, .* with the engine .*scalog"):
            getattr(IthacaDataSource({"bootstrap": cluster.bootstrap}), make)(schema, False)
        plainly = IthacaDataSource({"bootstrap": cluster.bootstrap, "delivery": "atLeastOnce"})
        assert getattr(plainly, make)(schema, False).write(iter([rows])).records == 2
        with ithaca.connect(cluster.bootstrap) as log:
            assert [record.value for record in log.read_range(1)] == [b"a", b"b"]


def test_batches_are_cut_to_size_in_order() -> None:
    values = [b"x" * size for size in (10, 80, 30, 200, 5, 5, 90)]
    rows = [pa.record_batch([pa.array(values[:3]), pa.array([b"k", None, b""])], ["value", "key"])]
    rows += [pa.record_batch([pa.array(values[3:], pa.binary())], ["value"])]
    batches = list(log_batches(iter(rows), 100, "none"))
    assert [batch.count for batch in batches] == [2, 1, 1, 3]
    assert [record.value for batch in batches for record in batch.records(1, 0)] == values
    assert [record.key for record in batches[0].records(1, 0)] == [b"k", None]
