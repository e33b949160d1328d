"""trim: what lies below is gone for good, everything else stays where it is."""

import pytest
from tests.conformance.engines import Deployment, Engine

from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, NotWritten, Trimmed
from ithaca.model.interface import Log


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.TRIM)


def fill(log: Log) -> int:
    """Ten records in batches of one to four; returns the position of the first."""
    start = log.tail()
    for count in (1, 2, 3, 4):
        log.append_many([b"%d" % (log.tail() - start + n) for n in range(count)])
    return start


def test_what_was_trimmed_names_the_first_readable(log: Log) -> None:
    start = fill(log)
    log.trim(start + 4)
    assert (log.first(), log.tail()) == (start + 4, start + 10)
    for position in range(start, start + 4):
        with pytest.raises(Trimmed, match=str(start + 4)) as caught:
            log.read(position)
        assert caught.value.first == start + 4
    assert [log.read(position).value for position in range(start + 4, start + 10)] == [b"%d" % n for n in range(4, 10)]


def test_ranges_and_subscriptions_below_the_first_are_trimmed(log: Log) -> None:
    start = fill(log)
    log.trim(start + 4)
    with pytest.raises(Trimmed) as caught:
        next(log.read_range(start + 3, start + 9))
    assert caught.value.first == start + 4
    with pytest.raises(Trimmed) as caught:
        log.subscribe(start + 3).poll()
    assert caught.value.first == start + 4
    with log.subscribe("earliest") as subscription:
        assert next(subscription).position == start + 4


def test_trim_is_monotone(log: Log) -> None:
    start = fill(log)
    log.trim(start + 6)
    log.trim(start + 6)
    log.trim(start + 2)
    log.trim(1)
    assert log.first() == start + 6


def test_trimming_everything_keeps_the_tail(log: Log) -> None:
    start = fill(log)
    log.trim(log.tail())
    assert log.first() == log.tail() == start + 10
    with pytest.raises(Trimmed):
        log.read(start + 9)
    with pytest.raises(NotWritten):
        log.read(start + 10)
    assert list(log.read_range(log.first())) == []
    assert log.append(b"next").position == start + 10
    assert log.read(start + 10).value == b"next"


def test_trimming_beyond_the_tail_is_refused(log: Log) -> None:
    start = fill(log)
    with pytest.raises(InvalidInput, match=str(start + 11)):
        log.trim(start + 11)
    assert (log.first(), log.tail()) == (min(start, log.first()), start + 10)
    assert log.read(start + 9).value == b"9"


def test_an_iteration_overtaken_by_a_trim_never_skips_silently(log: Log) -> None:
    start = log.tail()
    for n in range(50):
        log.append_many([b"%d" % n * 1000] * 100)
    records = log.read_range(start)
    assert next(records).position == start
    log.trim(log.tail())
    delivered = [start]
    try:
        delivered += [record.position for record in records]
    except Trimmed as error:
        first = error.first
    else:
        first = delivered[-1] + 1  # everything had been fetched before the trim
    assert first == log.tail()
    assert delivered == list(range(start, start + len(delivered)))


def test_a_trim_is_seen_by_other_handles(deployment: Deployment) -> None:
    log = deployment.open()
    start = fill(log)
    reader = deployment.open_reader()
    log.trim(start + 5)
    assert reader.first() == start + 5
    with pytest.raises(Trimmed):
        reader.read(start + 4)
    assert [record.value for record in reader.read_range(start + 5)] == [b"%d" % n for n in range(5, 10)]


def test_a_trim_survives_reopening(deployment: Deployment) -> None:
    with deployment.open() as log:
        start = fill(log)
        log.trim(start + 5)
    with deployment.open() as log:
        assert (log.first(), log.tail()) == (start + 5, start + 10)
        with pytest.raises(Trimmed):
            log.read(start + 4)
        log.trim(start + 10)
    with deployment.open() as log:
        assert (log.first(), log.tail()) == (start + 10, start + 10)
        assert log.append(b"next").position == start + 10
