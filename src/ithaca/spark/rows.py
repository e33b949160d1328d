"""From Spark's Arrow batches to the log's: columns are checked in the driver, bytes are copied once in the task."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from pyarrow import compute
from pyspark.sql.types import BinaryType, StringType, StructType

from ithaca.model.errors import InvalidInput
from ithaca.runtime.machine import wall_us
from ithaca.wire.batch import Batch
from ithaca.wire.build import build_arrow

COLUMNS = ("value", "key")


def check_columns(schema: StructType) -> None:
    """`InvalidInput` unless the rows are a value and, if wanted, a key, both of them binary or text."""
    names = [field.name for field in schema]
    problem = None
    if "value" not in names:
        problem = "has no column value"
    elif len(set(names)) < len(names) or not set(names) <= set(COLUMNS):
        others = ", ".join(name for name in names if name not in COLUMNS)
        problem = f"has other columns: {others}" if others else "has a column twice"
    else:
        wrong = [field for field in schema if not isinstance(field.dataType, BinaryType | StringType)]
        if wrong:
            problem = f"has {wrong[0].name} of type {wrong[0].dataType.simpleString()}"
    if problem is not None:
        raise InvalidInput(
            f"what is written {problem}: a record is a value and, if wanted, a key, each binary or string. Select "
            "them, or pack columns into a value with ithaca.spark.to_json or to_arrow"
        )


def log_batches(rows: Iterator[Any], batch_bytes: int, compression: Literal["none", "lz4", "zstd"]) -> Iterator[Batch]:
    """Spark's batches as batches of the log of about so many bytes, in the same order."""
    for batch in rows:
        values = batch.column("value")
        keys = batch.column("key") if "key" in batch.schema.names else None
        for low, high in _parts(values, batch_bytes):
            part_keys = None if keys is None else keys.slice(low, high - low)
            yield build_arrow(values.slice(low, high - low), part_keys, timestamp_us=wall_us(), compress=compression)


def _parts(values: Any, batch_bytes: int) -> Iterator[tuple[int, int]]:
    """Rows whose values have about so many bytes together, at least one."""
    count = len(values)
    sizes = np.asarray(compute.fill_null(compute.binary_length(values), 0)).astype(np.int64)
    ends = np.cumsum(sizes)
    low = 0
    while low < count:
        before = int(ends[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + batch_bytes, side="right")))
        yield low, min(high, count)
        low = high
