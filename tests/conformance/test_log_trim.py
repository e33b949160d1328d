"""trim: what lies below is gone for good, everything else stays where it is."""

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, NotWritten, Trimmed
from ithaca.model.interface import Log
from tests.conformance.engines import Deployment, Engine


@pytest.fixture(autouse=True)
def needed(engine: Engine) -> None:
    engine.require(Feature.TRIM)


def fill(log: Log) -> list[int]:
    """Ten records in batches of one to four; returns their positions, and the tail behind them."""
    places: list[int] = []
    for count in (1, 2, 3, 4):
        places += log.append_many([b"%d" % (len(places) + n) for n in range(count)]).positions
    return [*places, log.tail()]


def test_what_was_trimmed_names_the_first_readable(log: Log) -> None:
    places = fill(log)
    log.trim(places[4])
    assert (log.first(), log.tail()) == (places[4], places[10])
    for position in places[:4]:
        with pytest.raises(Trimmed, match=str(places[4])) as caught:
            log.read(position)
        assert caught.value.first == places[4]
    assert [log.read(position).value for position in places[4:10]] == [b"%d" % n for n in range(4, 10)]


def test_ranges_and_subscriptions_below_the_first_are_trimmed(log: Log) -> None:
    places = fill(log)
    log.trim(places[4])
    with pytest.raises(Trimmed) as caught:
        next(log.read_range(places[3], places[9]))
    assert caught.value.first == places[4]
    with pytest.raises(Trimmed) as caught:
        log.subscribe(places[3]).poll()
    assert caught.value.first == places[4]
    with log.subscribe("earliest") as subscription:
        assert next(subscription).position == places[4]


def test_trim_is_monotone(log: Log) -> None:
    places = fill(log)
    log.trim(places[6])
    log.trim(places[6])
    log.trim(places[2])
    log.trim(1)
    assert log.first() == places[6]


def test_trimming_everything_keeps_the_tail(engine: Engine, log: Log) -> None:
    places = fill(log)
    log.trim(log.tail())
    assert log.first() == log.tail() == places[10]
    with pytest.raises(Trimmed):
        log.read(places[9])
    with pytest.raises(NotWritten):
        log.read(places[10])
    assert list(log.read_range(log.first())) == []
    position = log.append(b"next").position
    engine.check_next([position], places[10])
    assert log.read(position).value == b"next"


def test_trimming_beyond_the_tail_is_refused(log: Log) -> None:
    first, places = log.first(), fill(log)
    with pytest.raises(InvalidInput, match=str(places[10] + 1)):
        log.trim(places[10] + 1)
    assert (log.first(), log.tail()) == (first, places[10])
    assert log.read(places[9]).value == b"9"


def test_an_iteration_overtaken_by_a_trim_never_skips_silently(engine: Engine, log: Log) -> None:
    receipts = [log.append_many([b"%d" % n * 1000] * 100) for n in range(50)]
    places = [position for receipt in receipts for position in receipt.positions]
    records = log.read_range(places[0])
    assert next(records).position == places[0]
    log.trim(log.tail())
    delivered = [places[0]]
    try:
        delivered += [record.position for record in records]
    except Trimmed as error:
        first = error.first
    else:
        engine.check_passed(log.tail(), delivered[-1])  # everything had been fetched before the trim
        first = log.tail()
    assert first == log.tail()
    assert delivered == places[: len(delivered)]


def test_a_trim_is_seen_by_other_handles(deployment: Deployment) -> None:
    log = deployment.open()
    places = fill(log)
    reader = deployment.open_reader()
    log.trim(places[5])
    assert reader.first() == places[5]
    with pytest.raises(Trimmed):
        reader.read(places[4])
    assert [record.value for record in reader.read_range(places[5])] == [b"%d" % n for n in range(5, 10)]


def test_a_trim_survives_reopening(engine: Engine, deployment: Deployment) -> None:
    with deployment.open() as log:
        places = fill(log)
        log.trim(places[5])
    with deployment.open() as log:
        assert (log.first(), log.tail()) == (places[5], places[10])
        with pytest.raises(Trimmed):
            log.read(places[4])
        log.trim(places[10])
    with deployment.open() as log:
        assert (log.first(), log.tail()) == (places[10], places[10])
        engine.check_next([log.append(b"next").position], places[10])
