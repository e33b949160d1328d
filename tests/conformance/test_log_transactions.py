"""Exactly once, end to end: what was consumed and what was written move in one step, or neither does."""

from typing import Any

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import ConsumerFenced, InvalidInput, LogClosed, PartGone, Unsupported
from ithaca.model.interface import Log
from tests.conformance.engines import Engine


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.CONSUMERS)


def values(log: Log, start: int = 1) -> list[bytes]:
    return [record.value for record in log.read_range(start)]


def test_where_it_is_unsupported_it_says_who_can(engine: Engine, log: Log) -> None:
    if Feature.PREPARED in engine.features:
        pytest.skip("it can")
    log.append(b"a")
    consumer = log.consumer("enricher")
    with pytest.raises(Unsupported, match="scalog or belfast"), consumer.transaction():
        raise AssertionError("it is refused before anything is done")
    assert log.consumers()[0].position == consumer.position


def test_both_move_in_one_step(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    receipt = log.append_many([b"a", b"b", b"c"])
    consumer = log.consumer("enricher")
    records = consumer.poll(timeout=10, max_records=2)
    with consumer.transaction() as transaction:
        for record in records:
            transaction.append(record.value.upper(), key=b"k")
        assert log.consumers()[0].position == log.first()
    assert consumer.committed == consumer.position == receipt.position + 2
    assert values(log, receipt.position) == [b"a", b"b", b"c", b"A", b"B"]
    again = log.consumer("enricher")
    assert again.position == receipt.position + 2
    assert next(again).value == b"c"
    with again.transaction():
        pass
    assert log.consumer("enricher").position == receipt.position + 3


def test_an_error_moves_neither(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    receipt = log.append_many([b"a", b"b"])
    consumer = log.consumer("enricher")
    consumer.poll(timeout=10)
    transaction = consumer.transaction()
    with pytest.raises(ZeroDivisionError), transaction:
        transaction.append_many([b"x", b"%d" % (1 // (consumer.committed - consumer.committed))])
    assert (values(log, receipt.position), log.consumer("enricher").position) == ([b"a", b"b"], consumer.committed)
    with pytest.raises(InvalidInput):
        consumer.transaction().append(b"outside")


def test_what_was_handed_out_comes_again_after_an_error(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    log.append_many([b"a", b"b", b"c"])
    consumer = log.consumer("enricher")
    consumer.poll(timeout=10, max_records=1)
    consumer.commit()
    assert [record.value for record in consumer.poll(timeout=10, max_records=1)] == [b"b"]
    with pytest.raises(ZeroDivisionError), consumer.transaction() as transaction:
        transaction.append_many([b"B", b"%d" % (1 // (consumer.committed - consumer.committed))])
    assert consumer.position == consumer.committed
    with consumer.transaction() as transaction:
        for record in consumer.poll(timeout=10, max_records=2):
            transaction.append(record.value.upper())
    assert values(log)[-2:] == [b"B", b"C"], "a program that goes on skips nothing"


def test_whoever_was_fenced_writes_nothing(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    receipt = log.append_many([b"a", b"b"])
    older = log.consumer("enricher")
    older.poll(timeout=10)
    transaction = older.transaction()
    transaction.__enter__()
    transaction.append(b"A")
    newer = log.consumer("enricher")
    with pytest.raises(ConsumerFenced, match="enricher"):
        transaction.__exit__(None, None, None)
    assert values(log, receipt.position) == [b"a", b"b"]
    assert newer.position == older.committed
    with pytest.raises(LogClosed, match="open the consumer again"):
        older.poll(timeout=0)
    newer.poll(timeout=10)
    with newer.transaction() as mine:
        mine.append(b"B")
    assert values(log, receipt.position) == [b"a", b"b", b"B"]


def test_a_publication_commits_several_consumers_once(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    receipt = log.append_many([b"a", b"b", b"c"])
    one, other = log.consumer("one"), log.consumer("other")
    for consumer in (one, other):
        consumer.poll(timeout=10)
    part = log.prepare([b"x"])
    consumed = {one: receipt.position + 1, other: receipt.position + 2}
    published = log.publish(1, [part], writer="nightly", consumed=consumed)
    assert [each.position for each in log.consumers()] == [receipt.position + 1, receipt.position + 2]
    one.commit()
    assert log.publish(1, [part], writer="nightly", consumed=consumed) == published
    assert log.consumers()[0].position == receipt.position + 3
    with pytest.raises(InvalidInput, match="one"):
        log.publish_once([log.prepare([b"y"])], consumed={one: receipt.position, other: receipt.position + 3})
    assert [each.position for each in log.consumers()] == [receipt.position + 3, receipt.position + 2]
    gone = log.prepare([b"z"])
    log.abort([gone])
    with pytest.raises(PartGone):
        log.publish_once([gone], consumed={other: receipt.position + 3})
    assert log.consumers()[1].position == receipt.position + 2
    assert values(log, receipt.position) == [b"a", b"b", b"c", b"x"]


def test_what_is_no_consumer_is_refused(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    consumer = log.consumer("one")
    wrong: Any
    for wrong in ({"one": 1}, {consumer: 0}, {consumer: "1"}):
        with pytest.raises(InvalidInput):
            log.publish_once([log.prepare([b"x"])], consumed=wrong)
