"""Measurements of belfast beside scalog: what is compared, and that each of them comes to its end."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.bench.test_cluster_benches import servers_in

from ithaca.apps.speculative.rules import measured
from ithaca.bench.experiments.timeline import Timeline
from ithaca.bench.speculation.changes import recovery_of, run_bursts, run_elastic, run_failure, run_stragglers
from ithaca.bench.speculation.followed import Followed, RolledBack
from ithaca.bench.speculation.lab import ENGINES, LabSettings, Turn, compared, report_of
from ithaca.bench.speculation.plot import draw
from ithaca.bench.speculation.points import run_append, run_apps, run_compute, run_delivery, run_shards, run_window
from ithaca.cluster.temporary import shaped
from ithaca.model.errors import InvalidInput


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Path]:
    """Where a measurement works; afterwards nothing of it is there any more, and no process."""
    yield tmp_path / "bench"
    assert list(tmp_path.iterdir()) == []
    assert servers_in(tmp_path) == []


def a_turn(delivery_s: float, wait_s: float, rolled_back: tuple[RolledBack, ...] = ()) -> Turn:
    due_s = np.arange(0.0, 1.0, 0.1)
    delivered_s = due_s + delivery_s
    computed_s = delivered_s + 0.002
    followed = Followed(due_s, delivered_s, delivered_s, computed_s, computed_s + wait_s, rolled_back)
    timeline = Timeline(1.0, 1, due_s, due_s + 0.01, np.zeros(10, np.int32), np.zeros(10, np.int32))
    return Turn(0.0, timeline, followed)


def test_what_is_compared_is_of_one_round() -> None:
    turns = {"belfast": [a_turn(0.002, 0.002)] * 2, "scalog": [a_turn(0.006, 0.0), a_turn(0.01, 0.0)]}
    told = compared(turns)
    assert told["ratios"]["delivery"] == {"median": 4.0, "rounds": [3.0, 5.0]}
    assert told["ratios"]["end_to_end"]["rounds"] == [pytest.approx(8 / 6, abs=0.001), 2.0]
    assert told["ratios"]["append"]["median"] == 1.0
    belfast = told["engines"]["belfast"]
    assert belfast["parts_ms"] == {"delivery": 2.0, "queue": 0.0, "compute": 2.0, "wait": 2.0}
    assert (belfast["records"], belfast["failed"], belfast["failed_batches"]) == (10, 0, 0)


def test_latencies_over_time_are_those_of_when_records_were_due() -> None:
    turn = a_turn(0.002, 0.0, (RolledBack(0.5, 3, 2, 0.001),))
    assert turn.followed is not None
    over_time = turn.followed.over_time(0.0, 1.0)
    assert over_time["delivery"][0] == 2.0
    assert over_time["delivery"][1] is None
    assert len(over_time["end_to_end"]) == 20
    assert turn.followed.latencies()["failed"] == 1


def test_a_recovery_is_told_in_its_parts() -> None:
    turn = replace(a_turn(0.002, 0.01, (RolledBack(0.501, 3, 2, 0.001),)), events={"killed": 0.1, "given up": 0.45})
    (recovered,) = recovery_of(turn)
    assert recovered["detection_ms"] == pytest.approx(350)
    assert recovered["entry_ms"] == pytest.approx(51)
    assert recovered["told_ms"] == pytest.approx(recovered["detection_ms"] + recovered["entry_ms"])
    assert recovered["redelivery_ms"] == pytest.approx(101), "of the two that were undone the second came at 0.602 s"
    assert recovered["again_ms"] == pytest.approx(13)
    (unknown,) = recovery_of(replace(turn, events={"killed": 0.1}))
    assert (unknown["detection_ms"], unknown["entry_ms"]) == (None, None)


def test_reports_are_drawn(tmp_path: Path) -> None:
    settings = LabSettings(seconds=1.0, at_s=0.5)
    bars = {"point": "2 shards", **compared({"belfast": [a_turn(0.002, 0.0)], "scalog": [a_turn(0.006, 0.0)]})}
    draw(report_of("delivery", settings, tmp_path / "gone", points=[bars]), tmp_path / "bars.png")
    for figures in bars["engines"].values():
        figures |= {"over_time": {"end_to_end": [1.0, None, 2.0]}, "events_s": [{"killed": 0.05}]}
    draw(report_of("failure", settings, tmp_path, points=[bars]), tmp_path / "lines.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("bars.png", "lines.png"))


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot hold their time"):
        LabSettings(record_bytes=4)
    with pytest.raises(InvalidInput, match="choose one within"):
        LabSettings(seconds=1.0, at_s=1.0)
    with pytest.raises(InvalidInput, match=r"-1 µs between cuts: use 0 \(self-clocked\) to 60 s"):
        LabSettings(order_interval_us=-1)


def test_both_clusters_have_the_same_clock() -> None:
    for engine in ENGINES:
        assert shaped(LabSettings(order_interval_us=5000).shape(engine), [*range(1, 8)]).order_interval_us == 5000
        assert shaped(LabSettings().shape(engine), [*range(1, 8)]).order_interval_us == 0


SMALL = LabSettings(orderers=1, record_bytes=100, records_per_s=40, seconds=1.5, at_s=0.4, rounds=1)


@pytest.mark.campaign
def test_latencies_are_measured_of_both(parent: Path) -> None:
    for report in (
        run_delivery(parent, SMALL, lambda text: None, shards=(2,)),
        run_compute(parent, SMALL, lambda text: None, compute_ms=(1.0,)),
        run_apps(parent, SMALL, lambda text: None, {"fraud": measured("fraud")}),
        run_window(parent, SMALL, lambda text: None, rounds=(20,)),
        run_shards(parent, SMALL, lambda text: None, shards=(1,)),
        run_append(parent, SMALL, lambda text: None, shards=(1,)),
    ):
        for point in report["points"]:
            assert set(point["engines"]) == {"belfast", "scalog"}
            assert all(each["failed_batches"] == 0 for each in point["engines"].values())
            assert point["ratios"]["append"]["median"] > 0
    assert report["points"][1]["idle_writes_per_s"].keys() == {"belfast", "scalog"}


@pytest.mark.campaign
def test_changes_fail_no_speculation_and_a_lost_shard_does(parent: Path) -> None:
    longer = LabSettings(orderers=1, record_bytes=100, records_per_s=40, seconds=3.5, at_s=0.5, rounds=1)
    for run in (run_bursts, run_elastic, run_stragglers):
        (point,) = run(parent, longer, lambda text: None)["points"]
        assert point["engines"]["belfast"]["failed"] == 0
        assert point["engines"]["belfast"]["failed_batches"] == 0
        assert "before" in point["engines"]["belfast"]["phases"]
    events, application = measured("fraud")
    one, whole = run_failure(parent, longer, lambda text: None, events=events, application=application)["points"]
    assert one["engines"]["belfast"]["failed"] == 0
    (recovered,) = whole["engines"]["belfast"]["recovery"]
    assert recovered
    parts = recovered[0]
    assert parts["told_ms"] == pytest.approx(parts["detection_ms"] + parts["entry_ms"])
    assert min(parts["detection_ms"], parts["entry_ms"]) > 0
