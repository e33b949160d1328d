"""A stream of the log: one number is its offset, through restarts, trims and shards that come and go."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import ithaca
from ithaca.testing import Cluster


class Collected:
    """What micro-batches brought, by number; a batch that is repeated replaces itself."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def __call__(self, frame: DataFrame, batch: int) -> None:
        self.batches[batch] = [int(row.value) for row in frame.collect()]

    @property
    def values(self) -> list[int]:
        return [value for batch in sorted(self.batches) for value in self.batches[batch]]

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[batch]) for batch in sorted(self.batches)]


def start(spark: SparkSession, bootstrap: str, checkpoint: Path, into: Collected, **options: Any) -> StreamingQuery:
    given = {"startingOffsets": "earliest", **options}
    stream = spark.readStream.format("ithaca").option("bootstrap", bootstrap).options(**given).load()
    return stream.writeStream.foreachBatch(into).option("checkpointLocation", str(checkpoint)).start()


def run(spark: SparkSession, bootstrap: str, checkpoint: Path, **options: Any) -> Collected:
    """A query of all that is there."""
    into = Collected()
    given = {"startingOffsets": "earliest", **options}
    stream = spark.readStream.format("ithaca").option("bootstrap", bootstrap).options(**given).load()
    writer = stream.writeStream.foreachBatch(into).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return into


def append(log: ithaca.Log, low: int, high: int) -> None:
    for first in range(low, high, 10):
        log.append_many([b"%d" % n for n in range(first, min(first + 10, high))])


def test_what_is_there_is_read_in_bounded_batches_and_a_restart_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        append(log, 1, 101)
        first = run(spark, cluster.bootstrap, tmp_path / "c", maxOffsetsPerTrigger=40)
        assert (first.sizes, first.values) == ([40, 40, 20], list(range(1, 101)))
        append(log, 101, 151)
        second = run(spark, cluster.bootstrap, tmp_path / "c", startingOffsets="latest")
        assert second.values == list(range(101, 151))
        log.trim(121)
        append(log, 151, 161)
        assert run(spark, cluster.bootstrap, tmp_path / "c").values == list(range(151, 161))


def test_bytes_bound_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append_many([b"%0100d" % n for n in range(1, 31)])
        found = run(spark, cluster.bootstrap, tmp_path / "c", maxBytesPerTrigger=1000)
        assert (found.sizes, found.values) == ([10, 10, 10], list(range(1, 31)))


def test_shards_come_and_go_while_a_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        append(log, 1, 51)
        into = Collected()
        query = start(spark, cluster.bootstrap, tmp_path / "c", into, maxOffsetsPerTrigger=70)
        query.processAllAvailable()
        added = cluster.add_shard()
        append(log, 51, 151)
        query.processAllAvailable()
        log.admin.finalize_shard(0)
        append(log, 151, 201)
        query.processAllAvailable()
        progress = query.lastProgress
        query.stop()
        assert into.values == list(range(1, 201))
        assert {record.shard for record in log.read_range(151)} == {added}
        assert progress is not None
        assert json.loads(progress.sources[0].latestOffset) == {"position": 201}


def test_a_checkpoint_below_the_trim_point_fails_or_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        append(log, 1, 21)
        assert run(spark, cluster.bootstrap, tmp_path / "c").values == list(range(1, 21))
        append(log, 21, 61)
        log.trim(41)
        with pytest.raises(Exception, match="position 21 was trimmed; the first one left is 41"):
            run(spark, cluster.bootstrap, tmp_path / "c")
        assert run(spark, cluster.bootstrap, tmp_path / "c", failOnDataLoss="false").values == list(range(41, 61))


def test_a_checkpoint_of_another_log_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        append(log, 1, 21)
        run(spark, cluster.bootstrap, tmp_path / "c")
    with Cluster() as cluster, pytest.raises(Exception, match="it belongs to another log"):
        run(spark, cluster.bootstrap, tmp_path / "c")


def test_a_start_beyond_the_tail_is_refused(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="startingOffsets is 1000, and the tail is 601"):
        run(spark, bootstrap, tmp_path / "c", startingOffsets=1000)
