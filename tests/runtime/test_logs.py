"""What servers log: lines that programs read, and people after `render`."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ithaca.model.limits import LOG_EVENT_CHARACTERS_MAX
from ithaca.model.positions import LaneId
from ithaca.runtime.logs import JsonLines, fields, render, setup_logging

_log = logging.getLogger("ithaca.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged meanwhile; the process's logging is as before afterwards."""
    root = logging.getLogger()
    level = root.level
    stream = io.StringIO()
    handler = setup_logging("replica", "0/1", stream)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def log_apart(text: str, extra: dict[str, Any] | None = None) -> None:
    """Log past the handlers of the test run, whose reports could not be encoded with such a text in them."""
    record = _log.makeRecord(_log.name, logging.INFO, "", 0, text, (), None, extra=extra)
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.handle(record)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def test_a_line_says_who_when_and_what(stream: io.StringIO) -> None:
    before = datetime.now(UTC)
    _log.warning("%d batches wait", 3, extra=fields(lane=LaneId(0, 1, 2), cut=7, slow=True, rest=None))
    (line,) = lines(stream)
    time = datetime.strptime(line.pop("time"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert before.timestamp() - 1 < time.timestamp() < datetime.now(UTC).timestamp() + 1
    assert line == {
        "level": "warning",
        "role": "replica",
        "name": "0/1",
        "logger": "ithaca.test",
        "event": "3 batches wait",
        "fields": {"lane": "0-1-2", "cut": 7, "slow": True, "rest": None},
    }


def test_a_line_is_one_line_whatever_it_says(stream: io.StringIO) -> None:
    log_apart("two\nlines, \x1b[31m, \udc80 and \u2028")
    log_apart(
        "plain", extra={"fields": {"name": "\udcff\n", "huge": 1 << 90, "real": float("nan"), "kind": ValueError}}
    )
    log_apart("odd", extra={"fields": "no mapping"})
    assert len(stream.getvalue().split("\n")) == 4
    first, second, third = lines(stream)
    assert first["event"] == "two\nlines, \x1b[31m, \\udc80 and \u2028"
    assert second["fields"] == {"name": "\\udcff\n", "huge": str(1 << 90), "real": None, "kind": "<class 'ValueError'>"}
    assert "fields" not in third


def test_a_failure_comes_with_its_trace(stream: io.StringIO) -> None:
    try:
        raise RuntimeError("a bug")
    except RuntimeError:
        _log.exception("it failed")
    (line,) = lines(stream)
    assert line["level"] == "error"
    assert line["trace"].startswith("Traceback")
    assert line["trace"].endswith("RuntimeError: a bug")
    assert "\n    Traceback" in render(stream.getvalue())


def test_what_peers_make_us_log_is_bounded(stream: io.StringIO) -> None:
    _log.warning("it said %s", "x" * 1_000_000)
    assert len(stream.getvalue()) < LOG_EVENT_CHARACTERS_MAX + 1000


def test_below_the_level_nothing_is_logged(stream: io.StringIO) -> None:
    _log.debug("details")
    assert stream.getvalue() == ""


def test_set_up_again_it_logs_once(stream: io.StringIO) -> None:
    other = io.StringIO()
    handler = setup_logging("orderer", "2", other)
    _log.info("here")
    logging.getLogger().removeHandler(handler)
    assert stream.getvalue() == ""
    assert [(line["role"], line["name"]) for line in lines(other)] == [("orderer", "2")]


def test_people_read_it_on_one_line(stream: io.StringIO) -> None:
    _log.info("joined", extra=fields(lane="0-1-3", cut=7))
    time = lines(stream)[0]["time"]
    assert render(stream.getvalue()) == f"{time[:10]} {time[11:-1]} info     replica 0/1: joined (lane 0-1-3, cut 7)"


def test_what_peers_said_cannot_steer_the_terminal(stream: io.StringIO) -> None:
    _log.info("\x1b[2J\nmore", extra=fields(name="\x9b1m"))
    assert render(stream.getvalue()).endswith(r"replica 0/1: \x1b[2J\x0amore (name \x9b1m)")
    assert render("\x1b[2J\n") == r"\x1b[2J"


@pytest.mark.parametrize("line", ["", "Traceback (most recent call last):", "[1, 2]", '{"event": "half', '{"time": 3}'])
def test_other_lines_are_passed_on(line: str) -> None:
    assert render(line + "\n") == line
