"""One Spark for all tests of this package, in one worker of a parallel run, and a log to read."""

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import ithaca
from ithaca.spark.session import LOCAL_CHECKPOINTS
from ithaca.testing import Cluster

RECORDS = 600
BATCH = 10


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2, 3]")  # two threads; a task may fail twice
        .appName("ithaca-tests")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .config(map={**LOCAL_CHECKPOINTS})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="package")
def bootstrap() -> Iterator[str]:
    """Two shards with 600 records in batches of ten, to be read only; value i is at position i."""
    with Cluster(shards=2) as cluster, ithaca.connect(cluster.bootstrap, shard_policy="round_robin") as log:
        for first in range(1, RECORDS + 1, BATCH):
            numbers = range(first, first + BATCH)
            log.append_many(
                [b"%d" % n for n in numbers], keys=[b"key-%d" % (n % 7) if n % 5 else None for n in numbers]
            )
        yield cluster.bootstrap
