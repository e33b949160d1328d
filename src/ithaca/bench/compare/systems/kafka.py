"""Apache Kafka: two brokers, every record on both before it is acknowledged, through librdkafka's Python client."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from ithaca.bench.cluster.producers import Counted, Plan, Turn, append_until
from ithaca.bench.compare.system import Running, System, needed
from ithaca.bench.compare.work import Client, Fill, Filled, Pace, Role, append_when_due, evenly
from ithaca.bench.kafka_broker import BrokerPlan, kafka_brokers
from ithaca.bench.measure import Progress
from ithaca.model.errors import DeadlineExceeded, Unavailable
from ithaca.model.limits import MIB

VERSION: Final = "4.3.0"
PACKAGE: Final = f"org.apache.kafka:kafka_2.13:{VERSION}"
TOPIC: Final = "bench"
FETCH: Final = 1000
"""Records that are taken from the client's queue at once."""
WAIT_S: Final = 30.0
MESSAGE_BYTES_MAX: Final = 32 * MIB


class Delivery:
    """A batch under way: done when the last of its records is acknowledged."""

    def __init__(self, producer: Any, count: int, done: Callable[[], object] | None = None) -> None:
        self._producer, self._left, self._done = producer, count, done
        self._error: Any = None

    def delivered(self, error: Any, message: Any) -> None:
        self._error = self._error or error
        self._left -= 1
        if self._left == 0 and self._done is not None:
            self._done()

    def result(self) -> None:
        give_up_s = time.monotonic() + WAIT_S
        while self._left:
            self._producer.poll(0.01)
            if time.monotonic() > give_up_s:
                raise DeadlineExceeded(f"Kafka acknowledged nothing for {WAIT_S:.0f} s")
        if self._error is not None:
            raise Unavailable(f"Kafka refused a record: {self._error}")


class KafkaClient(Client):
    """A producer or a consumer with librdkafka's defaults, but for what is named in `settings`."""

    def __init__(self, servers: str, role: Role) -> None:
        self._kafka = needed("confluent_kafka", "confluent-kafka")
        self._servers = servers
        self._producers: dict[int, Any] = {}
        self._consumer: Any = self._consume() if role == "read" else None

    def append(self, turn: Turn, values: list[list[bytes]]) -> Counted:
        producer = self._producer(turn.plan)
        return append_until(turn, values, partial(self._submit, producer))

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        producer = self._producer(pace.turn.plan)

        def begin(batch: list[bytes], done: Callable[[], object]) -> None:
            self._submit(producer, batch, done)

        return append_when_due(pace, values, begin, producer.poll)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        producer, offsets = self._producer(Plan(fill.record_bytes, fill.batch, 8)), list[int]()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise Unavailable(f"Kafka refused a record: {error}")
            offsets.append(message.offset())

        for turn in range(-(-fill.records // fill.batch)):
            for value in values[turn % len(values)]:
                self._produce(producer, value, delivered)
        producer.flush()
        return Filled(len(offsets), fill.record_bytes, min(offsets), evenly(offsets))

    def read_all(self, filled: Filled) -> int:
        self._seek(filled.start)
        records, stop = 0, filled.start + filled.records
        while True:
            for message in self._consumer.consume(FETCH, WAIT_S):
                records += 1
                assert message.value()
                if message.offset() + 1 >= stop:
                    return records

    def read_one(self, filled: Filled, place: Any) -> int:
        self._seek(place)
        message = self._consumer.poll(WAIT_S)
        assert message.offset() == place
        return len(message.value())

    def close(self) -> None:
        for producer in self._producers.values():
            producer.flush(WAIT_S)
        if self._consumer is not None:
            self._consumer.close()

    def _producer(self, plan: Plan) -> Any:
        """One that waits for more while several batches are in flight, and one that does not."""
        linger_ms = 0 if plan.window == 1 and plan.batch == 1 else 2
        if linger_ms not in self._producers:
            self._producers[linger_ms] = self._kafka.Producer(
                {
                    "bootstrap.servers": self._servers,
                    "acks": "all",
                    "linger.ms": linger_ms,
                    "batch.size": MIB,
                    "batch.num.messages": 10_000,
                    "message.max.bytes": MESSAGE_BYTES_MAX,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        return self._producers[linger_ms]

    def _submit(self, producer: Any, batch: list[bytes], done: Callable[[], object] | None = None) -> Delivery:
        delivery = Delivery(producer, len(batch), done)
        for value in batch:
            self._produce(producer, value, delivery.delivered)
        producer.poll(0)
        return delivery

    @staticmethod
    def _produce(producer: Any, value: bytes, delivered: Callable[[Any, Any], None]) -> None:
        while True:
            try:
                producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
                return
            except BufferError:  # its queue is full
                producer.poll(0.01)

    def _consume(self) -> Any:
        return self._kafka.Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "bench",
                "enable.auto.commit": False,
                "check.crcs": True,  # as Ithaca does
                "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
                "fetch.max.bytes": MESSAGE_BYTES_MAX,
            }
        )

    def _seek(self, offset: int) -> None:
        self._consumer.assign([self._kafka.TopicPartition(TOPIC, 0, offset)])


class Kafka(System):
    """Two brokers in KRaft mode; with the page cache as is Kafka's default, or every record synced."""

    order = "per partition; the topic has one"

    def __init__(self, durable: Literal["synced", "page cache"]) -> None:
        self.name = "kafka" if durable == "synced" else "kafka, page cache"
        self.durable = durable
        self.acknowledged = (
            "synced to the disks of both brokers"
            if durable == "synced"
            else "in the page caches of both brokers, synced when the kernel sees fit"
        )

    @contextmanager
    def run(self, directory: Path, progress: Progress) -> Iterator[Running]:
        needed("confluent_kafka", "confluent-kafka")
        from ithaca.bench.jars import fetch_jars

        progress("fetching Kafka, from Maven Central unless it was before")
        java, jars = fetch_jars([PACKAGE])
        progress("starting two Kafka brokers")
        plan = BrokerPlan(java, jars, 1, MESSAGE_BYTES_MAX, brokers=2)
        topic = {"min.insync.replicas": "2", "max.message.bytes": str(MESSAGE_BYTES_MAX)}
        if self.durable == "synced":
            topic["flush.messages"] = "1"
        with kafka_brokers(directory, plan) as brokers:
            servers = ",".join(brokers.addresses)
            make_topic(servers, topic)
            settings = {"acks": "all", "replication": "2", "linger.ms": "2, and 0 for lone appends", **topic}
            pids = [process.pid for process in brokers.processes]
            yield Running(partial(KafkaClient, servers), lambda: pids, VERSION, settings)


def make_topic(servers: str, settings: dict[str, str]) -> None:
    """One partition on both brokers, once both are there."""
    admin_module = needed("confluent_kafka.admin", "confluent-kafka")
    admin = admin_module.AdminClient({"bootstrap.servers": servers})
    give_up_s = time.monotonic() + WAIT_S
    while True:
        topic = admin_module.NewTopic(TOPIC, num_partitions=1, replication_factor=2, config=settings)
        try:
            admin.create_topics([topic])[TOPIC].result(WAIT_S)
            return
        except Exception as error:  # its errors have no common type that tells what passes
            if time.monotonic() > give_up_s:
                raise Unavailable(f"Kafka made no topic within {WAIT_S:.0f} s: {error}") from error
            time.sleep(0.5)
