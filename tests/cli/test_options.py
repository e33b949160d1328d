"""Sizes and positions as people type them."""

import pytest
import typer

from ithaca.cli.options import examples, parse_position, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("4096", 4096),
        ("64K", 65536),
        ("64k", 65536),
        ("1.5G", 3 << 29),
        ("10GiB", 10 << 30),
        ("2MB", 2 << 20),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "G", "1X", "1e3", "one"])
def test_what_is_not_a_size_is_named(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a size"):
        parse_size(text)


def test_positions() -> None:
    assert parse_position("17") == 17


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "", "first", "１"])
def test_what_is_not_a_position_is_named(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a position"):
        parse_position(text)


def test_examples_stand_on_lines_of_their_own() -> None:
    assert examples("one [two]", "three") == "Examples:\n\none \\[two]\n\nthree"
