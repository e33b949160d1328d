"""Lines from pipes and files: nothing lost at the seams, and no line without bound."""

import os
import random
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from ithaca.cli import lines
from ithaca.cli.lines import read_lines, read_whole, ready
from ithaca.model.errors import RecordTooLarge


@pytest.fixture
def file() -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile() as opened:
        yield opened


def put(file: BinaryIO, data: bytes) -> BinaryIO:
    file.write(data)
    file.flush()
    file.seek(0)
    return file


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 1 << 20])
def test_every_split_of_the_input_gives_the_same_lines(
    file: BinaryIO, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "READ_CHUNK_BYTES", chunk_bytes)
    data = bytes(random.Random(1).choices(b"ab\n\r\x00\xff", k=500))
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert [line for some in read_lines(put(file, data)) for line in some] == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", []), (b"\n", [b""]), (b"a", [b"a"]), (b"a\n", [b"a"]), (b"a\n\n", [b"a", b""])],
)
def test_the_last_newline_ends_a_line_and_begins_none(file: BinaryIO, data: bytes, expected: list[bytes]) -> None:
    assert [line for some in read_lines(put(file, data)) for line in some] == expected


def test_a_line_longer_than_a_record_is_refused_before_it_fills_memory(
    file: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "RECORD_BYTES_MAX", 10)
    monkeypatch.setattr(lines, "READ_CHUNK_BYTES", 4)
    with pytest.raises(RecordTooLarge, match="10 bytes"):
        list(read_lines(put(file, b"x" * 1000)))
    assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 12, "no more may be read than shows that it is too long"


def test_whole_reads_one_byte_too_many_at_most(file: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "RECORD_BYTES_MAX", 10)
    assert read_whole(put(file, b"x" * 1000)) == b"x" * 11


def test_a_pipe_is_ready_only_when_something_is_in_it() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as source, open(writing, "wb", buffering=0) as sink:
        assert not ready(source)
        sink.write(b"x")
        assert ready(source)
