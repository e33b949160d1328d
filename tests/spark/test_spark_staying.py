"""Workers that stay do not look at what stays, and settings that are recommended are Spark's."""

import gc
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ithaca.spark.session import LOCAL_CHECKPOINTS, SESSION_SETTINGS
from ithaca.spark.source import IthacaDataSource
from ithaca.spark.staying import is_kept, settle


class FrozenSource(DataSource):
    """How many objects workers leave out of collections: tasks of sources share them."""

    @classmethod
    def name(cls) -> str:
        return "frozen"

    def schema(self) -> str:
        return "count long"

    def reader(self, schema: StructType) -> DataSourceReader:
        return FrozenReader()


class FrozenReader(DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(16)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield (gc.get_freeze_count(),)


def test_after_a_task_its_worker_leaves_modules_out_of_collections(spark: SparkSession, bootstrap: str) -> None:
    session = spark.newSession()
    session.dataSource.register(FrozenSource)
    session.dataSource.register(
        IthacaDataSource
    )  # as the other one is: sources that Spark finds by itself have workers of their own
    session.read.format("ithaca").option("bootstrap", bootstrap).option("minPartitions", 4).load().count()
    counts = session.read.format("frozen").load().collect()
    assert max(row[0] for row in counts) > 10_000


def test_a_program_of_somebody_else_is_left_alone() -> None:
    before = gc.get_freeze_count()
    assert not is_kept()
    settle()
    assert gc.get_freeze_count() == before


def test_spark_knows_the_settings_that_are_recommended(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    entries = jvm.org.apache.spark.internal.config.ConfigEntry
    assert entries.findEntry("spark.ithaca.nothing") is None
    for name in SESSION_SETTINGS:
        assert entries.findEntry(name) is not None, name
    for manager in LOCAL_CHECKPOINTS.values():
        assert jvm.java.lang.Class.forName(manager).getName() == manager
