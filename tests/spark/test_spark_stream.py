"""A stream of the log: one number is its offset, through restarts, trims and shards that come and go."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.streaming.query import StreamingQuery

import ithaca
from ithaca.spark import SCHEMA, IthacaDataSource
from ithaca.spark.stream_reader import LogStreamReader
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


# By the reader alone, as Spark calls it


def reader(bootstrap: str, **options: Any) -> LogStreamReader:
    given = {
        "bootstrap": bootstrap,
        "startingOffsets": "earliest",
        **{name: str(text) for name, text in options.items()},
    }
    found = IthacaDataSource(given).streamReader(SCHEMA)
    assert isinstance(found, LogStreamReader)
    return found


@contextmanager
def reading(bootstrap: str, **options: Any) -> Iterator[LogStreamReader]:
    found = reader(bootstrap, **options)
    try:
        yield found
    finally:
        found.stop()


def test_bytes_bound_a_batch(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    ithaca_log.append_many([b"%0100d" % n for n in range(1, 31)])
    with reading(ithaca_cluster.bootstrap, maxBytesPerTrigger=1000) as chosen:
        limit = chosen.getDefaultReadLimit()
        assert limit == ReadMaxBytes(1000)
        assert chosen.initialOffset() == {"position": 1}
        assert chosen.latestOffset({"position": 1}, limit) == {"position": 11}
        assert chosen.latestOffset({"position": 25}, limit) == {"position": 31}
        assert chosen.latestOffset({"position": 1}, ReadAllAvailable()) == {"position": 31}


def test_of_two_limits_the_smaller_counts(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    ithaca_log.append_many([b"%0100d" % n for n in range(1, 31)])
    for records, stop in ((5, 6), (20, 11)):
        with reading(ithaca_cluster.bootstrap, maxBytesPerTrigger=1000, maxOffsetsPerTrigger=records) as chosen:
            assert chosen.latestOffset({"position": 1}, chosen.getDefaultReadLimit()) == {"position": stop}


def test_a_checkpoint_below_the_trim_point_fails_or_goes_on(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    append(ithaca_log, 1, 21)
    ithaca_log.trim(11)
    start, end = {"position": 5}, {"position": 21}
    with reading(ithaca_cluster.bootstrap) as strict:
        assert strict.initialOffset() == {"position": 11}
        with pytest.raises(ithaca.Trimmed, match="position 5 was trimmed; the first one left is 11"):
            strict.latestOffset(start, ReadAllAvailable())
        with pytest.raises(ithaca.Trimmed):
            strict.partitions(start, end)
        assert len(strict.partitions({"position": 11}, end)) == 1
    with reading(ithaca_cluster.bootstrap, failOnDataLoss="false") as loose:
        assert loose.latestOffset(start, ReadAllAvailable()) == end
        batches = [batch for part in loose.partitions(start, end) for batch in loose.read(part)]
        assert [each for batch in batches for each in batch.column("position").to_pylist()] == list(range(11, 21))


def test_a_range_is_planned_the_same_again(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    append(ithaca_log, 1, 101)
    plans = []
    for more in (0, 1):
        append(ithaca_log, 1, 1 + 50 * more)
        with reading(ithaca_cluster.bootstrap, minPartitions=3) as chosen:
            plans.append(list(map(repr, chosen.partitions({"position": 7}, {"position": 90}))))
    assert plans[0] == plans[1] == ["LogPartition([7, 34))", "LogPartition([34, 62))", "LogPartition([62, 90))"]


def test_a_query_of_what_is_there_now_ends_there(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    append(ithaca_log, 1, 21)
    with reading(ithaca_cluster.bootstrap) as chosen:
        chosen.prepareForTriggerAvailableNow()
        append(ithaca_log, 21, 41)
        assert chosen.latestOffset({"position": 1}, ReadAllAvailable()) == {"position": 21}
        assert chosen.latestOffset({"position": 21}, ReadAllAvailable()) == {"position": 21}
        assert chosen.reportLatestOffset() == {"position": 41}


def test_what_the_log_does_not_have_is_told(bootstrap: str) -> None:
    with reading(bootstrap, startingOffsets=1000) as chosen:
        with pytest.raises(ithaca.NotWritten, match="startingOffsets is 1000, and the tail is 601"):
            chosen.initialOffset()
        with pytest.raises(ithaca.NotWritten, match="it belongs to another log"):
            chosen.latestOffset({"position": 1000}, ReadAllAvailable())
        with pytest.raises(ithaca.InvalidInput, match="it is of another source"):
            chosen.latestOffset({"topic": 1}, ReadAllAvailable())


def test_tasks_get_no_handle(bootstrap: str) -> None:
    with reading(bootstrap) as chosen:
        chosen.initialOffset()
        sent = pickle.loads(pickle.dumps(chosen))
        assert sent.reportLatestOffset() == {"position": 601}
        sent.stop()


def test_a_named_consumer_shows_how_far_a_query_is(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        append(log, 1, 101)
        assert run(spark, cluster.bootstrap, tmp_path / "c", maxOffsetsPerTrigger=40, consumer="reports").sizes[0] == 40
        (shown,) = log.consumers()
        assert shown.name == "reports"
        assert shown.position in (41, 81, 101), "Spark says it of a batch when it plans the next"


def test_a_reader_commits_what_spark_says_into_a_named_consumer() -> None:
    with Cluster() as cluster, ithaca.connect(cluster.bootstrap) as log:
        append(log, 1, 101)
        source = IthacaDataSource({"bootstrap": cluster.bootstrap, "consumer": "reports"})
        reader = source.streamReader(SCHEMA)
        assert isinstance(reader, LogStreamReader)
        reader.commit({"position": 101})
        assert [(each.position, each.lag_records) for each in log.consumers()] == [(101, 0)]
        log.reset_consumer("reports", 50)
        reader.commit({"position": 90})
        assert log.consumers()[0].position == 90
        reader.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"path": "somewhere", "consumer": "reports"}, "read only"),
        ({"bootstrap": "localhost:1", "consumer": ""}, "name has 1 to"),
    ],
)
def test_a_consumer_that_cannot_be_shown(options: dict[str, str], words: str) -> None:
    with pytest.raises(ithaca.InvalidInput, match=words):
        IthacaDataSource(options).streamReader(SCHEMA)
