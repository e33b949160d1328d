"""subscribe: the same records in the same order for everyone, from wherever they start."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, LogClosed
from ithaca.model.interface import Log, Subscription
from ithaca.model.limits import STREAM_SILENT_S
from ithaca.model.records import Record
from tests.conformance.engines import Deployment, Engine

pytestmark = pytest.mark.shared_log

PATIENCE_S = 60
WAKE_S = 10
PRODUCERS = 4
RECORDS_PER_PRODUCER = 100


def take(subscription: Subscription, count: int) -> list[Record]:
    """The next `count` records."""
    return [next(subscription) for _ in range(count)]


def test_from_a_position(engine: Engine, log: Log) -> None:
    start = log.append_many([b"a", b"b", b"c"]).position
    with log.subscribe(start + 1) as subscription:
        assert subscription.position == start + 1
        assert [record.value for record in take(subscription, 2)] == [b"b", b"c"]
        last = log.append(b"d").position
        assert next(subscription).value == b"d"
        engine.check_passed(subscription.position, last)


def test_from_the_earliest(log: Log) -> None:
    log.append_many([b"a", b"b"])
    with log.subscribe("earliest") as subscription:
        assert next(subscription).position == next(log.read_range(log.first())).position


def test_latest_is_the_default_and_means_what_is_appended_from_now_on(log: Log) -> None:
    log.append(b"old")
    with log.subscribe() as default, log.subscribe("latest") as latest:
        new = log.append(b"new")
        assert next(default).position == next(latest).position == new.position


def test_from_a_time(log: Log) -> None:
    old = log.append(b"old")
    time.sleep(0.002)  # the clock itself is awaited: the two records must not share a microsecond
    between = datetime.now(UTC)
    time.sleep(0.002)
    new = log.append_many([b"new", b"newer"])
    with log.subscribe(between) as subscription:
        assert next(subscription).position == new.position
    elsewhere = between.astimezone(datetime.now().astimezone().tzinfo)
    with log.subscribe(elsewhere) as subscription:
        assert next(subscription).position == new.position
    with log.subscribe(datetime(1980, 1, 1, tzinfo=UTC)) as subscription:
        assert log.first() <= next(subscription).position <= old.position
    with log.subscribe(datetime.now(UTC) + timedelta(hours=1)) as subscription:
        assert subscription.poll(timeout=0.05) == []


def test_a_time_without_zone_is_refused(log: Log) -> None:
    with pytest.raises(InvalidInput, match="aware"):
        log.subscribe(datetime(2024, 1, 1)).poll()


def test_what_is_no_start_is_refused(log: Log) -> None:
    wrong: list[Any] = ["newest", "", b"latest", 1.5, None, []]
    for start in wrong:
        with pytest.raises((InvalidInput, TypeError)):
            log.subscribe(start)


def test_beyond_the_tail_waits_for_that_position(engine: Engine, log: Log) -> None:
    engine.require(Feature.DENSE)
    tail = log.tail()
    with log.subscribe(tail + 2) as subscription:
        log.append(b"0")
        assert subscription.poll(timeout=0.02) == []
        log.append_many([b"1", b"2", b"3"])
        assert [record.value for record in take(subscription, 2)] == [b"2", b"3"]


def test_poll_returns_what_is_there_and_an_empty_list_when_nothing_is(log: Log) -> None:
    with log.subscribe(log.tail()) as subscription:
        assert subscription.poll() == []
        assert subscription.poll(timeout=0.05) == []
        log.append_many([b"%d" % n for n in range(10)])
        assert [record.value for record in subscription.poll(timeout=None, max_records=1)] == [b"0"]
        found: list[Record] = []
        while len(found) < 9:
            part = subscription.poll(timeout=PATIENCE_S, max_records=4)
            assert 1 <= len(part) <= 4
            found += part
        assert [record.value for record in found] == [b"%d" % n for n in range(1, 10)]
        assert subscription.poll() == []


def test_polling_for_nothing_takes_nothing(log: Log) -> None:
    log.append(b"a")
    with log.subscribe("earliest") as subscription:
        assert subscription.poll(max_records=0) == []
        assert len(subscription.poll(timeout=PATIENCE_S, max_records=1)) == 1


def test_polling_and_iterating_share_one_position(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(10)]).position
    with log.subscribe(start) as subscription:
        assert next(subscription).value == b"0"
        polled = subscription.poll(timeout=PATIENCE_S, max_records=3)
        assert [record.value for record in polled] == [b"1", b"2", b"3"]
        assert next(subscription).value == b"4"
        rest = next(subscription.batches()).records()
        assert rest[0].value == b"5"
        assert subscription.position > rest[-1].position


def test_subscribed_batches_go_on_with_the_log(log: Log) -> None:
    start = log.append_many([b"a", b"b"]).position
    with log.subscribe(start) as subscription:
        batches = subscription.batches()
        assert next(batches).positions() == [start, start + 1]
        log.append_many([b"c", b"d"])
        assert [record.value for record in next(batches).records()] == [b"c", b"d"]


def test_batches_are_taken_in_bulk_as_they_come(log: Log) -> None:
    start = log.append_many([b"a", b"b"]).position
    with log.subscribe(start) as subscription:
        assert [position for batch in subscription.take_batches() for position in batch.positions()] == [
            start,
            start + 1,
        ]
        assert subscription.take_batches(timeout=0) == []
        later = log.append(b"c").position
        assert [position for batch in subscription.take_batches() for position in batch.positions()] == [later]
    assert subscription.take_batches() == []


def test_subscribers_see_one_order_while_producers_write(engine: Engine, deployment: Deployment) -> None:
    log, reader = deployment.open(), deployment.open_reader()
    start, total = log.tail(), PRODUCERS * RECORDS_PER_PRODUCER
    subscriptions = [log.subscribe(start), log.subscribe(start), reader.subscribe(start)]

    def produce(producer: int) -> None:
        for n in range(RECORDS_PER_PRODUCER // 4):
            log.append(b"%d:%d" % (producer, 4 * n))
            log.append_many([b"%d:%d" % (producer, 4 * n + m) for m in (1, 2, 3)])

    with ThreadPoolExecutor(PRODUCERS + len(subscriptions)) as pool:
        consuming = [pool.submit(take, subscription, total) for subscription in subscriptions]
        list(pool.map(produce, range(PRODUCERS)))
        seen = [consumer.result(PATIENCE_S) for consumer in consuming]
    assert seen[0] == seen[1] == seen[2] == list(log.read_range(start))
    engine.check_next([record.position for record in seen[0]], start)
    for producer in range(PRODUCERS):
        own = [record.value for record in seen[0] if record.value.startswith(b"%d:" % producer)]
        assert own == [b"%d:%d" % (producer, n) for n in range(RECORDS_PER_PRODUCER)]
    for subscription in subscriptions:
        subscription.close()


def test_no_wake_up_is_lost_among_subscribers_that_come_and_go(engine: Engine, log: Log) -> None:
    """Some wait for each record and answer it; others start and stop waiting all the time."""
    start, rounds = log.tail(), 100
    answered = threading.Semaphore(0)
    over = threading.Event()

    def answer(subscription: Subscription) -> list[int]:
        positions: list[int] = []
        while len(positions) < rounds:
            found = subscription.poll(timeout=WAKE_S)
            assert found, "a record was appended, and this subscriber slept through it"
            positions += [record.position for record in found]
            answered.release()
        return positions

    def come_and_go(subscription: Subscription) -> None:
        while not over.is_set():
            subscription.poll(timeout=1e-6)

    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(5) as pool:
        try:
            answering = [pool.submit(answer, log.subscribe(start)) for _ in range(2)]
            for _ in range(3):
                pool.submit(come_and_go, log.subscribe(start + 100 * rounds))
            for n in range(rounds):
                log.append(b"%d" % n)
                assert answered.acquire(timeout=2 * WAKE_S)
                assert answered.acquire(timeout=2 * WAKE_S)
        finally:
            over.set()
            sys.setswitchinterval(switch_s)
        seen = [subscriber.result() for subscriber in answering]
    assert seen[0] == seen[1]
    engine.check_next(seen[0], start)


@pytest.mark.timeout(STREAM_SILENT_S - 1, func_only=True)  # whoever waits is told, and does not find out by looking
def test_close_in_another_thread_ends_a_waiting_iteration(log: Log) -> None:
    start = log.append(b"a").position
    subscription = log.subscribe(start)
    received = threading.Event()

    def consume() -> list[bytes]:
        values = []
        for record in subscription:
            values.append(record.value)
            received.set()
        return values

    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume)
        assert received.wait(PATIENCE_S)
        subscription.close()
        assert consuming.result(PATIENCE_S) == [b"a"]
    subscription.close()
    assert list(subscription) == []
    for timeout in (None, 0, 60):
        with pytest.raises(LogClosed, match="the subscription was closed"):
            subscription.poll(timeout=timeout)


@pytest.mark.timeout(STREAM_SILENT_S - 1, func_only=True)
def test_close_in_another_thread_ends_a_waiting_poll(log: Log) -> None:
    subscription = log.subscribe(log.tail())
    started = threading.Event()

    def poll() -> list[Record]:
        started.set()
        return subscription.poll(timeout=None)

    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll)
        assert started.wait(PATIENCE_S)
        subscription.close()
        with pytest.raises(LogClosed, match="the subscription was closed"):
            polling.result(PATIENCE_S)


def test_closing_the_log_wakes_its_subscribers(log: Log) -> None:
    subscription = log.subscribe(log.append(b"a").position)
    received = threading.Event()

    def consume() -> None:
        for _ in subscription:
            received.set()

    with ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume)
        assert received.wait(PATIENCE_S)
        log.close()
        with pytest.raises(LogClosed):
            consuming.result(PATIENCE_S)


def test_a_subscription_started_again_at_its_position_misses_nothing(log: Log) -> None:
    start = log.append_many([b"%d" % n for n in range(30)]).position
    position, values = start, []
    while position < start + 30:
        with log.subscribe(position) as subscription:
            values += [record.value for record in subscription.poll(timeout=PATIENCE_S, max_records=7)]
        position = subscription.position
    assert values == [b"%d" % n for n in range(30)]
