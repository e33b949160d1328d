"""The comparison with other systems: what every one of them is asked, what is kept, and what is shown."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.bench.test_raft_benches import quiet

from ithaca.bench.cluster.producers import Plan, Turn
from ithaca.bench.compare.catalogue import SYSTEMS, chosen_systems, chosen_workloads
from ithaca.bench.compare.kept import RESULTS, CompareSettings, Kept
from ithaca.bench.compare.open_loop import Pace, append_when_due
from ithaca.bench.compare.page import page
from ithaca.bench.compare.run import run_compare
from ithaca.bench.compare.summary import report
from ithaca.bench.compare.system import System
from ithaca.bench.compare.systems.kafka import Kafka
from ithaca.bench.compare.systems.local import PlainFile, Sqlite
from ithaca.bench.compare.table import markdown
from ithaca.bench.compare.workloads import WORKLOADS, Workload
from ithaca.model.errors import DeadlineExceeded, InvalidInput, Unavailable

SETTINGS = CompareSettings(seconds=1.0, rounds=1, warm_up_s=0.05)
SMALL = (
    Workload("small", "small", "append", 100, batch=4),
    Workload("several", "several", "append", 100, clients=2),
    Workload("read", "read", "read", 1000, batch=16),
    Workload("random", "random", "random", 1000),
)


class Missing(Sqlite):
    name = "missing"

    def run(self, directory: Path, progress: Any) -> Any:
        raise Unavailable("it grows on trees | and | is not ripe")


def figures(rate: float, p50: float) -> dict[str, Any]:
    latency = {"p50": p50, "p99": 2 * p50, "max": 3 * p50}
    costs = {"server_cpu_us": 1.0, "client_cpu_us": 2.0, "written_bytes": 100.0}
    histogram = [(-120, 50), (-80, 1)]
    return {"records_per_s": rate, "bytes_per_s": rate * 100, "latency": latency, "histogram": histogram, **costs}


def measured() -> dict[str, Any]:
    about = {"durable": "synced", "copies": 2, "order": "total", "acknowledged": "synced <twice>", "version": "1"}
    names = ("ithaca scalog", "kafka", "nats")
    return {
        "workload": {"name": "w", "title": "4 KB & more"},
        "batches_per_s": 100.0,
        "systems": {
            "ithaca scalog": {"rounds": [figures(100, 1.0), figures(200, 1.0)]},
            "kafka": {"rounds": [figures(50, 2.0), figures(150, 2.0)]},
            "nats": {"failed": "it was | late"},
        },
        "about": {name: about | {"settings": {"acks": "all"}} for name in names},
        "settings": {"version": "0", "cores": 2, "file_system": "ext4", "python": "3.11 <gcc>"} | asdict(SETTINGS),
    }


def reported(tmp_path: Path, *lines: dict[str, Any]) -> dict[str, Any]:
    kept = Kept(tmp_path, SETTINGS)
    for line in lines:
        kept.add(line)
    return report(Kept(tmp_path, SETTINGS), ["w"], ["ithaca scalog", "kafka", "nats", "redis"], {})


@pytest.mark.campaign
def test_local_systems_do_everything_and_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    systems: list[System] = [Sqlite(), PlainFile(), Missing()]
    kept = tmp_path / "kept"
    first = run_compare(tmp_path / "data", kept, systems, SMALL[:1], SETTINGS, quiet)
    assert first["systems"]["missing"]["missing"].startswith("it grows")
    lines = (kept / RESULTS).read_bytes().splitlines()
    found = run_compare(tmp_path / "data", kept, systems, SMALL, SETTINGS, quiet)
    assert (kept / RESULTS).read_bytes().splitlines()[:1] == lines  # what was measured is not measured again
    by_name = {workload["name"]: workload["systems"] for workload in found["workloads"]}
    assert by_name.keys() == {"small", "several", "read", "random"}
    assert by_name["several"]["sqlite"]["records_per_s"] > 0
    assert "only 1 process" in by_name["several"]["plain file"]["failed"]
    for name in ("small", "read", "random"):
        assert all(by_name[name][system]["records_per_s"] > 0 for system in ("sqlite", "plain file"))
    assert "latency_ms" in by_name["random"]["plain file"]
    assert not (tmp_path / "data").exists()
    assert "it grows on trees / and / is not ripe" in markdown(found)


def test_ratios_are_formed_within_rounds(tmp_path: Path) -> None:
    found = reported(tmp_path, measured())["workloads"][0]["systems"]
    assert found["kafka"]["rate_to_reference"] == 0.625  # the median of 0.5 and 0.75
    assert found["kafka"]["p50_to_reference"] == 2.0
    assert found["kafka"]["spread"] == [50, 150]
    assert found["nats"] == {"failed": "it was | late"}


def test_a_system_that_came_later_is_compared_with_the_reference_of_its_own_rounds(tmp_path: Path) -> None:
    late = measured()
    late["systems"] = {"redis": {"rounds": [figures(10, 1.0)] * 2}, "ithaca scalog": {"rounds": [figures(20, 1.0)] * 2}}
    late["about"] = {"redis": late["about"]["kafka"]}
    found = reported(tmp_path, measured(), late)["workloads"][0]["systems"]
    assert found["redis"]["rate_to_reference"] == 0.5
    assert found["ithaca scalog"]["records_per_s"] == 150
    assert found.keys() == {"ithaca scalog", "kafka", "nats", "redis"}


def test_reports_name_everything_and_escape_it(tmp_path: Path) -> None:
    whole = reported(tmp_path, measured())
    text, html = markdown(whole), page(whole)
    assert "| kafka | 100 | 50 to 150 |" in text
    assert "failed: it was / late" in text
    assert "synced on two disks" in text
    assert "4 KB &amp; more" in html
    assert "synced &lt;twice&gt;" in html
    assert "<script" not in html
    assert "http" not in html
    assert "Python 3.11 &lt;gcc&gt;" in html
    assert "Python 3.11 <gcc>" in text
    assert "bytes on disks per record" in html
    assert html.count("<polyline") == 2  # a distribution for each that was timed
    assert "99.99%" in html


def test_an_open_loop_counts_from_when_a_batch_was_due() -> None:
    """The first append holds up the others, which were due meanwhile: they are late by as much."""
    start_s = time.monotonic()
    waited = [0.2]

    def begin(batch: list[bytes], done: Any) -> None:
        time.sleep(waited.pop() if waited else 0)
        done(None)

    pace = Pace(Turn(Plan(1, 1, 1), start_s, start_s + 0.1), 50.0)
    durations = np.frombuffer(append_when_due(pace, [[b"x"]], begin).durations)
    assert len(durations) == 5
    assert durations.min() > 0.1


def test_what_was_refused_or_not_answered_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    start_s = time.monotonic()
    pace = Pace(Turn(Plan(1, 1, 1), start_s, start_s + 0.1), 50.0)
    refusals = [None, "it is full", None, None, None]
    with pytest.raises(Unavailable, match="1 of 5 appends were refused: it is full"):
        append_when_due(pace, [[b"x"]], lambda batch, done: done(refusals.pop()))
    monkeypatch.setattr("ithaca.bench.compare.open_loop.DRAIN_S", 0.05)
    with pytest.raises(DeadlineExceeded, match="5 of 5 appends were not answered"):
        append_when_due(pace, [[b"x"]], lambda batch, done: None)


def test_unknown_names_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInput, match="no system 'kafak'; there are ithaca-scalog"):
        chosen_systems("kafka,kafak")
    with pytest.raises(InvalidInput, match="no workload 'slow'"):
        chosen_workloads("slow", quick=True)
    assert [each.name for each in chosen_systems("kafka, redis")] == ["kafka", "redis"]
    quick, everything = chosen_workloads(None, quick=True), chosen_workloads(None, quick=False)
    assert set(quick) < set(everything) == set(WORKLOADS)


def test_every_system_says_what_is_durable_when_it_acknowledges() -> None:
    assert all(system.acknowledged and system.order for system in SYSTEMS.values())
    assert Kafka("synced").acknowledged != Kafka("page cache").acknowledged
