"""Ranges as tables of polars, where it is installed: its wheel is large, so that `make setup` leaves it out."""

from pathlib import Path

import pytest

import ithaca


def test_a_range_becomes_a_table_of_polars(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    with ithaca.open(tmp_path / "log") as log:
        log.append_many([b"a", b"b"], keys=[b"k", None])
        frame = log.read_range("earliest").to_polars()
    assert frame.columns == ["position", "shard", "timestamp", "key", "value"]
    assert frame.select("position", "key", "value").rows() == [(1, b"k", b"a"), (2, None, b"b")]
