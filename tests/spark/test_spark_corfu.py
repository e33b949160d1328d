"""Tables and streams on a cluster of the engine corfu, whose positions are mostly empty."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import ithaca
from ithaca.engines.corfu.client.local_rows import LocalRows
from ithaca.spark import IthacaDataSource
from ithaca.spark.batch_reader import TableReader
from ithaca.testing import Cluster

RECORDS = 200
PARTS = 4


@pytest.fixture(scope="module")
def corfu() -> Iterator[str]:
    with Cluster(shards=2, engine="corfu") as cluster, ithaca.connect(cluster.bootstrap) as log:
        for first in range(0, RECORDS, 10):
            numbers = range(first, first + 10)
            log.append_many([b"%d" % number for number in numbers], keys=[b"%d" % (each % 3) for each in numbers])
        yield cluster.bootstrap


@pytest.mark.parametrize("local_reads", ["true", "false"])
def test_a_table_has_every_record_in_order(corfu: str, local_reads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = LocalRows.read

    def counted(rows: LocalRows, bytes_max: int) -> list[object]:
        chunk = whole(rows, bytes_max)
        read.extend(int(each) for stretch in chunk for each in stretch.positions)
        return list(chunk)

    source = IthacaDataSource({"bootstrap": corfu, "minPartitions": str(PARTS), "localReads": local_reads})
    reader = source.reader(source.schema())
    assert isinstance(reader, TableReader)
    parts = list(reader.partitions())
    monkeypatch.setattr(LocalRows, "read", counted)
    found = [
        [(row["position"], row["value"]) for rows in reader.read(each) for row in rows.to_pylist()] for each in parts
    ]
    with ithaca.connect(corfu) as log:
        assert [row for part in found for row in part] == [(each.position, each.value) for each in log.read_range(1)]
    assert len(found) == PARTS
    assert len(read) == (RECORDS if local_reads == "true" else 0), "who reads files reads all of it there"


def test_a_table_of_spark_is_filtered_by_key(spark: SparkSession, corfu: str) -> None:
    def table(**options: str) -> DataFrame:
        return spark.read.format("ithaca").options(bootstrap=corfu, **options).load()

    rows = table(keyFilter="equals:1").select("value").collect()
    assert sorted(int(row.value) for row in rows) == [each for each in range(RECORDS) if each % 3 == 1]
    assert table().count() == RECORDS


def test_a_stream_is_copied_at_least_once(spark: SparkSession, corfu: str, tmp_path: Path) -> None:
    with Cluster(engine="corfu") as other:
        stream = spark.readStream.format("ithaca").option("bootstrap", corfu).option("startingOffsets", "earliest")
        copied = stream.load().select("value").writeStream.format("ithaca").option("bootstrap", other.bootstrap)
        query = copied.option("delivery", "atLeastOnce").option("checkpointLocation", str(tmp_path / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
        with ithaca.connect(other.bootstrap) as log:
            assert [int(record.value) for record in log.read_range("earliest")] == list(range(RECORDS))
