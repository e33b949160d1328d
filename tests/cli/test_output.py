"""How records look: text that stays on one line, JSON that loses no byte."""

import base64
import json

import pytest
import typer

from ithaca.cli.output import printable, record_as_json, record_as_text, renderer, size_text
from ithaca.model.records import Record


def record(value: bytes, key: bytes | None = None) -> Record:
    return Record(position=1, value=value, key=key, timestamp_us=0, shard=0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("naïve ✓".encode(), "naïve ✓"),
        (b"\xff\x80", r"\xff\x80"),
        (b"a\nb\tc\rd\x1b[31m\x7f", r"a\nb\tc\rd\x1b[31m\x7f"),
        ("\u0085\u009b".encode(), r"\x85\x9b"),
        (rb"C:\temp", r"C:\\temp"),
        (b"\xc3\n\xa9", r"\xc3\n\xa9"),
        (b"", ""),
    ],
)
def test_bytes_that_are_not_text_are_escaped(data: bytes, text: str) -> None:
    assert printable(data) == text


def test_text_is_one_line_of_four_columns() -> None:
    line = record_as_text(record(b"a\nb", key=b"k"))
    assert line == b"1\t1970-01-01T00:00:00.000000Z\tk\ta\\nb\n"
    assert record_as_text(record(b"v")).split(b"\t")[2] == b"-"


def test_json_keeps_text_readable_and_other_bytes_whole() -> None:
    text = json.loads(record_as_json(record("ü\n".encode(), key=b"k")))
    assert (text["key"], text["value"], text["position"], text["shard"]) == ("k", "ü\n", 1, 0)
    binary = json.loads(record_as_json(record(b"\xff\x00", key=b"\xfe")))
    assert base64.b64decode(binary["value_base64"]) == b"\xff\x00"
    assert base64.b64decode(binary["key_base64"]) == b"\xfe"
    assert "value" not in binary
    assert "key" not in binary
    assert json.loads(record_as_json(record(b"")))["key"] is None


def test_only_one_way_of_printing_may_be_asked_for() -> None:
    assert renderer(None, False, True)(record(b"\x00raw")) == b"\x00raw"
    assert renderer("%v!", False, False)(record(b"x")) == b"x!"
    with pytest.raises(typer.BadParameter, match="exclude each other"):
        renderer("%v", True, False)
    with pytest.raises(typer.BadParameter, match="exclude each other"):
        renderer(None, True, True)


def test_sizes_for_people() -> None:
    assert [size_text(count) for count in (0, 999, 1000, 12_345_678, 5e9, 7e12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12.3 MB",
        "5.0 GB",
        "7.0 TB",
    ]
