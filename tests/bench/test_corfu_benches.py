"""Measurements of the engine corfu: each comes to its end, and what it gave is drawn."""

from pathlib import Path
from typing import Any

import pytest
from tests.bench.test_raft_benches import quiet

from ithaca.bench.corfu.asking import HALF_WRITTEN, UNWRITTEN
from ithaca.bench.corfu.beside import LoneSettings, ScanSettings, SetsSettings, run_lone, run_scans, run_sets
from ithaca.bench.corfu.holes import HoleSettings, run_holes
from ithaca.bench.corfu.outages import LEADER, SEQUENCER, UNIT, OutageSettings, run_outages
from ithaca.bench.corfu.plot import PANELS, draw
from ithaca.bench.corfu.tokens import TokenSettings, run_sequencer

LATENCY = {"p50": 1.0, "p99": 2.0, "max": 3.0}
FIGURES = {"records_per_s": 10.0, "bytes_per_s": 1e6, "latency_ms": LATENCY, "cpu_us_per_record": 5.0}
BOTH = {"corfu": FIGURES, "scalog": FIGURES}
HOLE = {"fill_ms": LATENCY, "reader_ms": LATENCY}
REPORTS: dict[str, dict[str, Any]] = {
    "corfu append": {"points": [{"sets": 1, **BOTH}, {"sets": 2, **BOTH}]},
    "corfu latency": {**BOTH, "token": FIGURES},
    "corfu read": {"contenders": {f"{engine}: {way}": FIGURES for engine in BOTH for way in ("read", "read_range")}},
    "corfu sequencer": {"points": [{"group": 1, "tokens_per_s": 9.0, "sequencer_cpu_us": 2.0}]},
    "corfu holes": {UNWRITTEN: HOLE, HALF_WRITTEN: HOLE, "settings": {}},
    "corfu reconfigure": {"outages": {UNIT: {"gap_ms": 5.0, "back_ms": 1.0}, LEADER: {"gap_ms": 1.0}}},
}


def test_every_report_is_drawn(tmp_path: Path) -> None:
    assert REPORTS.keys() == PANELS.keys()
    for bench, report in REPORTS.items():
        draw({"bench": bench, **report}, tmp_path / f"{bench}.png")
        assert (tmp_path / f"{bench}.png").read_bytes().startswith(b"\x89PNG")


def test_holes_are_filled_and_read_past(tmp_path: Path) -> None:
    report = run_holes(tmp_path, HoleSettings(100, holes=2, waits=1), quiet)
    for kind in (UNWRITTEN, HALF_WRITTEN):
        assert report[kind]["fill_ms"]["p50"] > 0
        assert report[kind]["reader_ms"]["p50"] > report[kind]["reader_patience_ms"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.campaign
def test_all_of_them_come_to_their_end(tmp_path: Path) -> None:
    (point,) = run_sets(tmp_path, SetsSettings((2,), 100, 8, seconds=0.3, rounds=1), quiet)["points"]
    assert point["corfu"]["cpu_us_per_record"] > 0
    assert point["producers"] == 2
    lone = run_lone(tmp_path, LoneSettings(100, seconds=0.3, rounds=1), quiet)
    assert 0 < lone["sequencer_share"] < 1
    scans = run_scans(tmp_path, ScanSettings(1 << 20, 1000, 8, seconds=0.3, rounds=1), quiet)
    assert scans["contenders"]["corfu: read_range"]["ratios"]["rate"] > 0
    (tokens,) = run_sequencer(tmp_path, TokenSettings((8,), seconds=0.3, rounds=1), quiet)["points"]
    assert tokens["tokens_per_s"] > 0
    outages = run_outages(tmp_path, OutageSettings(rounds=1, record_bytes=100), quiet)["outages"]
    assert all(outages[kind]["gap_ms"] > outages[kind]["back_ms"] > 0 for kind in (UNIT, SEQUENCER))
