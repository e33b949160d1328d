"""Templates: every field, every escape, and what they refuse."""

import pytest
import typer

from ithaca.cli.template import compile_template, iso_time
from ithaca.model.records import Record

RECORD = Record(position=7, value=b"v\xff", key=b"k", timestamp_us=1_500_000, shard=3)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%p", b"7"),
        ("%k", b"k"),
        ("%v", b"v\xff"),
        ("%t", b"1970-01-01T00:00:01.500000Z"),
        ("%T", b"1500000"),
        ("%s", b"2"),
        ("%S", b"3"),
        ("%%p", b"%p"),
        (r"%p\t%k\n", b"7\tk\n"),
        (r"\x00\xff\0\\", b"\x00\xff\x00\\"),
        ("größe", "größe".encode()),
        ("", b""),
    ],
)
def test_each_field_and_escape(template: str, expected: bytes) -> None:
    assert compile_template(template)(RECORD) == expected


def test_a_missing_key_is_empty() -> None:
    record = Record(position=1, value=b"", key=None, timestamp_us=0, shard=0)
    assert compile_template("[%k]")(record) == b"[]"


@pytest.mark.parametrize("template", ["%z", "%", "%p%", r"\q", "\\", r"\xZZ"])
def test_unknown_letters_are_refused_by_name(template: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not known"):
        compile_template(template)


def test_a_time_that_no_calendar_holds_is_still_printed() -> None:
    assert iso_time(2**62) == f"{2**62}us"
