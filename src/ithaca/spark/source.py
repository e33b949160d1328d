"""The data source "ithaca": what Spark makes readers and writers from.

Spark starts a process for every step of planning, so what a step does not need is imported where it is used.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

from ithaca.model.errors import InvalidInput
from ithaca.spark.options import Options, read_options, write_options
from ithaca.spark.staying import settle

if TYPE_CHECKING:
    from ithaca.spark.sink import Delivery

SCHEMA = StructType(
    [
        StructField("position", LongType()),
        StructField("shard", IntegerType()),
        StructField("timestamp", TimestampType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
    ]
)
"""Every record of the log; `timestamp` is its producer's clock, `key` is null where there is none."""


class IthacaDataSource(DataSource):
    """Reads and writes a log, in batches and as a stream; `docs/spark.md` lists the options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        Options(options).refuse_unknown()

    @classmethod
    def name(cls) -> str:
        return "ithaca"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from ithaca.spark.batch_reader import PushingTableReader, TableReader

        _check_schema(schema)
        options = read_options(Options(self.options), "table")
        return PushingTableReader(options) if options.push_filters else TableReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from ithaca.spark.stream_reader import LogStreamReader

        _check_schema(schema)
        return LogStreamReader(read_options(Options(self.options), "stream"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ithaca.spark.sink import TableWriter

        if overwrite:
            raise InvalidInput('a log is never written over: write with mode("append")')
        return TableWriter(self._delivery(schema, is_stream=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        from ithaca.spark.sink import StreamWriter

        return StreamWriter(self._delivery(schema, is_stream=True))

    def _delivery(self, schema: StructType, *, is_stream: bool) -> "Delivery":
        from ithaca.spark.exactly_once import ExactlyOnce
        from ithaca.spark.rows import check_columns
        from ithaca.spark.sink import AtLeastOnce

        check_columns(schema)
        options = write_options(Options(self.options), is_stream=is_stream)
        if options.delivery == "atLeastOnce":
            return AtLeastOnce(options)
        delivery = ExactlyOnce(options, is_stream=is_stream)
        settle()
        return delivery


def _check_schema(schema: StructType) -> None:
    wanted = [(field.name, field.dataType) for field in SCHEMA]
    if [(field.name, field.dataType) for field in schema] != wanted:
        raise InvalidInput(
            f"a log has the columns {SCHEMA.simpleString()}, not {schema.simpleString()}: leave the schema out, and "
            "take columns out of the value with ithaca.spark.from_json or from_arrow"
        )


def register(spark: SparkSession) -> None:
    """Make the formats "ithaca" and "ithaca-speculation" known to a session that does not find them by itself."""
    from ithaca.spark.speculative import SpeculativeDataSource

    spark.dataSource.register(IthacaDataSource)
    spark.dataSource.register(SpeculativeDataSource)
