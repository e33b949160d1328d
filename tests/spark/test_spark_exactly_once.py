"""Exactly once: whatever is repeated, and whoever dies, every row is in the log once, in the order of partitions."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

import ithaca
from ithaca.engines.scalog.client.log import AsyncClusterLog
from ithaca.model.errors import PublishConflict
from ithaca.spark import IthacaDataSource
from ithaca.spark.exactly_once import _explained
from ithaca.spark.options import Options, write_options
from ithaca.testing import Cluster
from tests.spark.copying import start_copy

Messages = list[WriterCommitMessage | None]
VALUE = StructType().add("value", "string")


def writer(bootstrap: str, **options: Any) -> DataSourceWriter:
    given = {"bootstrap": bootstrap, **{name: str(text) for name, text in options.items()}}
    return IthacaDataSource(given).writer(VALUE, False)


def rows(*values: int) -> Iterator[Any]:
    yield pa.record_batch([pa.array([str(value) for value in values], pa.string())], ["value"])


def failing(*values: int) -> Iterator[Any]:
    yield from rows(*values)
    raise RuntimeError("the task is lost")


def written(log: ithaca.Log) -> list[int]:
    return [int(record.value) for record in log.read_range(1)]


# The calls that Spark makes


def test_partitions_are_published_in_their_order(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    sink = writer(ithaca_cluster.bootstrap, batchBytes=2)
    late, early, empty = sink.write(rows(4, 5, 6)), sink.write(rows(1, 2, 3)), sink.write(iter(()))
    assert written(ithaca_log) == []
    sink.commit([early, empty, late])
    assert written(ithaca_log) == [1, 2, 3, 4, 5, 6]


def test_tasks_that_are_repeated_count_once(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    sink = writer(ithaca_cluster.bootstrap)
    with pytest.raises(RuntimeError):
        sink.write(failing(1, 2))
    sink.write(rows(1, 2))  # it ended, and its message was lost; or it is the slower of two that ran at once
    sink.commit([sink.write(rows(1, 2)), sink.write(rows(3))])
    assert written(ithaca_log) == [1, 2, 3]


def test_a_batch_that_is_repeated_is_published_once(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    for turn in (rows(1, 2), rows(2, 1)):  # rows of a shuffled partition may come in another order
        sink = writer(ithaca_cluster.bootstrap, writerId="loader", batchId=7)
        sink.commit([sink.write(turn)])
        assert written(ithaca_log) == [1, 2]
    sink = writer(ithaca_cluster.bootstrap, writerId="loader", batchId=8)
    sink.commit([sink.write(rows(3))])
    assert written(ithaca_log) == [1, 2, 3]


def test_a_job_without_a_name_is_not_remembered(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    sink = writer(ithaca_cluster.bootstrap)
    messages: Messages = [sink.write(rows(1, 2)), sink.write(rows(3))]
    sink.commit(messages)
    sink.commit(messages)  # as when the answer to the first did not come back
    assert written(ithaca_log) == [1, 2, 3]
    assert isinstance(ithaca_log, ithaca.ClusterLog)
    assert ithaca_log.admin.writers() == ()


def test_a_part_waits_for_the_commit_as_long_as_was_asked_for(
    ithaca_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    renew = AsyncClusterLog.renew

    async def noted(log: AsyncClusterLog, parts: Iterable[ithaca.Part], *, ttl: float) -> None:
        asked.append(ttl)
        await renew(log, parts, ttl=ttl)

    monkeypatch.setattr(AsyncClusterLog, "renew", noted)
    writer(ithaca_cluster.bootstrap).write(rows(1))
    writer(ithaca_cluster.bootstrap, partTtl=7200).write(rows(2))
    assert asked == [86_400, 7200]


def test_an_abort_leaves_what_was_published(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    sink = writer(ithaca_cluster.bootstrap)
    messages: Messages = [sink.write(rows(1)), sink.write(rows(2))]
    sink.commit(messages)
    sink.abort(messages)
    assert written(ithaca_log) == [1, 2]


def test_an_aborted_job_leaves_nothing(ithaca_cluster: Cluster, ithaca_log: ithaca.Log) -> None:
    sink = writer(ithaca_cluster.bootstrap)
    messages: Messages = [sink.write(rows(1)), None]
    sink.abort(messages)
    with pytest.raises(ithaca.PartGone):
        sink.commit(messages[:1])
    assert written(ithaca_log) == []


def test_an_older_batch_is_refused(ithaca_cluster: Cluster) -> None:
    for number in (7, 6):
        sink = writer(ithaca_cluster.bootstrap, writerId="loader", batchId=number)
        messages: Messages = [sink.write(rows(number))]
        if number == 7:
            sink.commit(messages)
    with pytest.raises(ithaca.PublishConflict, match="batch 6 of writer 'loader' is refused, since batch 7 is"):
        sink.commit(messages)


@pytest.mark.parametrize(("owner", "words"), [("q-7", "already by query q-7: go on"), ("", "already: go on")])
def test_a_conflict_names_the_query_if_there_is_one(owner: str, words: str) -> None:
    known = PublishConflict("refused", writer="w", key=3, owner=owner, position=5, count=2)
    told = _explained(known, 2)
    assert words in str(told)
    assert (told.writer, told.key, told.owner, told.position, told.count) == ("w", 3, owner, 5, 2)


@pytest.mark.parametrize(
    ("options", "is_stream", "words"),
    [
        ({"batchId": "1"}, False, "name the writer with writerId"),
        ({"batchId": "-1", "writerId": "w"}, False, "batchId is -1"),
        ({"batchId": "x", "writerId": "w"}, False, "batchId is 'x'"),
        ({"batchId": "1", "writerId": "w"}, True, "a stream numbers its batches itself"),
    ],
)
def test_a_batch_needs_a_writer_and_a_number(options: dict[str, str], is_stream: bool, words: str) -> None:
    with pytest.raises(ithaca.InvalidInput, match=words):
        write_options(Options({"bootstrap": "127.0.0.1:7600", **options}), is_stream=is_stream)


# Spark itself


def test_a_failed_task_is_repeated_by_spark(
    spark: SparkSession, ithaca_cluster: Cluster, ithaca_log: ithaca.Log
) -> None:
    def fail_once(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.attemptNumber() == 0 and context.partitionId() == 1:
            raise RuntimeError("the first attempt fails after all its rows were written")

    frame = spark.range(0, 1000, numPartitions=2).selectExpr("cast(id as string) as value")
    failing_once = frame.mapInArrow(fail_once, VALUE)
    failing_once.write.format("ithaca").option("bootstrap", ithaca_cluster.bootstrap).mode("append").save()
    assert written(ithaca_log) == list(range(1000))


def copy_on(spark: SparkSession, source: str, target: str, checkpoint: Path) -> None:
    stream = spark.readStream.format("ithaca").option("bootstrap", source).option("startingOffsets", "earliest")
    rows = stream.load().select("key", "value")
    writing = (
        rows.writeStream.format("ithaca").option("bootstrap", target).option("checkpointLocation", str(checkpoint))
    )
    query = writing.trigger(availableNow=True).start()
    query.awaitTermination()


@pytest.mark.campaign
def test_a_killed_driver_neither_loses_nor_repeats(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    with (
        Cluster(shards=2) as source,
        Cluster(shards=2) as target,
        ithaca.connect(source.bootstrap, shard_policy="round_robin") as log,
        ithaca.connect(target.bootstrap) as copy,
    ):
        for first in range(0, 1000, 20):
            log.append_many([b"%d" % n for n in range(first, first + 20)])
        said = tmp_path / "driver.txt"
        with start_copy(
            source.bootstrap, target.bootstrap, checkpoint, said, master="local[1]", offsets=50, trigger="always"
        ) as driver:
            while copy.tail() < 100 and driver.poll() is None:
                time.sleep(0.1)
            assert driver.poll() is None, said.read_text()[-4000:]
            os.killpg(driver.pid, signal.SIGKILL)
        assert copy.tail() < 1001
        copy_on(spark, source.bootstrap, target.bootstrap, checkpoint)
        assert written(copy) == list(range(1000))
        last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
        last.unlink()  # as if the driver had died after publishing, before it noted that
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        copy_on(spark, source.bootstrap, target.bootstrap, checkpoint)
        assert written(copy) == list(range(1000))
