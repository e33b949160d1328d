"""`ithaca append`: arguments, files, pipes; keys and batches; bad input."""

import subprocess
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines

import ithaca as library
from ithaca.model.limits import RECORD_BYTES_MAX


def records_of(path: Path) -> list[tuple[bytes | None, bytes]]:
    with library.open(path, mode="r") as log, log.read_range(1) as records:
        return [(record.key, record.value) for record in records]


def test_arguments_print_their_positions(tmp_path: Path) -> None:
    assert ithaca("append", "-p", tmp_path, "a", "b", "--key", "k").stdout == b"1\n2\n"
    assert ithaca("append", "-p", tmp_path, "ü").stdout == b"3\n"
    assert records_of(tmp_path) == [(b"k", b"a"), (b"k", b"b"), (None, "ü".encode())]


def test_arguments_in_batches_print_every_position(tmp_path: Path) -> None:
    assert ithaca("append", "-p", tmp_path, "a", "b", "c", "--batch", "2").stdout == b"1\n2\n3\n"
    with library.open(tmp_path, mode="r") as log:
        assert [len(batch) for batch in log.read_range(1).batches()] == [2, 1]


def test_json_prints_receipts(tmp_path: Path) -> None:
    done = ithaca("append", "-p", tmp_path, "a", "b", "--json", "--durability", "os")
    assert json_lines(done.stdout) == [
        {"position": 1, "count": 1, "shard": 0, "durability": "os"},
        {"position": 2, "count": 1, "shard": 0, "durability": "os"},
    ]


def test_standard_input_is_binary_safe_and_summarized(tmp_path: Path) -> None:
    done = ithaca("append", "-p", tmp_path, stdin=b"one\n\n\xff\x00\r\nlast")
    assert done.stdout.startswith(b"4 records (10 B) at positions 1 to 4 in ")
    assert records_of(tmp_path) == [(None, b"one"), (None, b""), (None, b"\xff\x00\r"), (None, b"last")]


def test_a_long_stream_arrives_whole_and_in_order(tmp_path: Path) -> None:
    lines = [b"line %d" % number for number in range(20_000)]
    (summary,) = json_lines(ithaca("append", "-p", tmp_path, "--json", stdin=b"\n".join(lines)).stdout)
    assert summary.pop("seconds") > 0
    assert summary == {"records": 20_000, "bytes": sum(map(len, lines)), "first": 1, "last": 20_000}
    assert [value for _, value in records_of(tmp_path)] == lines


def test_empty_input_appends_nothing(tmp_path: Path) -> None:
    assert ithaca("append", "-p", tmp_path).stdout == b"0 records: the input was empty\n"


def test_files_by_line_and_whole(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"3\n")
    files: list[str | Path] = ["--file", tmp_path / "a", "--file", tmp_path / "b"]
    ithaca("append", "-p", tmp_path / "lines", *files)
    ithaca("append", "-p", tmp_path / "whole", *files, "--whole")
    assert [value for _, value in records_of(tmp_path / "lines")] == [b"1", b"2", b"3"]
    assert [value for _, value in records_of(tmp_path / "whole")] == [b"1\n2\n", b"3\n"]


def test_a_separator_splits_key_from_value(tmp_path: Path) -> None:
    ithaca("append", "-p", tmp_path, "-K", "::", "--batch", "2", stdin=b"k::v::w\nno key\n::empty\n")
    assert records_of(tmp_path) == [(b"k", b"v::w"), (None, b"no key"), (b"", b"empty")]


def test_a_slow_pipe_does_not_wait_for_more(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "append", "-p", tmp_path / "log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
    ) as producer:
        assert producer.stdin is not None
        ithaca("append", "-p", tmp_path / "other", "x")  # time for the producer to make its log is not assumed
        producer.stdin.write(b"early\n")
        producer.stdin.flush()
        while not (tmp_path / "log").exists():
            assert producer.poll() is None
        follower = ithaca("follow", "-p", tmp_path / "log", "--from", "earliest", "-n", "1", "--format", "%v")
        assert follower.stdout == b"early"
        assert producer.poll() is None, "the producer was to be still waiting for input"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a", "--file", "b"], "exclude each other"),
        (["--key", "k", "--key-separator", ":"], "exclude each other"),
        (["--key-separator", ""], "separator is empty"),
        (["--batch", "0"], "--batch"),
        (["--durability", "maybe"], "--durability"),
        (["--compression", "rar"], "--compression"),
    ],
)
def test_wrong_usage_is_named_before_anything_is_made(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = ithaca("append", "-p", tmp_path / "log", *arguments, status=2)
    assert complaint in done.stderr.decode()
    assert not (tmp_path / "log").exists()


def test_a_missing_file_is_named_before_anything_is_appended(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x\n")
    files: list[str | Path] = ["--file", tmp_path / "there", "--file", tmp_path / "missing"]
    done = ithaca("append", "-p", tmp_path / "log", *files, status=1)
    assert done.stderr.decode() == f"ithaca: {tmp_path / 'missing'}: No such file or directory\n"
    assert not (tmp_path / "log").exists()


def test_a_line_too_long_says_what_was_acknowledged_before(tmp_path: Path) -> None:
    done = ithaca("append", "-p", tmp_path, status=1, stdin=b"fits\n" + b"x" * (RECORD_BYTES_MAX + 1))
    explained, error = done.stderr.decode().splitlines()
    assert "1 records were acknowledged" in explained
    assert str(RECORD_BYTES_MAX) in error
    assert records_of(tmp_path) == [(None, b"fits")]


def test_a_log_that_somebody_else_writes_is_refused(tmp_path: Path) -> None:
    with library.open(tmp_path):
        done = ithaca("append", "-p", tmp_path, "x", status=1)
    assert done.stderr.startswith(b"ithaca: ")
    assert len(done.stderr.splitlines()) == 1
