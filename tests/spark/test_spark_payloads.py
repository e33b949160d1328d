"""Columns instead of bytes."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

import ithaca
from ithaca.model.errors import InvalidInput
from ithaca.spark import declare_schema, find_schema, from_arrow, from_json, to_arrow, to_json
from ithaca.testing import Cluster


def test_json_goes_round(spark: SparkSession, ithaca_cluster: Cluster) -> None:
    orders = spark.sql("select id, concat('item-', id) as item, id * 1.5D as price from range(1, 6)")
    to_json(orders, key="item").write.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).mode(
        "append"
    ).save()
    with ithaca.connect(ithaca_cluster.bootstrap) as log:
        declare_schema(log, "orders", orders.schema)
        schema = find_schema(log, "orders")
    assert schema is not None
    read = spark.read.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).load()
    found = from_json(read, schema.schema, keep=["key"])
    assert sorted((bytes(row.key), row.id, row.item, row.price) for row in found.collect()) == [
        (b"item-%d" % n, n, f"item-{n}", n * 1.5) for n in range(1, 6)
    ]


def test_arrow_goes_round(spark: SparkSession, ithaca_cluster: Cluster) -> None:
    rows = spark.range(0, 1000, numPartitions=1).selectExpr("id", "cast(id as string) as text")
    to_arrow(rows).write.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).mode("append").save()
    read = spark.read.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).load()
    assert read.count() < 10
    found = from_arrow(read, "id long, text string").collect()
    assert [(row.id, row.text) for row in found] == [(n, str(n)) for n in range(1000)]
    assert [(row.position, row.row) for row in found] == sorted((row.position, row.row) for row in found)


def test_a_payload_that_is_no_arrow_fails(spark: SparkSession, bootstrap: str) -> None:
    read = spark.read.format("ithaca").option("bootstrap", bootstrap).option("endingOffsets", 2).load()
    with pytest.raises(Exception, match="a value is no Arrow stream"):
        from_arrow(read, "id long").collect()


def test_columns_of_the_log_are_not_hidden(spark: SparkSession, bootstrap: str) -> None:
    read = spark.read.format("ithaca").option("bootstrap", bootstrap).load()
    with pytest.raises(InvalidInput, match="the payload has a column shard"):
        from_json(read, "shard int")


def test_a_schema_is_declared_once_and_may_grow(spark: SparkSession, tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "events") as log:
        assert find_schema(log, "orders") is None
        first = declare_schema(log, "orders", "id long")
        assert declare_schema(log, "orders", "id long") == first
        assert log.tail() == 2
        second = declare_schema(log, "orders", "id long, item string")
        declare_schema(log, "others", "name string", payload="arrow")
        assert find_schema(log, "orders") == second
        assert find_schema(log, "orders", position=first.position) == first
        assert second.schema == StructType.fromDDL("id long, item string")


@pytest.mark.parametrize(
    ("schema", "payload", "words"),
    [
        ("item string", "json", "has id bigint, as position 1 says"),
        ("id string", "json", "has id bigint, as position 1 says"),
        ("id long", "arrow", "is of json payloads"),
        ("id long", "xml", "use json or arrow"),
        ("long", "json", "is no list of columns"),
    ],
)
def test_a_schema_does_not_take_back_what_it_said(
    spark: SparkSession, tmp_path: Path, schema: str, payload: str, words: str
) -> None:
    with ithaca.open(tmp_path / "events") as log:
        declare_schema(log, "orders", "id long")
        with pytest.raises(InvalidInput, match=words):
            declare_schema(log, "orders", schema, payload=payload)  # type: ignore[arg-type]


def test_a_record_that_says_no_schema_is_told(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "events") as log:
        log.append(b"{}")
        with pytest.raises(InvalidInput, match="the record at position 1 says no schema"):
            find_schema(log, "orders", position=1)
