"""`ithaca bench`: the command line around the measurements."""

from pathlib import Path

import pytest
from tests.cli.command import ithaca, json_lines

SMALL = ["--record-bytes", "100", "--batch", "4", "--segment-bytes", "64K"]


@pytest.mark.parametrize("replicas", ["1", "2"])
def test_ceiling_prints_json(tmp_path: Path, replicas: str) -> None:
    done = ithaca(
        "bench", "ceiling", "--dir", tmp_path / "b", *SMALL, "--bytes", "4K", "--replicas", replicas, "--json"
    )
    (report,) = json_lines(done.stdout)
    assert {"records_per_s", "bytes_per_s", "latency_ms", "settings", "contenders"} <= set(report)
    assert (report["settings"]["bytes"], report["settings"]["seconds"]) == (4096, None)
    assert b"round 1 of 3: prewritten" in done.stderr


def test_ceiling_prints_a_table_and_where_it_ran(tmp_path: Path) -> None:
    text = ithaca("bench", "ceiling", "--dir", tmp_path / "b", *SMALL, "--seconds", "0.01").stdout.decode()
    assert text.startswith("file system ")
    assert " cores" in text
    assert "prewritten" in text
    assert "append" in text


def test_embedded_prints_json_and_a_table(tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        "--dir",
        tmp_path / "b",
        *SMALL,
        "--seconds",
        "0.01",
        "--rounds",
        "1",
        "--read-bytes",
        "64K",
    ]
    (report,) = json_lines(ithaca("bench", "embedded", *arguments, "--json").stdout)
    assert {"records_per_s", "bytes_per_s", "latency_ms", "settings", "contenders", "reads"} <= set(report)
    text = ithaca("bench", "embedded", *arguments).stdout.decode()
    assert "log, recycled" in text
    assert "rate / ceiling" in text
    assert "subscribe" in text


def test_memory_prints_json_and_a_line(tmp_path: Path) -> None:
    arguments: list[str | Path] = ["--dir", tmp_path / "b", *SMALL, "--bytes", "100K", "--durability", "os"]
    (report,) = json_lines(ithaca("bench", "memory", *arguments, "--json").stdout)
    assert {"baseline_rss_anon_bytes", "end_rss_anon_bytes", "growth_bytes", "settings"} <= set(report)
    assert "private memory: " in ithaca("bench", "memory", *arguments).stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ceiling", "--replicas", "3"], "--replicas"),
        (["ceiling", "--record-bytes", "none"], "is not a size"),
        (["embedded", "--rounds", "0"], "--rounds"),
        (["embedded", "--threads", "0"], "--threads"),
        (["memory", "--bytes", "-1"], "is not a size"),
    ],
    ids=str,
)
def test_wrong_usage_is_named(arguments: list[str], complaint: str) -> None:
    assert complaint in ithaca("bench", *arguments, status=2).stderr.decode()
