"""Apache Kafka: two brokers, every record on both before it is acknowledged, through librdkafka's Python client."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Literal

from ithaca.bench.cluster.producers import Counted, Plan, Turn, append_until
from ithaca.bench.compare.open_loop import Done, Pace, append_when_due
from ithaca.bench.compare.system import Running, System, needed
from ithaca.bench.compare.work import Appended, Client, Fill, Filled, Role, evenly
from ithaca.bench.kafka_broker import BrokerPlan, kafka_brokers
from ithaca.bench.measure import Progress
from ithaca.model.errors import DeadlineExceeded, Unavailable
from ithaca.model.limits import KIB, MIB

VERSION: Final = "4.3.0"
PACKAGE: Final = f"org.apache.kafka:kafka_2.13:{VERSION}"
TOPIC: Final = "bench"
FETCH: Final = 1000
"""Records that are taken from the client's queue at once."""
WAIT_S: Final = 30.0
MESSAGE_BYTES_MAX: Final = 32 * MIB

READ_ALL: Final[Mapping[str, Any]] = {
    "fetch.message.max.bytes": MESSAGE_BYTES_MAX,
    "fetch.max.bytes": MESSAGE_BYTES_MAX,
    "fetch.wait.max.ms": 10,  # a fetch that waits at the end would hold up the first one of the next turn
}
READ_ONE: Final[Mapping[str, Any]] = {
    "fetch.message.max.bytes": KIB,  # a record that is larger comes nevertheless, alone
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 0,
    "queued.min.messages": 1,
}


class Delivery:
    """A batch under way: done when the last of its records is answered."""

    def __init__(self, producer: Any, count: int, done: Done | None = None) -> None:
        self._producer, self._left, self._done = producer, count, done
        self._error: Any = None

    def delivered(self, error: Any, message: Any) -> None:
        self._error = self._error or error
        self._left -= 1
        if self._left == 0 and self._done is not None:
            self._done(None if self._error is None else str(self._error))

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

    def __init__(self, servers: str, topic: Mapping[str, str], role: Role) -> None:
        self._kafka = needed("confluent_kafka", "confluent-kafka")
        self._servers, self._topic, self._common = servers, topic, common(servers)
        self._producers: dict[tuple[int, int], Any] = {}
        self._consumers: dict[str, Any] = {}

    def append(self, turn: Turn, values: list[list[bytes]]) -> Appended:
        producer = self._producer(turn.plan)
        return Appended.whole(turn, append_until(turn, values, partial(self._submit, producer)))

    def pace(self, pace: Pace, values: list[list[bytes]]) -> Counted:
        producer = self._producer(pace.turn.plan)
        return append_when_due(pace, values, partial(self._submit, producer), producer.poll)

    def fill(self, fill: Fill, values: list[list[bytes]]) -> Filled:
        """Records that are filled one by one are a batch each, so that reading one does not send others along."""
        producer = self._producer(Plan(fill.record_bytes, fill.batch, 8), records_max=1 if fill.batch == 1 else None)
        offsets, refused = list[int](), list[str]()

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(str(error))
            else:
                offsets.append(message.offset())

        turns = -(-fill.records // fill.batch)
        for turn in range(turns):
            for value in values[turn % len(values)]:
                self._produce(producer, value, delivered)
        left = producer.flush(2 * WAIT_S)
        if refused:
            raise Unavailable(f"Kafka refused a record: {refused[0]}")
        if left:
            raise DeadlineExceeded(f"Kafka did not acknowledge {left} records within {2 * WAIT_S:.0f} s")
        return Filled(len(offsets), fill.record_bytes, min(offsets), evenly(sorted(offsets)))

    def read_all(self, filled: Filled) -> int:
        consumer = self._consumer("all", READ_ALL)
        consumer.assign([self._kafka.TopicPartition(TOPIC, 0, filled.start)])
        records, position, stop = 0, filled.start, filled.start + filled.records
        while position < stop:
            messages = consumer.consume(min(FETCH, stop - position), WAIT_S)
            if not messages:
                raise DeadlineExceeded(f"Kafka sent nothing for {WAIT_S:.0f} s, at offset {position} of {stop}")
            for message in messages:
                assert checked(message).value()
                records += 1
                position = message.offset() + 1
        consumer.unassign()  # nothing is fetched while others have their turn
        return records

    def read_one(self, filled: Filled, place: Any) -> int:
        consumer = self._consumer("one", READ_ONE)
        partition = self._kafka.TopicPartition(TOPIC, 0, place)
        if consumer.assignment():
            consumer.seek(partition)
        else:
            consumer.assign([partition])
        message = consumer.poll(WAIT_S)
        if message is None:
            raise DeadlineExceeded(f"Kafka sent nothing for {WAIT_S:.0f} s, at offset {place}")
        assert checked(message).offset() == place
        return len(message.value())

    @contextmanager
    def subscription(self) -> Iterator[Iterator[bytes]]:
        consumer = self._consumer("new", {})
        _, end = consumer.get_watermark_offsets(self._kafka.TopicPartition(TOPIC, 0), timeout=WAIT_S)
        consumer.assign([self._kafka.TopicPartition(TOPIC, 0, end)])
        yield self._arriving(consumer)
        consumer.unassign()

    @staticmethod
    def _arriving(consumer: Any) -> Iterator[bytes]:
        while (message := consumer.poll(WAIT_S)) is not None:
            yield checked(message).value()
        raise DeadlineExceeded(f"Kafka sent nothing for {WAIT_S:.0f} s")

    def clear(self) -> None:
        """Delete the topic, and make it again."""
        module = needed("confluent_kafka.admin", "confluent-kafka")
        admin = module.AdminClient(self._common)
        admin.delete_topics([TOPIC], operation_timeout=WAIT_S)[TOPIC].result(WAIT_S)
        make_topic(self._servers, self._topic)

    def close(self) -> None:
        for producer in self._producers.values():
            producer.flush(WAIT_S)
        for consumer in self._consumers.values():
            consumer.close()

    def _producer(self, plan: Plan, records_max: int | None = None) -> Any:
        """One that waits for more while several batches are in flight, and one that does not."""
        linger_ms = 0 if plan.window == 1 and plan.batch == 1 else 2
        key = linger_ms, records_max or 10_000
        if key not in self._producers:
            self._producers[key] = self._kafka.Producer(
                {
                    **self._common,
                    "acks": "all",
                    "linger.ms": linger_ms,
                    "batch.size": MIB,
                    "batch.num.messages": key[1],
                    "message.max.bytes": MESSAGE_BYTES_MAX,
                    "queue.buffering.max.messages": 1_000_000,
                }
            )
        return self._producers[key]

    def _submit(self, producer: Any, batch: list[bytes], done: Done | None = None) -> Delivery:
        delivery = Delivery(producer, len(batch), done)
        for value in batch:
            self._produce(producer, value, delivery.delivered)
        producer.poll(0)
        return delivery

    @staticmethod
    def _produce(producer: Any, value: bytes, delivered: Any) -> None:
        while True:
            try:
                producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
                return
            except BufferError:  # its queue is full
                producer.poll(0.01)

    def _consumer(self, purpose: str, settings: Mapping[str, Any]) -> Any:
        if purpose not in self._consumers:
            self._consumers[purpose] = self._kafka.Consumer(
                {
                    **self._common,
                    "group.id": "bench",
                    "enable.auto.commit": False,
                    "check.crcs": True,  # as Ithaca does
                    **settings,
                }
            )
        return self._consumers[purpose]


def common(servers: str) -> dict[str, Any]:
    """What every client is told; it prints warnings, and not what it tidies up."""
    return {"bootstrap.servers": servers, "log_level": 4}


def checked(message: Any) -> Any:
    """A message, as consumers hand out errors in the same way."""
    if message.error() is not None:
        raise Unavailable(f"Kafka could not be read: {message.error()}")
    return message


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
        progress("fetching Kafka, from Maven Central unless it was before")
        java, jars = fetched()
        progress("starting two Kafka brokers")
        plan = BrokerPlan(java, jars, 1, MESSAGE_BYTES_MAX, brokers=2)
        topic = {"min.insync.replicas": "2", "max.message.bytes": str(MESSAGE_BYTES_MAX)}
        if self.durable == "synced":
            topic["flush.messages"] = "1"
        with kafka_brokers(directory, plan) as brokers:
            servers = ",".join(brokers.addresses)
            make_topic(servers, topic)
            settings = {
                "acks": "all",
                "replication": "2",
                "linger.ms": "2, and 0 for lone appends",
                **topic,
                "reads from the start": _listed(READ_ALL),
                "reads at random": _listed(READ_ONE),
            }
            pids = [process.pid for process in brokers.processes]
            yield Running(partial(KafkaClient, servers, topic), lambda: pids, VERSION, settings)


@cache
def fetched() -> tuple[Path, list[Path]]:
    """Java, and Kafka's jars: found once, as whatever finds them takes seconds to start."""
    from ithaca.bench.jars import fetch_jars

    return fetch_jars([PACKAGE])


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def make_topic(servers: str, settings: Mapping[str, str]) -> None:
    """One partition on both brokers, once both are there."""
    admin_module = needed("confluent_kafka.admin", "confluent-kafka")
    admin = admin_module.AdminClient(common(servers))
    give_up_s = time.monotonic() + WAIT_S
    while True:
        topic = admin_module.NewTopic(TOPIC, num_partitions=1, replication_factor=2, config=dict(settings))
        try:
            admin.create_topics([topic])[TOPIC].result(WAIT_S)
            return
        except Exception as error:  # its errors have no common type that tells what passes
            if is_there_already(error):
                return  # made by an attempt whose answer did not come in time
            if time.monotonic() > give_up_s:
                raise Unavailable(f"Kafka made no topic within {WAIT_S:.0f} s: {error}") from error
            time.sleep(0.5)


def is_there_already(error: BaseException) -> bool:
    """Whether an error of the client says that the topic exists."""
    kafka = needed("confluent_kafka", "confluent-kafka")
    codes = [each.code() for each in error.args if isinstance(each, kafka.KafkaError)]
    return kafka.KafkaError.TOPIC_ALREADY_EXISTS in codes
