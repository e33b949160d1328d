"""The log as a Spark table and as a stream, without jars: PySpark's Python data sources and Arrow batches.

```python
import ithaca.spark

table = spark.read.format("ithaca").option("bootstrap", "127.0.0.1:7600").load()
stream = spark.readStream.format("ithaca").option("bootstrap", "127.0.0.1:7600").load()
```

Columns are position, shard, timestamp, key, value. What holds:

1. A table is a range of positions as of when its query was planned; a position never changes what it holds.
2. Partition k of a range is globally before partition k+1, whatever shards hold it (`planning`).
3. One number is the whole offset of a stream (`stream_reader`).
4. Python touches batches, never records (`reading`, `ithaca.wire.joined`).

Read `source` first, then `planning` and `reading`. `batch_reader` is the table, `speculative` the stream before
positions are final, `sink` appends rows and `exactly_once` does so by prepared appends. `options` are the options,
`target` is the log as the driver sees it, `filters` what Spark hands down, `admission` how much one trigger takes,
`mirroring` a query as a named consumer. `rows` turns Arrow batches into the log's, `payloads` has values as columns,
and `schemas` are kept with the log. `limits` are bounds, `session` has settings of Spark that suit the log, and
`staying` is for workers that Spark keeps. Below `apps` and `bench` only this package imports pyspark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from ithaca.spark.source import SCHEMA, IthacaDataSource, register

if TYPE_CHECKING:
    from ithaca.spark.payloads import from_arrow, from_json, to_arrow, to_json
    from ithaca.spark.schemas import LogSchema, declare_schema, find_schema

__all__ = [
    "SCHEMA",
    "IthacaDataSource",
    "LogSchema",
    "declare_schema",
    "find_schema",
    "from_arrow",
    "from_json",
    "register",
    "to_arrow",
    "to_json",
]

_HOMES = ("ithaca.spark.payloads", "ithaca.spark.schemas")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            value = getattr(import_module(home), name, None)
            if value is not None:
                return value
    raise AttributeError(f"module 'ithaca.spark' has no attribute {name!r}")


_session = SparkSession.getActiveSession()
if _session is not None:
    register(_session)
