"""Logs of servers: bounded files, and readers that merge and follow them."""

import os
from pathlib import Path

import pytest

from ithaca.cluster.limits import LOG_LINE_BYTES_MAX
from ithaca.cluster.log_files import log_path, open_log, put_aside
from ithaca.cluster.log_reader import LogReader, check_name, log_names
from ithaca.model.errors import InvalidInput


def write(directory: Path, name: str, *lines: str) -> None:
    output = open_log(directory, name)
    os.write(output, "".join(f"{line}\n" for line in lines).encode())
    os.close(output)


def at(second: int, event: str) -> str:
    return f'{{"time":"2026-01-31T12:00:{second:02}.000001Z","level":"info","event":"{event}"}}'


def texts(reader: LogReader, count: int = 50) -> list[tuple[str, str]]:
    return [(line.name, line.text) for line in reader.last(count)]


def test_a_full_file_is_put_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    output = open_log(tmp_path, "one")
    path, old = log_path(tmp_path, "one"), log_path(tmp_path, "one").with_name("one.log.1")
    os.write(output, b"0123456789")
    assert not put_aside(path, bytes_max=10)
    os.write(output, b"!")
    assert put_aside(path, bytes_max=10)
    os.write(output, b"next")
    os.close(output)
    assert (path.read_bytes(), old.read_bytes()) == (b"next", b"0123456789!")
    assert put_aside(path, bytes_max=3)
    assert (path.read_bytes(), old.read_bytes()) == (b"", b"next")
    assert not put_aside(tmp_path / "none")


def test_logs_are_private(tmp_path: Path) -> None:
    write(tmp_path, "one", "x")
    assert log_path(tmp_path, "one").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700


def test_lines_of_all_logs_are_merged_by_time(tmp_path: Path) -> None:
    write(tmp_path, "b", at(1, "b1"), "Traceback", "  more", at(3, "b3"))
    write(tmp_path, "a", at(2, "a2"), "2026-01-31T12:00:04Z plain")
    merged = [
        ("b", at(1, "b1")),
        ("b", "Traceback"),
        ("b", "  more"),
        ("a", at(2, "a2")),
        ("b", at(3, "b3")),
        ("a", "2026-01-31T12:00:04Z plain"),
    ]
    assert log_names(tmp_path) == ["a", "b"]
    assert texts(LogReader(tmp_path, None)) == merged
    assert texts(LogReader(tmp_path, None), 2) == merged[-2:]
    assert texts(LogReader(tmp_path, None), 0) == []
    assert texts(LogReader(tmp_path, "a")) == [merged[3], merged[5]]


@pytest.mark.parametrize("count", [1, 99, 100, 101, 30_000])
def test_the_last_lines_of_a_large_file(tmp_path: Path, count: int) -> None:
    lines = [f"line {number} " + "x" * (number % 50) for number in range(20_000)]
    write(tmp_path, "one", *lines)
    assert [text for _, text in texts(LogReader(tmp_path, "one"), count)] == lines[-count:]


def test_lines_that_were_put_aside_are_still_shown(tmp_path: Path) -> None:
    write(tmp_path, "one", "1", "2")
    put_aside(log_path(tmp_path, "one"), bytes_max=0)
    write(tmp_path, "one", "3")
    assert [text for _, text in texts(LogReader(tmp_path, "one"), 2)] == ["2", "3"]


def test_news_are_complete_lines_after_the_last_ones(tmp_path: Path) -> None:
    write(tmp_path, "one", "1", "2")
    reader = LogReader(tmp_path, None)
    assert [text for _, text in texts(reader, 1)] == ["2"]
    assert reader.news() == []
    output = open_log(tmp_path, "one")
    os.write(output, b"3\nhal")
    write(tmp_path, "two", "a new one")
    assert [(line.name, line.text) for line in reader.news()] == [("one", "3"), ("two", "a new one")]
    os.write(output, b"f\n")
    assert [line.text for line in reader.news()] == ["half"]
    put_aside(log_path(tmp_path, "one"), bytes_max=0)
    os.write(output, b"4\n")
    os.close(output)
    assert [line.text for line in reader.news()] == ["4"]


def test_a_line_without_end_does_not_pile_up(tmp_path: Path) -> None:
    reader = LogReader(tmp_path, None)
    output = open_log(tmp_path, "one")
    os.write(output, b"x" * (LOG_LINE_BYTES_MAX + 1))
    os.close(output)
    assert [len(line.text) for line in reader.news()] == [LOG_LINE_BYTES_MAX + 1]


def test_an_unknown_name_is_told_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no log of orderer-1: there are none yet"):
        check_name(tmp_path, "orderer-1")
    write(tmp_path, "orderer-1", "x")
    check_name(tmp_path, "orderer-1")
    with pytest.raises(InvalidInput, match=r"no log of order-1 \(did you mean orderer-1\?\): there are orderer-1"):
        check_name(tmp_path, "order-1")
