"""Prepared appends: all parts of a publication or none, in the caller's order, once for each key of a writer."""

import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import (
    BatchTooLarge,
    InvalidInput,
    LogClosed,
    PartGone,
    PublishConflict,
    Trimmed,
    Unsupported,
)
from ithaca.model.interface import Log
from ithaca.model.limits import BATCH_BYTES_MAX, PART_INCARNATION_MIN, PUBLISH_KEY_MAX
from ithaca.model.parts import Part
from ithaca.model.positions import LaneId
from ithaca.model.records import KeyFilter
from tests.conformance.engines import Deployment, Engine

NO_PART = Part(LaneId(0, 0, PART_INCARNATION_MIN), 1, bytes(16))
CALLS: dict[str, Callable[[Log], object]] = {
    "prepare": lambda log: log.prepare([b"x"]),
    "open_part": lambda log: log.open_part(),
    "publish": lambda log: log.publish(1, [], writer="w"),
    "publish_once": lambda log: log.publish_once([]),
    "renew": lambda log: log.renew([]),
    "abort": lambda log: log.abort([]),
}


@pytest.fixture
def log(engine: Engine, deployment: Deployment) -> Log:
    """A handle of an engine that has prepared appends."""
    engine.require(Feature.PREPARED)
    return deployment.open()


@pytest.mark.parametrize("call", CALLS)
def test_an_engine_without_them_says_so(engine: Engine, deployment: Deployment, call: str) -> None:
    if Feature.PREPARED in engine.features:
        pytest.skip(f"{engine.name} has them")
    with pytest.raises(Unsupported, match="has no prepared appends"):
        CALLS[call](deployment.open())


def values(log: Log, start: int) -> list[bytes]:
    return [record.value for record in log.read_range(start)]


def test_parts_stand_together_in_the_callers_order(engine: Engine, log: Log) -> None:
    before = log.append(b"before").position
    first = log.prepare([b"a", b"b"], keys=[b"k", None])
    log.append(b"between")
    second = log.prepare([b"c"])
    tail = log.tail()
    published = log.publish(1, [second, first], writer="loader")
    engine.check_next(published.positions, tail)
    start = published.position
    assert (published.count, published.positions) == (3, range(start, start + 3))
    assert (published.writer, published.key, published.owner) == ("loader", 1, "")
    tail = log.tail()
    engine.check_passed(tail, start + 2)
    engine.check_next([log.append(b"after").position], tail)
    assert values(log, before) == [b"before", b"between", b"c", b"a", b"b", b"after"]
    record = log.read(start + 1)
    assert (record.value, record.key) == (b"a", b"k")


def test_what_is_not_published_is_not_there(engine: Engine, log: Log) -> None:
    tail = log.tail()
    log.prepare([b"hidden"])
    with log.open_part() as writer:
        writer.append_many([b"hidden, too"])
    assert log.tail() == tail
    engine.check_next([log.append(b"x").position], tail)
    assert values(log, tail) == [b"x"]


def test_publishing_again_gives_the_same_positions(engine: Engine, log: Log) -> None:
    parts = [log.prepare([b"a"]), log.prepare([b"b"])]
    published = log.publish(3, parts, writer="w", owner="me")
    log.append(b"later")
    tail = log.tail()
    again = [log.prepare([b"other"])]
    assert log.publish(3, parts, writer="w", owner="me") == published
    assert log.publish(3, again, writer="w", owner="me") == published
    assert log.tail() == tail
    engine.check_next([log.publish(3, again, writer="another writer").position], tail)


def test_without_a_writer_the_same_parts_are_where_they_were(engine: Engine, log: Log) -> None:
    log.append(b"before")
    first, second, empty = log.prepare([b"a", b"b"]), log.prepare([b"c"]), log.open_part().finish()
    tail = log.tail()
    published = log.publish_once([second, empty, first])
    engine.check_next(published.positions, tail)
    assert published.count == 3
    last = log.append(b"later").position
    assert log.publish_once([second, empty, first]) == published
    engine.check_passed(log.tail(), last)
    assert values(log, tail) == [b"c", b"a", b"b", b"later"]
    assert log.publish_once([]).count == 0
    with pytest.raises(PartGone):
        log.publish_once([first, second])
    with pytest.raises(PartGone):
        log.publish(1, [first], writer="w")


def test_a_part_that_is_written_does_not_expire_and_one_that_waits_may_be_renewed(log: Log) -> None:
    waiting, left = log.prepare([b"waits"], ttl=2), log.prepare([b"left"], ttl=1)
    with log.open_part(ttl=1) as writer:
        for number in range(5):
            writer.append_many([b"%d" % number])
            time.sleep(0.5)
            log.renew([waiting], ttl=2)
            log.append(b"time goes on")
        written = writer.finish()
    assert log.publish_once([waiting, written]).count == 6
    with pytest.raises(PartGone, match=str(left.lane)):
        log.renew([left])
    with pytest.raises(InvalidInput, match="ttl is 0"):
        log.renew([left], ttl=0)


def test_an_older_key_and_another_owner_conflict(engine: Engine, log: Log) -> None:
    published = log.publish(7, [log.prepare([b"a", b"b"])], writer="w", owner="me")
    tail = log.tail()
    part = log.prepare([b"c"])
    for key, owner in ((6, "me"), (7, "you")):
        with pytest.raises(PublishConflict, match="key 7 by owner 'me' is its newest") as caught:
            log.publish(key, [part], writer="w", owner=owner)
        error = caught.value
        assert (error.writer, error.key, error.owner) == ("w", 7, "me")
        assert (error.position, error.count) == (published.position, 2)
    assert log.tail() == tail
    engine.check_next([log.publish(8, [part], writer="w", owner="you").position], tail)


def test_one_part_that_is_gone_refuses_all(engine: Engine, log: Log) -> None:
    good, aborted = log.prepare([b"good"]), log.prepare([b"aborted"])
    log.abort([aborted])
    log.abort([aborted])
    tail = log.tail()
    with pytest.raises(PartGone, match=str(aborted.lane)):
        log.publish(1, [good, aborted], writer="w")
    assert log.tail() == tail
    engine.check_next(log.publish(1, [good], writer="w").positions, tail)
    with pytest.raises(PartGone):
        log.publish(2, [good], writer="w")


def test_what_was_published_is_not_aborted(log: Log) -> None:
    part = log.prepare([b"kept"])
    position = log.publish(1, [part], writer="w").position
    log.abort([part])
    assert log.read(position).value == b"kept"


def test_a_part_travels(log: Log, deployment: Deployment) -> None:
    part = log.prepare([b"a", b"b"])
    assert part.length == 2
    copies = [pickle.loads(pickle.dumps(part)), Part.from_bytes(part.to_bytes())]
    assert copies == [part, part]
    other = deployment.open_reader()
    position = other.publish(1, copies[:1], writer="w").position
    assert values(log, position) == [b"a", b"b"]


def test_a_part_is_written_piece_by_piece(log: Log) -> None:
    rows = [b"row %d" % n for n in range(5000)]
    with log.open_part() as writer:
        for start in range(0, 5000, 500):
            writer.append_many(rows[start : start + 500], keys=[b"k"] * 500)
            assert writer.length == start + 500
        part = writer.finish()
        assert writer.finish() == part
        assert writer.is_finished
        with pytest.raises(InvalidInput, match="finished"):
            writer.append_many([b"more"])
    assert part.length == 5000
    position = log.publish(1, [part], writer="w").position
    assert values(log, position) == rows


def test_a_part_that_is_given_up_takes_no_more(log: Log) -> None:
    writer = log.open_part()
    writer.append_many([b"x"])
    writer.abort()
    writer.abort()
    with pytest.raises(InvalidInput, match="aborted"):
        writer.append_many([b"y"])
    with pytest.raises(InvalidInput, match="aborted"):
        writer.finish()


def test_leaving_with_an_error_aborts(log: Log) -> None:
    writer = log.open_part()
    writer.append_many([b"x"])
    with pytest.raises(RuntimeError), writer:
        raise RuntimeError
    with pytest.raises(InvalidInput, match="aborted"):
        writer.finish()


def test_nothing_can_be_published_too(log: Log, engine: Engine) -> None:
    with log.open_part() as writer:
        empty = writer.finish()
    assert empty.length == 0
    tail = log.tail()
    assert log.publish(1, [empty], writer="w").positions == range(tail, tail)
    assert log.publish(2, [], writer="w").count == 0
    with pytest.raises(PublishConflict):
        log.publish(1, [], writer="w")
    assert log.tail() == tail or not engine.is_dense
    assert not list(log.read_range(tail))


def test_subscriptions_deliver_parts_in_order(log: Log, deployment: Deployment) -> None:
    start = log.append(b"0").position
    with (
        deployment.open_reader().subscribe(start) as every,
        deployment.open_reader().subscribe(start, where=KeyFilter.equals(b"k")) as some,
    ):
        parts = [log.prepare([b"%d" % n] * 2, keys=[b"k", None]) for n in (1, 2, 3)]
        log.publish(1, parts, writer="w")
        log.append(b"4")
        assert [next(every).value for _ in range(8)] == [b"0", b"1", b"1", b"2", b"2", b"3", b"3", b"4"]
        assert [next(some).value for _ in range(3)] == [b"1", b"2", b"3"]


def test_times_find_what_was_published(log: Log) -> None:
    log.append(b"before")
    part = log.prepare([b"a"])
    log.append(b"between")
    published = log.publish(1, [part], writer="w")
    with log.subscribe(datetime(2000, 1, 1, tzinfo=UTC)) as subscription:
        found = {record.position: record.value for record in (next(subscription) for _ in range(3))}
    assert found[published.position] == b"a"


def test_a_trim_takes_what_was_published(log: Log) -> None:
    published = log.publish(1, [log.prepare([b"a", b"b"]), log.prepare([b"c"])], writer="w")
    kept = log.append(b"kept").position
    log.trim(published.position + 1)
    with pytest.raises(Trimmed):
        log.read(published.position)
    assert values(log, published.position + 1) == [b"b", b"c", b"kept"]
    log.trim(kept)
    assert values(log, kept) == [b"kept"]
    assert log.publish(1, [], writer="w") == published


WRONG: dict[str, Callable[[Log, Any], object]] = {
    "a key below 0": lambda log, part: log.publish(-1, [part], writer="w"),
    "a key that is too large": lambda log, part: log.publish(PUBLISH_KEY_MAX + 1, [part], writer="w"),
    "a key that is no number": lambda log, part: log.publish("1", [part], writer="w"),  # type: ignore[arg-type]
    "a key that is a truth": lambda log, part: log.publish(True, [part], writer="w"),
    "no writer": lambda log, part: log.publish(1, [part], writer=""),
    "a long writer": lambda log, part: log.publish(1, [part], writer="ä" * 128),
    "a long owner": lambda log, part: log.publish(1, [part], writer="w", owner="x" * 256),
    "a part twice": lambda log, part: log.publish(1, [part, part], writer="w"),
    "no part": lambda log, part: log.publish(1, [b"part"], writer="w"),  # type: ignore[list-item]
    "nothing to prepare": lambda log, part: log.prepare([]),
    "one buffer": lambda log, part: log.prepare(b"abc"),  # type: ignore[arg-type]
    "no time": lambda log, part: log.prepare([b"x"], ttl=0),
    "too much time": lambda log, part: log.open_part(ttl=1e9),
    "no shard": lambda log, part: log.prepare([b"x"], shard=999),
    "no part to abort": lambda log, part: log.abort([None]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_refused_and_changes_nothing(engine: Engine, log: Log, what: str) -> None:
    part = log.prepare([b"good"])
    tail = log.tail()
    with pytest.raises(InvalidInput):
        WRONG[what](log, part)
    engine.check_next([log.publish(1, [part], writer="w").position], tail)


def test_a_batch_that_is_too_large_is_refused(log: Log) -> None:
    with pytest.raises(BatchTooLarge):
        log.prepare([bytes(BATCH_BYTES_MAX // 8)] * 9)


def test_a_part_of_nobody_is_gone(log: Log) -> None:
    with pytest.raises(PartGone):
        log.publish(1, [NO_PART], writer="w")
    log.abort([NO_PART])


def test_bytes_that_are_no_part_are_refused() -> None:
    for data in (b"", b"\x93", Part(LaneId(0, 0, 1), 1, bytes(16)).to_bytes()):
        with pytest.raises(InvalidInput, match="no prepared part"):
            Part.from_bytes(data)


def test_a_closed_handle_refuses(log: Log) -> None:
    writer = log.open_part()
    log.close()
    for call in CALLS.values():
        with pytest.raises(LogClosed):
            call(log)
    with pytest.raises(LogClosed):
        writer.append_many([b"x"])
