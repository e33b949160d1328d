"""Columns instead of bytes: values that are JSON objects, one row each, or Arrow streams of any number of rows.

Avro is read by Spark's own `from_avro` on the column `value`, if its package is there.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StructField, StructType

from ithaca.model.errors import InvalidInput
from ithaca.spark.schemas import KEY_PREFIX, struct_of

KEPT: Final = ("position", "shard", "timestamp", "key")
"""The log's columns that stay beside those of the payload, unless others are named."""


def from_json(frame: DataFrame, schema: StructType | str, *, keep: Sequence[str] = KEPT) -> DataFrame:
    """The fields of JSON objects as columns, behind the columns of the log that are kept.

    A value that is no such object has nulls in all of them. Records that say a schema are left out.
    """
    fields = struct_of(schema)
    _refuse_clash(keep, fields)
    packed = sf.from_json(sf.col("value").cast("string"), fields).alias("payload")
    return _payloads(frame).select(*keep, packed).select(*keep, "payload.*")


def to_json(frame: DataFrame, *, key: str | Column | None = None) -> DataFrame:
    """One JSON object for each row, as what the sink takes; `key` is a column of text or bytes."""
    value = sf.to_json(sf.struct(*frame.columns)).alias("value")
    return frame.select(value) if key is None else frame.select(_key(key).alias("key"), value)


def from_arrow(frame: DataFrame, schema: StructType | str, *, keep: Sequence[str] = ("position",)) -> DataFrame:
    """The rows of Arrow IPC streams, as `to_arrow` writes them, in their order.

    Behind the columns that are kept comes `row`, a row's number within its record. A value that is no stream of this
    schema fails the query.
    """
    fields = struct_of(schema)
    _refuse_clash((*keep, "row"), fields)
    kept = [field for field in frame.schema if field.name in keep]
    result = StructType([*kept, StructField("row", IntegerType()), *fields])
    result_arrow, wanted = to_arrow_schema(result, timezone="UTC"), to_arrow_schema(fields, timezone="UTC")

    def unpack(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for index, value in enumerate(batch.column("value")):
                table = _table(value, wanted)
                rows = table.num_rows
                beside = [pa.repeat(batch.column(field.name)[index], rows) for field in kept]
                columns = [*beside, pa.array(range(rows), pa.int32()), *table.columns]
                yield from pa.table(columns, schema=result_arrow).to_batches()

    return _payloads(frame).mapInArrow(unpack, result)


def to_arrow(frame: DataFrame) -> DataFrame:
    """Rows as values that are Arrow IPC streams, one for each batch of Spark's (`maxRecordsPerBatch`)."""

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["value"])

    return frame.mapInArrow(pack, "value binary")


def _payloads(frame: DataFrame) -> DataFrame:
    """Without the records that say a schema."""
    if "key" not in frame.columns:
        return frame
    says_schema = sf.startswith(sf.col("key"), sf.lit(KEY_PREFIX))
    return frame.where(sf.col("key").isNull() | ~says_schema)


def _table(value: Any, wanted: Any) -> Any:
    try:
        table = pa.ipc.open_stream(value.as_buffer()).read_all()
        return table.select(wanted.names).cast(wanted)
    except (pa.ArrowException, KeyError) as error:
        raise InvalidInput(f"a value is no Arrow stream of {wanted.names}: {error}") from error


def _key(key: str | Column) -> Column:
    return sf.col(key) if isinstance(key, str) else key


def _refuse_clash(keep: Sequence[str], fields: StructType) -> None:
    clash = [name for name in keep if name in fields.fieldNames()]
    if clash:
        raise InvalidInput(f"the payload has a column {clash[0]}, as the log has: leave it out of keep")
