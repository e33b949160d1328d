"""Tables of a log in which positions are empty: tasks are divided by records, and none is given a range without any."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import ithaca
from ithaca.spark import IthacaDataSource
from ithaca.spark.batch_reader import TableReader
from ithaca.testing import Cluster

RECORDS = 120
PARTS = 4


@pytest.fixture(scope="module")
def belfast() -> Iterator[str]:
    with Cluster(shards=2, engine="belfast") as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(RECORDS):
            log.append(b"%d" % number)
        yield cluster.bootstrap


def test_tasks_have_their_part_of_the_records_and_no_empty_range(belfast: str) -> None:
    with ithaca.connect(belfast) as log:
        assert log.tail() > 10 * RECORDS, "most positions are empty"
        held = [(record.position, record.value) for record in log.read_range("earliest")]
    source = IthacaDataSource({"bootstrap": belfast, "minPartitions": str(PARTS)})
    reader = source.reader(source.schema())
    assert isinstance(reader, TableReader)
    parts = [
        [(row["position"], row["value"]) for rows in reader.read(each) for row in rows.to_pylist()]
        for each in reader.partitions()
    ]
    assert [row for part in parts for row in part] == held
    assert [len(part) for part in parts] == [RECORDS // PARTS] * PARTS


def test_a_table_of_spark_has_every_record(spark: SparkSession, belfast: str) -> None:
    table = spark.read.format("ithaca").option("bootstrap", belfast).option("minPartitions", str(PARTS)).load()
    rows = table.select("position", "value").collect()
    assert sorted(int(row.value) for row in rows) == list(range(RECORDS))
    assert len({row.position for row in rows}) == RECORDS
