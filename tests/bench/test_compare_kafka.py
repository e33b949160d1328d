"""Kafka as one of the systems that are compared: its brokers, its clients, and what became of every record."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bench.test_raft_benches import quiet

from ithaca.bench.cluster.producers import Plan, Turn
from ithaca.bench.compare.open_loop import STAMP, Pace
from ithaca.bench.compare.system import Running
from ithaca.bench.compare.systems.kafka import FETCH, Delivery, Kafka, is_there_already, make_topic
from ithaca.bench.compare.work import Client, Fill, Follow, Read, ReadSome
from ithaca.model.errors import Unavailable

RECORDS = FETCH + 500
"""Not a multiple of what is taken at once."""


def test_a_batch_with_a_refused_record_is_refused() -> None:
    told: list[str | None] = []
    delivery = Delivery(None, 2, told.append)
    delivery.delivered("the message is too large", None)
    assert not told
    delivery.delivered(None, None)
    assert told == ["the message is too large"]
    with pytest.raises(Unavailable, match="the message is too large"):
        delivery.result()
    accepted = Delivery(None, 1, told.append)
    accepted.delivered(None, None)
    assert told[1:] == [None]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """Two brokers that sync nothing by themselves; the first run fetches them."""
    pytest.importorskip("confluent_kafka")
    directory = tmp_path_factory.mktemp("kafka") / "data"
    with Kafka("page cache").run(directory, quiet) as running:
        yield running, directory


def values() -> list[list[bytes]]:
    return [[os.urandom(100)] for _ in range(16)]


@pytest.mark.campaign
def test_brokers_say_something(kafka: tuple[Running, Path]) -> None:
    """Without a library that prints it, whoever looks for a reason finds an empty file."""
    outputs = [path.read_text() for path in kafka[1].glob("broker-*/output.txt")]
    assert len(outputs) == 2
    assert all("SLF4J" not in each and "Formatting" in each for each in outputs)


@pytest.mark.campaign
def test_everything_is_read_without_waiting_for_more(kafka: tuple[Running, Path]) -> None:
    with kafka[0].connect("append") as appender, kafka[0].connect("read") as reader:
        filled = appender.fill(Fill(100, 1, RECORDS), values())
        began = time.monotonic()
        assert [reader.read_all(filled) for _ in range(3)] == [RECORDS] * 3
        assert time.monotonic() - began < 25.0  # one part that waits for more takes 30 s


@pytest.mark.campaign
def test_random_reads_do_not_wait_for_each_other(kafka: tuple[Running, Path]) -> None:
    """A fetch that waits at the end of the log, or for its queue, would take half a second."""
    with kafka[0].connect("append") as appender, kafka[0].connect("read") as reader:
        filled = appender.fill(Fill(100, 1, 200), values())
        start_s = time.monotonic()
        found = reader.read(ReadSome(filled, start_s, start_s + 5.0, seed=1))
        assert np.median(np.frombuffer(found.durations)) < 0.25
        assert reader.read_one(filled, filled.places[-1]) == 100


@pytest.mark.campaign
def test_a_subscriber_receives_what_is_appended_when_due(kafka: tuple[Running, Path]) -> None:
    with kafka[0].connect("append") as appender, kafka[0].connect("read") as reader:
        pace = Pace(Turn(Plan(100, 1, 1), 0.0, 0.5), 100.0, stamped=True)
        following, found = threading.Event(), list[Read]()
        thread = threading.Thread(target=lambda: found.append(reader.follow(Follow(pace.count), following.set)))
        thread.start()
        assert following.wait(60)
        start_s = time.monotonic()
        counted = appender.pace(Pace(Turn(pace.turn.plan, start_s, start_s + 0.5), 100.0, stamped=True), values())
        thread.join(60)
        assert len(counted.durations) // STAMP.size == found[0].records == pace.count == 50
        assert np.frombuffer(found[0].durations).min() > 0


@pytest.mark.campaign
def test_refused_records_are_not_acknowledged_and_a_topic_is_made_once(kafka: tuple[Running, Path]) -> None:
    with kafka[0].connect("append") as appender:
        servers = appender._servers  # type: ignore[attr-defined]
        make_topic(servers, {})  # it is there already, as after an answer that came too late
        appender.fill(Fill(100, 1, 10), values())
        appender.clear()
        assert _end(appender) == 0
        appender._topic = {"max.message.bytes": "1000"}  # type: ignore[attr-defined]
        appender.clear()
    with kafka[0].connect("append") as appender:
        start_s = time.monotonic()
        pace = Pace(Turn(Plan(5000, 1, 1), start_s, start_s + 0.1), 50.0)
        with pytest.raises(Unavailable, match="5 of 5 appends were refused"):
            appender.pace(pace, [[os.urandom(5000)]])
        appender.clear()


def test_only_that_a_topic_exists_is_no_failure() -> None:
    kafka = pytest.importorskip("confluent_kafka")
    exists, other = kafka.KafkaError.TOPIC_ALREADY_EXISTS, kafka.KafkaError.INVALID_REPLICATION_FACTOR
    assert is_there_already(kafka.KafkaException(kafka.KafkaError(exists)))
    assert not is_there_already(kafka.KafkaException(kafka.KafkaError(other)))
    assert not is_there_already(TimeoutError())


def _end(client: Client) -> Any:
    with client.__class__(client._servers, {}, "read") as reader:  # type: ignore[attr-defined, call-arg]
        consumer = reader._consumer("new", {})  # type: ignore[attr-defined]
        partition = reader._kafka.TopicPartition("bench", 0)  # type: ignore[attr-defined]
        return consumer.get_watermark_offsets(partition, timeout=30)[1]
