"""Every argument is checked where it enters, and before anything happens; a wrong one says what to write."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ithaca.model.engine import Feature
from ithaca.model.errors import InvalidInput, NotWritten
from ithaca.model.interface import Log
from tests.conformance.engines import Engine

WRONG: dict[str, Callable[[Log], Any]] = {
    "timeout is 'soon': write it as": lambda log: log.append(b"x", timeout="soon"),
    "timeout is -1": lambda log: log.append_many([b"x"], timeout=-1),
    "timeout is b'1s'": lambda log: log.flush(timeout=b"1s"),  # type: ignore[arg-type]
    "wait is 'later'": lambda log: log.read(1, wait="later"),
    "position True": lambda log: log.read(True),
    "start is 1.5": lambda log: log.subscribe(1.5),  # type: ignore[arg-type]
    "not a KeyFilter": lambda log: log.subscribe(where="u"),  # type: ignore[arg-type]
    "max_records is 'all'": lambda log: log.subscribe().poll(0, max_records="all"),  # type: ignore[arg-type]
    "timeout is 'x'": lambda log: log.subscribe().poll("x"),
    "values is None: use a list": lambda log: log.append_many(None),  # type: ignore[arg-type]
    "values is 5: use a list": lambda log: log.submit_many(5),  # type: ignore[arg-type]
    "values is one bytes": lambda log: log.append_many(b"x"),  # type: ignore[arg-type]
    "keys is 5: use a list": lambda log: log.append_many([b"x"], keys=5),  # type: ignore[arg-type]
    "keys is one str": lambda log: log.append_many([b"x"], keys="k"),  # type: ignore[arg-type]
    "shard is '0': use the number|there is no shard 0": lambda log: log.read(1, shard="0"),  # type: ignore[arg-type]
}
PREPARED: dict[str, Callable[[Log], Any]] = {
    "values is 5: use a list": lambda log: log.prepare(5),  # type: ignore[arg-type]
    "shard is 'x': use the number": lambda log: log.prepare([b"x"], shard="x"),  # type: ignore[arg-type]
    "shard is 1.5": lambda log: log.open_part(shard=1.5),  # type: ignore[arg-type]
    "parts is 5: use a list": lambda log: log.publish(1, 5, writer="w"),  # type: ignore[arg-type]
    "parts is 6: use a list": lambda log: log.publish_once(6),  # type: ignore[arg-type]
    "parts is 7: use a list": lambda log: log.renew(7),  # type: ignore[arg-type]
    "parts is 8: use a list": lambda log: log.abort(8),  # type: ignore[arg-type]
    "consumed is 9: use": lambda log: log.publish(1, [], writer="w", consumed=9),  # type: ignore[arg-type]
}


def test_a_wrong_argument_is_refused_before_anything_happens(log: Log) -> None:
    for said, call in WRONG.items():
        with pytest.raises(InvalidInput, match=said):
            call(log)
    log.flush()
    assert log.tail() == 1


def test_a_wrong_argument_of_prepared_appends_is_refused(engine: Engine, log: Log) -> None:
    engine.require(Feature.PREPARED)
    for said, call in PREPARED.items():
        with pytest.raises(InvalidInput, match=said):
            call(log)


def test_a_group_is_one_or_not(engine: Engine, log: Log) -> None:
    engine.require(Feature.CONSUMERS)
    with pytest.raises(InvalidInput, match="group is 'yes': use True or False"):
        log.consumer("c", group="yes")  # type: ignore[arg-type]


def test_durations_may_be_text(log: Log) -> None:
    position = log.append(b"x", timeout="30s").position
    assert log.append_many([b"y"], timeout=timedelta(minutes=1)).position > position
    log.flush(timeout="1min")
    with pytest.raises(NotWritten):
        log.read(log.tail() + 1_000_000, wait="1ms")
    with log.subscribe(position) as subscription:
        assert subscription.poll("30s")[0].value == b"x"


def test_a_session_number_is_a_whole_number(engine: Engine, log: Log) -> None:
    engine.require(Feature.SESSIONS)
    session = log.session("numbers")
    for wrong in (0, "1", 1.0, True):
        with pytest.raises(InvalidInput, match="seq"):
            session.append(b"x", seq=wrong)  # type: ignore[arg-type]
