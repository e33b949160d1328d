"""`ithaca tail`, `trim`, `stats`, `verify`: figures, refusals, and damage found where it was done."""

from datetime import datetime
from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines

import ithaca as library


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of ten records of 100 bytes each, and one session."""
    directory = tmp_path / "log"
    with library.open(directory) as log:
        session = log.session("importer")
        for number in range(10):
            session.append(bytes([number]) * 100)
    return directory


def segment_of(path: Path) -> Path:
    (segment,) = path.rglob("*.seg")
    return segment


def test_tail(path: Path) -> None:
    assert ithaca("tail", "-p", path).stdout == b"first 1\ntail 11\n"
    assert json_lines(ithaca("tail", "-p", path, "--json").stdout) == [{"first": 1, "tail": 11}]


def test_trim_moves_the_first_position(path: Path) -> None:
    assert ithaca("trim", "-p", path, "--before", "4").stdout == b"first 4\n"
    assert json_lines(ithaca("trim", "-p", path, "--before", "6", "--json").stdout) == [{"first": 6}]
    assert ithaca("tail", "-p", path).stdout == b"first 6\ntail 11\n"


def test_trim_beyond_the_tail_is_refused(path: Path) -> None:
    done = ithaca("trim", "-p", path, "--before", "99", status=1)
    (line,) = done.stderr.decode().splitlines()
    assert "99" in line
    assert ithaca("tail", "-p", path).stdout == b"first 1\ntail 11\n"


@pytest.mark.parametrize("before", ["0", "-1", "some"])
def test_trim_needs_a_position(path: Path, before: str) -> None:
    assert "is not a position" in ithaca("trim", "-p", path, f"--before={before}", status=2).stderr.decode()


def test_stats_as_json(path: Path) -> None:
    ithaca("trim", "-p", path, "--before", "3")
    (figures,) = json_lines(ithaca("stats", "-p", path, "--json").stdout)
    assert (figures["first"], figures["tail"], figures["records"]) == (3, 11, 8)
    assert (figures["segments"], figures["sessions"]) == (1, 1)
    assert figures["bytes"] >= 1000
    assert 0 < figures["oldest_us"] <= figures["newest_us"]


def test_stats_for_people(path: Path) -> None:
    lines = ithaca("stats", "-p", path).stdout.decode().splitlines()
    figures = dict(line.split(maxsplit=1) for line in lines)
    assert (figures["records"], figures["tail"], figures["sessions"]) == ("10", "11", "1")
    assert datetime.fromisoformat(figures["oldest"]) <= datetime.fromisoformat(figures["newest"])


def test_stats_of_an_empty_log(tmp_path: Path) -> None:
    library.open(tmp_path / "log").close()
    figures = ithaca("stats", "-p", tmp_path / "log").stdout.decode()
    assert "records        0\n" in figures
    assert "oldest         -\n" in figures


def test_stats_and_verify_beside_a_writer(path: Path) -> None:
    with library.open(path) as log:
        log.append(b"unfinished business")
        (figures,) = json_lines(ithaca("stats", "-p", path, "--json").stdout)
        assert figures["records"] == 11
        assert ithaca("verify", "-p", path).stdout == b"sound: every byte checks out\n"


def test_a_sound_log_verifies(path: Path) -> None:
    assert ithaca("verify", "-p", path).stdout == b"sound: every byte checks out\n"
    assert ithaca("verify", "-p", path, "--json").stdout == b""


def test_a_flipped_bit_is_found_where_it_is(path: Path) -> None:
    segment = segment_of(path)
    data = bytearray(segment.read_bytes())
    at = data.index(bytes([5]) * 100) + 50
    data[at] ^= 1
    segment.write_bytes(data)
    done = ithaca("verify", "-p", path, status=3)
    (line,) = done.stdout.decode().splitlines()
    assert line.startswith(f"{segment} at byte ")
    assert done.stderr == b"the log is damaged: 1 finding\n"
    (finding,) = json_lines(ithaca("verify", "-p", path, "--json", status=3).stdout)
    assert finding["file"] == str(segment)
    assert at - 400 < finding["offset"] <= at
    assert finding["problem"]
    assert segment.read_bytes() == data, "looking must not change anything"
