"""Tiny runs of the embedded bench: what is compared with what, from the same run."""

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ithaca.bench.embedded import EmbeddedSettings, measure_appends, open_recycling, run_embedded
from ithaca.model.limits import KIB


def tiny(**changes: Any) -> EmbeddedSettings:
    settings: dict[str, Any] = {
        "record_bytes": 500,
        "batch": 4,
        "seconds": 0.02,
        "rounds": 2,
        "read": False,
        "read_bytes": 100_000,
        "segment_bytes": 64 * KIB,
    }
    return EmbeddedSettings(**settings | changes)


def rate_ratio(report: dict[str, Any], log: str, ceiling: str) -> float:
    pairs = zip(report[log]["rounds"], report[ceiling]["rounds"], strict=True)
    return float(median(ours["bytes_per_s"] / bare["bytes_per_s"] for ours, bare in pairs))


def test_each_log_is_compared_with_its_kind_of_file_within_the_run(tmp_path: Path) -> None:
    told: list[str] = []
    report = run_embedded(tmp_path / "bench", tiny(), told.append)
    contenders = report["contenders"]
    assert set(contenders) == {"bare, prewritten", "bare, append", "log, recycled", "log, fresh"}
    for log, ceiling in (("log, recycled", "bare, prewritten"), ("log, fresh", "bare, append")):
        assert contenders[log]["ratios"]["to"] == ceiling
        assert contenders[log]["ratios"]["rate"] == pytest.approx(rate_ratio(contenders, log, ceiling), rel=0.01)
    for figures in contenders.values():
        assert len(figures["rounds"]) == 2
    assert report["records_per_s"] == contenders["log, recycled"]["records_per_s"]
    assert set(report["latency_ms"]) == {"p50", "p99", "max"}
    assert (report["settings"]["batch"], report["settings"]["rounds"]) == (4, 2)
    assert report["settings"]["file_system"]
    assert report["reads"] == {}
    assert list(tmp_path.iterdir()) == []


def test_reading_is_measured_on_request(tmp_path: Path) -> None:
    report = run_embedded(tmp_path / "bench", tiny(read=True), lambda text: None)
    assert set(report["reads"]) == {"bare pread", "read_range", "subscribe"}
    for name in ("read_range", "subscribe"):
        assert report["reads"][name]["ratios"]["to"] == "bare pread"
        assert report["reads"][name]["bytes_per_s"] > 0


def test_the_recycled_log_writes_over_the_files_it_has(tmp_path: Path) -> None:
    def files() -> set[int]:
        return {path.stat().st_ino for path in tmp_path.rglob("*") if path.stat().st_size >= 48 * KIB}

    settings = tiny(seconds=0.0, durability="os")
    with open_recycling(tmp_path, settings) as log:
        settled, before = files(), log.tail()
        while log.tail() < before + 10 * settings.segment_bytes // settings.record_bytes:
            measure_appends(log, [[bytes(500)] * 4], settings, recycle=True)
        assert files() <= settled


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 1},
        {"threads": 2},
        {"durability": "os"},
        {"compression": "lz4"},
        {"batch": 1, "threads": 3},
        {"window": 4},
        {"window": 3, "batch": 1, "threads": 2},
    ],
    ids=str,
)
def test_every_scenario_runs(tmp_path: Path, changes: dict[str, Any]) -> None:
    report = run_embedded(tmp_path / "bench", tiny(rounds=1, **changes), lambda text: None)
    assert report["records_per_s"] > 0
    assert report["settings"] | changes == report["settings"]
