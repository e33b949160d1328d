"""Tiny runs of the ceiling: both kinds of file, one replica or two, and nothing left behind."""

import multiprocessing
from pathlib import Path

import pytest

from ithaca.bench.bare import CeilingSettings
from ithaca.bench.ceiling import run_ceiling


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("window", [1, 3])
def test_both_kinds_of_file_are_measured(tmp_path: Path, replicas: int, window: int) -> None:
    settings = CeilingSettings(
        record_bytes=100,
        batch=4,
        seconds=None,
        bytes=4000,
        rounds=2,
        replicas=replicas,
        window=window,
        file_bytes=2000,
    )
    told: list[str] = []
    report = run_ceiling(tmp_path / "bench", settings, told.append)
    assert set(report["contenders"]) == {"prewritten", "append"}
    for figures in report["contenders"].values():
        assert len(figures["rounds"]) == 2
        assert figures["records_per_s"] > 0
        assert figures["bytes_per_s"] == pytest.approx(100 * figures["records_per_s"], rel=0.01)
        assert set(figures["latency_ms"]) == {"p50", "p99", "max"}
    assert report["records_per_s"] == report["contenders"]["prewritten"]["records_per_s"]
    assert report["latency_ms"] == report["contenders"]["prewritten"]["latency_ms"]
    assert report["settings"]["replicas"] == replicas
    assert report["settings"]["cores"] >= 1
    assert report["settings"]["file_system"]
    assert len(told) == 4
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []
