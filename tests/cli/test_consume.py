"""`ithaca read` and `ithaca follow`: ranges, filters, formats, ends, bad input."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cluster.free_base import free_base

import ithaca as library
from ithaca.cluster.local import Wanted, locked_cluster


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of ten records, `v1` to `v10`, with keys `k1`, `k2`, `k1`, ... and none for the last."""
    directory = tmp_path / "log"
    with library.open(directory) as log:
        for number in range(1, 11):
            key = None if number == 10 else b"k%d" % (1 + (number - 1) % 2)
            log.append(b"v%d" % number, key=key)
    return directory


def values(*arguments: str | Path) -> list[str]:
    return ithaca(*arguments, "--format", r"%v\n").stdout.decode().split()


def numbered(*numbers: int) -> list[str]:
    return [f"v{number}" for number in numbers]


def test_everything_by_default(path: Path) -> None:
    lines = ithaca("read", "-p", path).stdout.decode().splitlines()
    columns = [line.split("\t") for line in lines]
    assert [column[0] for column in columns] == [str(number) for number in range(1, 11)]
    assert [column[2] for column in columns] == ["k1", "k2"] * 4 + ["k1", "-"]
    assert [column[3] for column in columns] == numbered(*range(1, 11))
    written = datetime.fromisoformat(columns[0][1])
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=10)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "8"], [8, 9, 10]),
        (["--from", "3", "--to", "5"], [3, 4]),
        (["--to", "3"], [1, 2]),
        (["-n", "2"], [1, 2]),
        (["--from", "earliest", "-n", "1"], [1]),
        (["--key", "k2"], [2, 4, 6, 8]),
        (["--prefix", "k", "--from", "8"], [8, 9]),
        (["--prefix", "k2", "-n", "1"], [2]),
        (["--key", "none"], []),
        (["--from", "11"], []),
    ],
)
def test_ranges_limits_and_filters(path: Path, arguments: list[str], expected: list[int]) -> None:
    assert values("read", "-p", path, *arguments) == numbered(*expected)


def test_json_and_raw(path: Path) -> None:
    (record,) = json_lines(ithaca("read", "-p", path, "--from", "10", "--json").stdout)
    assert (record["position"], record["key"], record["value"], record["shard"]) == (10, None, "v10", 0)
    assert ithaca("read", "-p", path, "--to", "4", "--raw").stdout == b"v1v2v3"


def test_reading_beyond_the_tail_says_where_the_tail_is(path: Path) -> None:
    done = ithaca("read", "-p", path, "--from", "99", status=1)
    assert done.stderr == b"ithaca: position 99 is not written yet; the tail is 11\n"


def test_reading_what_was_trimmed_says_what_is_left(path: Path) -> None:
    ithaca("trim", "-p", path, "--before", "5")
    done = ithaca("read", "-p", path, "--from", "2", status=1)
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("ithaca: ")
    assert "5" in line
    assert values("read", "-p", path) == numbered(*range(5, 11))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from", "0"], "not a position"),
        (["--from", "yesterday"], "neither latest, earliest, a position"),
        (["--to", "-3"], "not a position"),
        (["-n", "0"], "'-n'"),
        (["--format", "%q"], "'%q'"),
        (["--format", "%v", "--json"], "exclude each other"),
        (["--key", "a", "--prefix", "b"], "exclude each other"),
    ],
)
def test_wrong_usage_is_named(path: Path, arguments: list[str], complaint: str) -> None:
    done = ithaca("read", "-p", path, *arguments, status=2)
    assert done.stdout == b""
    assert complaint in done.stderr.decode()


def test_follow_ends_after_its_timeout(path: Path) -> None:
    assert values("follow", "-p", path, "--from", "earliest", "--timeout", "0.2") == numbered(*range(1, 11))
    assert values("follow", "-p", path, "--timeout", "0") == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "9"], [9, 10]),
        (["--from", "earliest", "-n", "3"], [1, 2, 3]),
        (["--from", "earliest", "--key", "k2"], [2, 4, 6, 8]),
        (["--from", "earliest", "--prefix", "k1", "-n", "2"], [1, 3]),
        (["--from", "2020-01-01"], list(range(1, 11))),
        (["--from", "2020-01-01T00:00:00+02:00", "-n", "1"], [1]),
        (["--from", "2999-01-01T00:00:00Z"], []),
    ],
)
def test_follow_from_anywhere(path: Path, arguments: list[str], expected: list[int]) -> None:
    assert values("follow", "-p", path, "--timeout", "0.2", *arguments) == numbered(*expected)


def test_follow_prints_records_as_they_are_appended(path: Path) -> None:
    with (
        subprocess.Popen(
            [*COMMAND, "follow", "-p", path, "--from", "10", "-n", "3", "--format", r"%p %v\n"],
            stdout=subprocess.PIPE,
            env=environment(),
        ) as follower,
        library.open(path) as log,
    ):
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"10 v10\n"
        log.append(b"new")
        assert follower.stdout.readline() == b"11 new\n"
        log.append(b"newer")
        assert follower.stdout.read() == b"12 newer\n"
        assert follower.wait(timeout=60) == 0


@pytest.mark.parametrize("start", ["soon", "2026-13-01", "0", "-1", "1.5"])
def test_follow_from_nowhere_is_wrong_usage(path: Path, start: str) -> None:
    complaint = ithaca("follow", "-p", path, f"--from={start}", status=2).stderr.decode()
    assert f"Invalid value: '{start}' is not a position" in complaint or f"'{start}' is neither" in complaint


def test_the_directory_of_a_cluster_is_named(tmp_path: Path) -> None:
    with locked_cluster(tmp_path, Wanted(shards=1, replicas=1, orderers=1, port=free_base(2))) as file:
        pass
    done = ithaca("read", "-p", tmp_path, status=2)
    assert f"is the directory of a cluster: use -b {file.orderers[0].address}" in " ".join(done.stderr.decode().split())


def test_times_say_what_to_read(path: Path) -> None:
    everything = ithaca("read", "-p", path).stdout
    assert everything
    assert ithaca("read", "-p", path, "--from", "2020-01-01T00:00:00Z", "--to", "latest").stdout == everything
    assert ithaca("read", "-p", path, "--to", "2020-01-01T00:00:00Z").stdout == b""
