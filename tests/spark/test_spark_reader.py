"""A table of the log, by its reader alone: what the driver plans, and what tasks bring."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

import ithaca
from ithaca.spark import SCHEMA, IthacaDataSource
from ithaca.spark.batch_reader import TableReader
from ithaca.spark.limits import SPARK_BATCH_BYTES
from ithaca.testing import Cluster
from ithaca.wire.joined import schema

RECORDS = 600


def reader(**options: Any) -> TableReader:
    found = IthacaDataSource({name: str(text) for name, text in options.items()}).reader(SCHEMA)
    assert isinstance(found, TableReader)
    return found


def rows_of(chosen: TableReader, partitions: list[InputPartition]) -> list[dict[str, Any]]:
    batches = [batch for partition in partitions for batch in chosen.read(partition)]
    return pa.Table.from_batches(batches, schema=schema()).to_pylist()  # type: ignore[no-any-return]


def rows(**options: Any) -> list[dict[str, Any]]:
    chosen = reader(**options)
    return rows_of(chosen, chosen.partitions())


def values(**options: Any) -> list[int]:
    return [int(row["value"]) for row in rows(**options)]


def test_a_partition_has_no_more_records_than_it_may(bootstrap: str) -> None:
    chosen = reader(bootstrap=bootstrap, maxRecordsPerPartition=250)
    assert [len(rows_of(chosen, [part])) for part in chosen.partitions()] == [200, 200, 200]


def test_by_shard_a_partition_has_one_shard(bootstrap: str) -> None:
    chosen = reader(bootstrap=bootstrap, split="shard")
    parts = [rows_of(chosen, [part]) for part in chosen.partitions()]
    assert [{row["shard"] for row in part} for part in parts] == [{0}, {1}]
    positions = [[row["position"] for row in part] for part in parts]
    assert sorted(positions[0] + positions[1]) == list(range(1, RECORDS + 1))
    assert all(part == sorted(part) for part in positions)


def test_a_range_of_positions_is_half_open(bootstrap: str) -> None:
    assert values(bootstrap=bootstrap, startingOffsets=5, endingOffsets=9) == [5, 6, 7, 8]
    assert values(bootstrap=bootstrap, startingOffsets=590, asOf=595) == list(range(590, 595))


def test_a_range_may_be_empty(bootstrap: str) -> None:
    chosen = reader(bootstrap=bootstrap, startingOffsets="latest")
    assert chosen.partitions() == []
    assert list(chosen.read(InputPartition(None))) == []  # what Spark makes of no partitions


def test_keys_are_selected_by_the_replicas(bootstrap: str) -> None:
    wanted = [n for n in range(1, RECORDS + 1) if n % 7 == 3 and n % 5]
    assert values(bootstrap=bootstrap, keyFilter="equals:key-3", minPartitions=3) == wanted


def test_a_time_is_a_place_in_the_order() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"1", b"2"])
        between = datetime.now(UTC).isoformat()
        log.append_many([b"3", b"4"])
        assert values(bootstrap=cluster.bootstrap, startingTimestamp=between) == [3, 4]
        assert values(bootstrap=cluster.bootstrap, asOf=between) == [1, 2]
        assert values(bootstrap=cluster.bootstrap, endingTimestamp=datetime.now(UTC).isoformat()) == [1, 2, 3, 4]


def test_what_was_trimmed_fails_a_table_or_is_left_out() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"%d" % n for n in range(1, 21)])
        log.trim(11)
        assert values(bootstrap=cluster.bootstrap) == list(range(11, 21))
        loose = values(bootstrap=cluster.bootstrap, startingOffsets=5, failOnDataLoss="false")
        assert loose == list(range(11, 21))
        with pytest.raises(ithaca.Trimmed, match="position 5 was trimmed; the first one left is 11: start there, or"):
            reader(bootstrap=cluster.bootstrap, startingOffsets=5).partitions()


def test_what_is_trimmed_after_planning_is_left_out_if_it_may_be() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"%d" % n for n in range(1, 21)])
        strict = reader(bootstrap=cluster.bootstrap)
        loose = reader(bootstrap=cluster.bootstrap, failOnDataLoss="false")
        strict_parts, loose_parts = strict.partitions(), loose.partitions()
        log.trim(6)
        with pytest.raises(ithaca.Trimmed):
            rows_of(strict, strict_parts)
        assert [row["position"] for row in rows_of(loose, loose_parts)] == list(range(6, 21))


def test_a_shard_that_is_gone_has_nothing_more() -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for shard in (0, 1, 1):
            log.append_to_shard(shard, b"%d" % shard)
        chosen = reader(bootstrap=cluster.bootstrap, split="shard", startingOffsets=2)
        parts = chosen.partitions()
        log.admin.finalize_shard(0)
        log.trim(2)
        assert [row["value"] for row in rows_of(chosen, parts)] == [b"1", b"1"]


def test_small_batches_are_joined_for_spark() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        for _ in range(40):
            log.append_many([bytes(4096)] * 16)
        chosen = reader(bootstrap=cluster.bootstrap)
        batches = [batch for part in chosen.partitions() for batch in chosen.read(part)]
        sizes = [batch.get_total_buffer_size() for batch in batches]
        assert len(batches) <= 3
        assert all(SPARK_BATCH_BYTES <= size <= 2 * SPARK_BATCH_BYTES for size in sizes[:-1])
        assert sum(len(batch) for batch in batches) == 640


def test_an_embedded_log_is_a_table(tmp_path: Path) -> None:
    with ithaca.open(tmp_path / "events") as log:
        log.append_many([b"1", b"2", b"3"], keys=[b"a", None, b"b"])
        found = rows(path=tmp_path / "events")
        assert [(row["position"], row["key"], row["value"]) for row in found] == [
            (1, b"a", b"1"),
            (2, None, b"2"),
            (3, b"b", b"3"),
        ]
        assert values(path=tmp_path / "events", keyFilter="equals:b") == [3]
        assert values(path=tmp_path / "events", split="shard") == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "9", "endingOffsets": "8"}, "startingOffsets is 9, which is after the end, 8"),
        ({"endingOffsets": "601000"}, "endingOffsets is 601000, and the tail is 601"),
        ({"asOf": "602"}, "asOf is 602, and the tail is 601"),
        ({"startingOffsets": "602"}, "startingOffsets is 602, and the tail is 601"),
        ({"startingOffsets": "latest", "endingOffsets": "7"}, "would start at 601, which is after its end, 7"),
    ],
)
def test_what_the_log_does_not_have_is_told_when_planning(bootstrap: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(ithaca.IthacaError, match=words):
        reader(bootstrap=bootstrap, **options).partitions()


def test_another_schema_is_refused(bootstrap: str) -> None:
    other = StructType().add("name", "string")
    with pytest.raises(ithaca.InvalidInput, match="a log has the columns"):
        IthacaDataSource({"bootstrap": bootstrap}).reader(other)
