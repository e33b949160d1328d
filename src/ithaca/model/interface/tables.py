"""Records as tables of other packages, each of which is loaded when it is first asked for."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ithaca.model.errors import Unsupported
from ithaca.model.interface.shared import Batch

_INSTALL = {"pyarrow": "pyarrow", "pandas": "pandas pyarrow", "polars": "polars pyarrow"}


def package(name: str) -> Any:
    """The package; `Unsupported` says how to get one that is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise Unsupported(f"this needs the package {name}: pip install {_INSTALL[name]}") from None


def arrow_table(batches: Sequence[Batch]) -> Any:
    """One `pyarrow.Table` of all of them: position, shard, timestamp (the producers'), key, value."""
    arrow = package("pyarrow")
    return arrow.Table.from_batches([batch.to_arrow() for batch in batches], arrow_schema(arrow))


def arrow_schema(pa: Any) -> Any:
    """The columns of a batch of records."""
    return pa.schema(
        [
            pa.field("position", pa.int64(), nullable=False),
            pa.field("shard", pa.int32(), nullable=False),
            pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary(), nullable=False),
        ]
    )
