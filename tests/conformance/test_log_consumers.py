"""Named consumers: the log remembers where each stands, and whoever opens one again fences the handle before."""

from datetime import UTC, datetime
from queue import SimpleQueue
from threading import Thread
from typing import Any

import pytest

from ithaca.model.consumers import CommitPosition, ConsumerRefused, OpenConsumer, PartStands
from ithaca.model.engine import Feature
from ithaca.model.errors import ConsumerFenced, InvalidInput, LogClosed, NoSuchConsumer, ReadOnly, Trimmed
from ithaca.model.interface import Consumer, Log
from ithaca.model.limits import CONSUMER_NAME_BYTES_MAX
from ithaca.model.records import KeyFilter, Record
from tests.conformance.engines import Deployment, Engine


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.CONSUMERS)


def taken(consumer: Consumer, count: int) -> list[bytes]:
    return [next(consumer).value for _ in range(count)]


def test_it_goes_on_behind_what_was_committed(engine: Engine, deployment: Deployment) -> None:
    with deployment.open() as log:
        receipt = log.append_many([b"%d" % n for n in range(6)])
        consumer = log.consumer("billing")
        assert (consumer.name, consumer.committed) == ("billing", consumer.position)
        assert taken(consumer, 2) == [b"0", b"1"]
        assert consumer.commit() == consumer.committed == consumer.position
        engine.check_passed(consumer.position, receipt.position + 1)
        assert taken(consumer, 2) == [b"2", b"3"]
        assert "billing" in repr(consumer)
        consumer.close()
    with deployment.open() as log:
        consumer = log.consumer("billing", start="latest")
        assert taken(consumer, 4) == [b"2", b"3", b"4", b"5"]
        consumer.commit(receipt.position + 3)
        assert consumer.committed == receipt.position + 3
        assert log.consumers()[0].position == receipt.position + 3


def test_a_position_never_falls_but_by_a_reset(log: Log) -> None:
    receipt = log.append_many([b"a", b"b", b"c"])
    consumer = log.consumer("billing")
    taken(consumer, 3)
    last = consumer.commit()
    assert consumer.commit(receipt.position) == last
    assert log.reset_consumer("billing", receipt.position + 1) == receipt.position + 1
    with pytest.raises(ConsumerFenced, match="billing"):
        consumer.commit()
    assert taken(log.consumer("billing"), 2) == [b"b", b"c"]


def test_opening_again_fences_the_older_handle(deployment: Deployment, log: Log) -> None:
    log.append_many([b"a", b"b", b"c"])
    older = log.consumer("billing")
    taken(older, 1)
    older.commit()
    newer = log.consumer("billing")
    taken(older, 1)
    for _ in range(2):
        with pytest.raises(ConsumerFenced, match="billing"):
            older.commit()
    assert taken(newer, 2) == [b"b", b"c"]
    newer.commit()
    assert newer.lag().positions == log.tail() - newer.position


def test_it_commits_by_itself_after_so_many_records(log: Log) -> None:
    receipt = log.append_many([b"%d" % n for n in range(5)])
    with log.consumer("counted", commit_records=2) as consumer:
        start = consumer.committed
        taken(consumer, 2)
        assert consumer.committed == start
        taken(consumer, 1)
        assert consumer.committed == receipt.position + 2
        assert [record.value for record in consumer.poll(max_records=1)] == [b"3"]
    assert log.consumer("counted").position == receipt.position + 4
    with pytest.raises(ZeroDivisionError), log.consumer("counted", commit_records=9) as consumer:
        _ = taken(consumer, 1) and 1 / 0
    assert log.consumer("counted").position == receipt.position + 4


def test_it_commits_by_itself_while_it_waits(log: Log) -> None:
    receipt = log.append(b"a")
    consumer = log.consumer("timed", commit_s=0.01)
    taken(consumer, 1)
    thread = Thread(target=lambda: taken(consumer, 1))
    thread.start()
    while log.consumers()[0].position <= receipt.position:
        pass
    log.append(b"b")
    thread.join()
    assert log.consumers()[0].position > receipt.position


def test_it_waits_for_what_comes_and_ends_when_it_is_closed(log: Log) -> None:
    found: SimpleQueue[Record] = SimpleQueue()
    consumer = log.consumer("waiting", start="latest")
    assert consumer.poll(timeout=0) == []

    def iterate() -> None:
        for record in consumer:
            found.put(record)

    thread = Thread(target=iterate)
    thread.start()
    receipt = log.append(b"late")
    record = found.get()
    consumer.close()
    thread.join()
    assert (record.position, record.value, found.empty()) == (receipt.position, b"late", True)
    with pytest.raises(LogClosed, match="waiting"):
        consumer.poll(timeout=0)


def test_a_filter_selects_its_records(log: Log) -> None:
    log.append_many([b"a", b"b", b"c"], keys=[b"x-1", b"y-1", b"x-2"])
    consumer = log.consumer("filtered", where=KeyFilter.prefix(b"x-"))
    assert taken(consumer, 2) == [b"a", b"c"]
    consumer.commit()
    log.append_many([b"d", b"e"], keys=[b"y-2", b"x-3"])
    assert taken(log.consumer("filtered", where=KeyFilter.prefix(b"x-")), 1) == [b"e"]


def test_where_a_new_one_starts(log: Log) -> None:
    receipt = log.append_many([b"a", b"b"])
    assert log.consumer("first").position == log.first()
    assert log.consumer("last", start="latest").position == log.tail()
    assert log.consumer("second", start=receipt.position + 1).position == receipt.position + 1
    assert log.consumer("now", start=datetime(2000, 1, 1, tzinfo=UTC)).position <= receipt.position
    assert [each.name for each in log.consumers()] == ["first", "last", "now", "second"]


def test_what_was_trimmed_is_a_typed_error(engine: Engine, log: Log) -> None:
    engine.require(Feature.TRIM)
    receipts = [log.append(b"%d" % n) for n in range(4)]
    consumer = log.consumer("late")
    log.trim(receipts[2].position)
    first = log.first()
    for start in (receipts[0].position, first - 1):
        with pytest.raises(Trimmed) as caught:
            log.consumer("new", start=start)
        assert caught.value.first == first
    with pytest.raises(Trimmed, match="late") as caught:
        next(consumer)
    assert caught.value.first == first
    assert log.reset_consumer("late", "earliest") == first
    assert taken(log.consumer("late"), 2) == [b"2", b"3"]
    assert [each.name for each in log.consumers()] == ["late"]


def test_they_are_listed_reset_and_deleted(engine: Engine, log: Log) -> None:
    assert log.consumers() == ()
    receipt = log.append_many([b"a", b"b", b"c"])
    consumer = log.consumer("billing")
    taken(consumer, 1)
    consumer.commit()
    (info,) = log.consumers()
    assert (info.name, info.position, info.positions, info.is_group) == (
        "billing",
        receipt.position + 1,
        (receipt.position + 1,),
        False,
    )
    assert info.lag_positions == log.tail() - info.position
    assert info.lag_records == (2 if engine.is_dense else None)
    assert info.idle_s >= 0
    assert 0 <= info.lag_s < 3600
    assert info.lag_bytes >= 2
    assert log.reset_consumer("billing", "latest") == log.tail()
    assert log.consumers()[0].lag_records == 0
    log.delete_consumer("billing")
    assert log.consumers() == ()
    with pytest.raises(NoSuchConsumer, match="billing"):
        consumer.commit()
    again = log.consumer("billing")
    assert again.position == log.first()
    with pytest.raises(ConsumerFenced):
        consumer.commit()


def test_how_far_it_is_behind(engine: Engine, log: Log) -> None:
    consumer = log.consumer("billing", start="latest")
    lag = consumer.lag()
    assert (lag.positions, lag.records, lag.seconds, lag.bytes) == (0, 0, 0.0, 0)
    log.append_many([bytes(1000), bytes(1000)])
    lag = consumer.lag()
    assert lag.positions >= 2
    assert lag.records == (2 if engine.is_dense else None)
    assert 0 <= lag.seconds < 3600
    assert lag.bytes >= 2000
    assert lag.bytes < 2400 or not engine.is_dense, "empty positions may be taken for full ones"
    taken(consumer, 2)
    assert (consumer.lag().records, consumer.lag().bytes) == (0, 0)
    if engine.is_dense:
        for _ in range(4):
            log.append_many([bytes(1000)] * 100)
        assert 400_000 <= consumer.lag().bytes < 500_000, "not all of them are looked at"


def test_what_is_wrong_is_refused(log: Log) -> None:
    log.append(b"a")
    wrong: Any
    for wrong in ("", "x" * (CONSUMER_NAME_BYTES_MAX + 1), 7, None):
        with pytest.raises(InvalidInput, match="name"):
            log.consumer(wrong)
        with pytest.raises(InvalidInput, match="name"):
            log.reset_consumer(wrong, "earliest")
        with pytest.raises(InvalidInput, match="name"):
            log.delete_consumer(wrong)
    for wrong in (0, "first", datetime(2026, 1, 1), 1.5):
        with pytest.raises(InvalidInput):
            log.consumer("billing", start=wrong)
    for wrong in (0, -1, True, "many"):
        with pytest.raises(InvalidInput, match="commit_records"):
            log.consumer("billing", commit_records=wrong)
    with pytest.raises(InvalidInput, match="the tail is"):
        log.consumer("billing", start=log.tail() + 1)
    assert log.consumers() == ()
    for call in (lambda: log.reset_consumer("billing", "earliest"), lambda: log.delete_consumer("billing")):
        with pytest.raises(NoSuchConsumer, match="billing"):
            call()
    consumer = log.consumer("billing")
    for wrong in (0, "1", consumer.position + 1):
        with pytest.raises(InvalidInput):
            consumer.commit(wrong)
    with pytest.raises(InvalidInput, match="commit_s"):
        log.consumer("billing", commit_s=-1)


def test_a_question_that_comes_twice_is_one_handle(log: Log) -> None:
    first = log.change_consumers((OpenConsumer("billing", 7, 1),))
    assert log.change_consumers((OpenConsumer("billing", 7, 1),)) == first
    (opened,) = first
    assert isinstance(opened, PartStands)
    commits = (
        CommitPosition("billing", 0, opened.epoch, 5),
        CommitPosition("billing", 0, opened.epoch, 3),
        CommitPosition("billing", 0, opened.epoch + 1, 9),
        CommitPosition("other", 0, opened.epoch, 9),
    )
    assert log.change_consumers(commits) == (
        PartStands("billing", 0, opened.epoch, 5),
        PartStands("billing", 0, opened.epoch, 5),
        ConsumerRefused("billing", "fenced", opened.epoch),
        ConsumerRefused("other", "unknown"),
    )
    with pytest.raises(InvalidInput):
        log.change_consumers(())


def test_a_reader_sees_them(engine: Engine, deployment: Deployment, log: Log) -> None:
    receipt = log.append_many([b"a", b"b"])
    consumer = log.consumer("billing")
    taken(consumer, 1)
    consumer.commit()
    reader = deployment.open_reader()
    assert [(each.name, each.position) for each in reader.consumers()] == [("billing", receipt.position + 1)]
    if engine.name.startswith("embedded"):
        with pytest.raises(ReadOnly):
            reader.consumer("other")
