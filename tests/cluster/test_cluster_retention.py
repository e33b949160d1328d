"""Retention of a cluster: its leader trims what is older, or more, than the file says."""

import dataclasses
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

import ithaca
from ithaca.engines.raft.server import retention
from ithaca.engines.scalog.server.orderer import leading
from ithaca.model.engine import DEFAULT_ENGINE, EngineName
from ithaca.model.limits import SEGMENT_BYTES_MIN
from ithaca.model.records import Retention
from ithaca.testing import Cluster

LOOK_S = 0.05
VALUE = bytes(SEGMENT_BYTES_MIN // 4)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leading, retention):
        monkeypatch.setattr(module, "RETENTION_CHECK_S", LOOK_S)


def cluster_that_keeps(kept: Retention, *, shards: int = 2, engine: EngineName = DEFAULT_ENGINE) -> Cluster:
    cluster = Cluster(shards=shards, replicas=2, engine=engine)
    cluster.file = dataclasses.replace(cluster.file, retention=kept, segment_bytes=SEGMENT_BYTES_MIN)
    return cluster


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_what_is_too_old_goes_and_the_rest_stays() -> None:
    age = timedelta(seconds=2)
    with cluster_that_keeps(Retention(age=age)) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(10):
            log.append_to_shard(number % 2, b"%d" % number)
        assert log.first() == 1
        until(lambda: log.first() == 11, "all ten are too old some time")
        assert log.append(b"new").position == 11
        assert log.read(11).value == b"new"


def test_no_shard_holds_more_than_it_may() -> None:
    kept = Retention(bytes=8 * SEGMENT_BYTES_MIN)
    with cluster_that_keeps(kept) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(16):
            log.append_to_shard(number % 2, VALUE)
        time.sleep(10 * LOOK_S)
        assert log.first() == 1, "two segments of a lane are not too much"
        for _ in range(100):
            log.append_to_shard(0, VALUE)
        until(lambda: log.first() > 16, "the one shard has too much, so what is older goes everywhere")
        first = 0
        while first != log.first():
            first = log.first()
            time.sleep(10 * LOOK_S)
        assert 20 <= log.tail() - first <= 40, "eight segments of about four records"
        with log.read_range(first) as records:
            assert sum(1 for _ in records) == log.tail() - first


def test_nothing_goes_by_age_while_a_shard_does_not_answer() -> None:
    with cluster_that_keeps(Retention(age=timedelta(seconds=1))) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for replica in range(2):
            cluster.stop_server(f"shard-1-replica-{replica}")
        log.append_to_shard(0, b"a")
        time.sleep(1.5)
        assert log.first() == 1
        for replica in range(2):
            cluster.start_server(f"shard-1-replica-{replica}")
        until(lambda: log.first() == 2, "it is too old, and all say so")


def test_without_retention_nothing_goes() -> None:
    with Cluster(shards=1) as cluster, ithaca.connect(cluster.bootstrap) as log:
        log.append(b"a")
        time.sleep(10 * LOOK_S)
        assert log.first() == 1


@pytest.mark.parametrize("engine", ["scalog", "belfast", "raft"])
def test_what_a_consumer_has_not_processed_stays(engine: EngineName) -> None:
    kept = Retention(age=timedelta(seconds=1), keep_for_consumers=True)
    with cluster_that_keeps(kept, shards=1, engine=engine) as cluster, ithaca.connect(cluster.bootstrap) as log:
        for number in range(4):
            log.append(b"%d" % number)
        consumer = log.consumer("slow")
        consumer.poll(timeout=10, max_records=2)
        consumer.commit()
        until(lambda: log.first() == consumer.committed, "what it has processed is too old some time")
        consumer.poll(timeout=10)
        time.sleep(10 * LOOK_S)
        assert log.first() == consumer.committed < consumer.position, "it has not committed that"
        consumer.commit()
        until(lambda: log.first() == consumer.committed, "nobody needs the rest")
