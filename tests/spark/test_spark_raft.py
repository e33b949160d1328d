"""Tables, streams and the sink on a cluster of the engine raft."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import ithaca
from ithaca.spark import IthacaDataSource
from ithaca.spark.batch_reader import TableReader
from ithaca.spark.sink import Written
from ithaca.testing import Cluster

RECORDS = 200
VALUE = StructType().add("value", "string")


@pytest.fixture(scope="module")
def raft() -> Iterator[str]:
    with Cluster(engine="raft") as cluster, ithaca.connect(cluster.bootstrap) as log:
        for first in range(1, RECORDS, 10):
            log.append_many([b"%d" % number for number in range(first, first + 10)])
        yield cluster.bootstrap


@pytest.mark.parametrize("local_reads", ["true", "false"])
def test_a_table_has_every_record(raft: str, local_reads: str) -> None:
    source = IthacaDataSource({"bootstrap": raft, "minPartitions": "3", "localReads": local_reads})
    reader = source.reader(source.schema())
    assert isinstance(reader, TableReader)
    parts = [[value.as_py() for rows in reader.read(each) for value in rows["value"]] for each in reader.partitions()]
    assert len(parts) == 3
    assert [int(value) for part in parts for value in part] == list(range(1, RECORDS + 1))


def test_a_stream_is_copied_at_least_once(spark: SparkSession, raft: str, tmp_path: Path) -> None:
    with Cluster(engine="raft") as other:
        stream = spark.readStream.format("ithaca").option("bootstrap", raft).option("startingOffsets", "earliest")
        copied = stream.load().select("value").writeStream.format("ithaca").option("bootstrap", other.bootstrap)
        query = copied.option("delivery", "atLeastOnce").option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
        with ithaca.connect(other.bootstrap) as log:
            assert [int(record.value) for record in log.read_range(1)] == list(range(1, RECORDS + 1))


@pytest.mark.parametrize("make", ["writer", "streamWriter"])
def test_exactly_once_is_refused_in_the_driver(raft: str, make: str) -> None:
    with pytest.raises(ithaca.Unsupported, match=r"the engine of this cluster, raft, .* with the engine .*scalog"):
        getattr(IthacaDataSource({"bootstrap": raft}), make)(VALUE, False)


def test_rows_of_a_task_are_appended() -> None:
    rows = pa.record_batch([pa.array(["a", "b"])], ["value"])
    with Cluster(engine="raft") as cluster:
        sink = IthacaDataSource({"bootstrap": cluster.bootstrap, "delivery": "atLeastOnce"}).writer(VALUE, False)
        assert sink.write(iter([rows])) == Written(2)
        with ithaca.connect(cluster.bootstrap) as log:
            assert [record.value for record in log.read_range(1)] == [b"a", b"b"]


def test_shards_are_not_chosen(raft: str) -> None:
    source = IthacaDataSource({"bootstrap": raft, "split": "shard"})
    with pytest.raises(ithaca.Unsupported, match="shards"):
        source.reader(source.schema()).partitions()
