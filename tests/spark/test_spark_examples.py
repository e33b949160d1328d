"""The examples in docstrings, and the ceiling that a scan is measured against."""

import doctest
from importlib import import_module

import pyarrow as pa
import pytest
from pyarrow import compute

from ithaca.bench.spark.baseline import MemorySource
from ithaca.spark import SCHEMA
from ithaca.wire.joined import schema


@pytest.mark.parametrize(
    "name", ["ithaca.bench.spark.kafka", "ithaca.spark.options", "ithaca.spark.planning", "tools.find_java"]
)
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_the_ceiling_has_the_same_rows_as_the_log() -> None:
    reader = MemorySource({"records": "1000", "record_bytes": "4096", "max_records": "400"}).reader(SCHEMA)
    parts = reader.partitions()
    batches = [batch for part in parts for batch in reader.read(part)]
    table = pa.Table.from_batches(batches, schema=schema())
    table.validate(full=True)
    assert len(parts) == 3
    assert table.column("position").to_pylist() == list(range(1, 1001))
    assert compute.sum(compute.binary_length(table.column("value"))).as_py() == 1000 * 4096
