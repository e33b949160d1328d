"""Small experiments on real clusters: what is compared with what, and nothing left behind."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.bench.test_cluster_benches import servers_in

from ithaca.bench.experiments.experiment import UNDISTURBED, ExperimentSettings
from ithaca.bench.experiments.failures import FOLLOWER, LEADER, REPLICA, run_failures
from ithaca.bench.experiments.load import Seats
from ithaca.bench.experiments.reconfigure import RECONFIGURED, run_reconfigure
from ithaca.model.errors import InvalidInput


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Path]:
    """Where an experiment works; afterwards nothing of it is there any more, and no process."""
    yield tmp_path / "bench"
    assert list(tmp_path.iterdir()) == []
    assert servers_in(tmp_path) == []


@pytest.mark.campaign
def test_a_shard_comes_and_another_goes_in_each_round(parent: Path) -> None:
    told: list[str] = []
    settings = ExperimentSettings(shards=2, orderers=1, record_bytes=100, batch=2, rounds=2, seconds=1.0, at_s=0.2)
    report = run_reconfigure(parent, settings, told.append)
    assert report["capacity_records_per_s"] == pytest.approx(3 * report["load_records_per_s"], rel=0.01)
    assert list(report["scenarios"]) == [UNDISTURBED, RECONFIGURED]
    assert "round 2 of 2: reconfigured" in told
    for turns in report["rounds"]:
        quiet, turn = turns[UNDISTURBED], turns[RECONFIGURED]
        events = turn["events_s"]
        assert list(events) == ["asked", "added", "opened", "finalized"]
        assert 0.2 <= events["asked"] <= events["added"] <= events["opened"] <= events["finalized"]
        assert (quiet["failed_batches"], turn["failed_batches"]) == (0, 0)
        assert sum(turn["bins"]) == turn["records"]
        assert turn["extra_gap_ms"] == pytest.approx(turn["longest_gap_ms"] - quiet["longest_gap_ms"], abs=0.01)
        assert turn["records_ratio"] == pytest.approx(turn["records"] / quiet["records"], abs=0.001)
    assert report["settings"]["shards"] == 2


@pytest.mark.campaign
def test_servers_are_killed_and_appends_go_on(parent: Path) -> None:
    settings = ExperimentSettings(
        shards=2, record_bytes=100, batch=2, rounds=1, seconds=3.0, at_s=0.3, batches_per_s=40
    )
    report = run_failures(parent, settings, lambda text: None)
    assert report["settings"]["detect_s"] == 1
    assert report["load_records_per_s"] == 80
    assert report["capacity_records_per_s"] is None
    (turns,) = report["rounds"]
    assert list(turns) == [UNDISTURBED, LEADER, FOLLOWER, REPLICA]
    assert all(turn["failed_batches"] == 0 for turn in turns.values())
    assert turns[LEADER]["events_s"]["killed"] >= 0.3
    assert turns[LEADER]["resumed_ms"] > 0
    events = turns[REPLICA]["events_s"]
    assert list(events) == ["killed", "detected", "finalized"]
    assert events["killed"] < events["detected"] <= events["finalized"]
    detected = (events["detected"] - events["killed"]) * 1e3
    assert turns[REPLICA]["detection_ms"] == pytest.approx(detected, abs=0.2)
    assert turns[REPLICA]["gap_ms"] > 900, "the shard's client waits until it is noticed"
    assert turns[REPLICA]["resumed_ms"] == pytest.approx(
        turns[REPLICA]["detection_ms"] + turns[REPLICA]["restored_ms"], abs=0.2
    )


def test_a_silence_too_short_to_tell_is_refused(parent: Path) -> None:
    with pytest.raises(InvalidInput, match=r"use 0\.1 s or more"):
        run_failures(parent, ExperimentSettings(), lambda text: None, detect_s=0.05)


@pytest.mark.parametrize(("at_s", "share"), [(0.0, 0.5), (6.0, 0.5), (1.0, 0.0), (1.0, 1.5)])
def test_settings_that_cannot_be_are_refused(at_s: float, share: float) -> None:
    with pytest.raises(InvalidInput, match=r"choose one within|use more than 0"):
        ExperimentSettings(seconds=6.0, at_s=at_s, share=share)


def test_clients_keep_their_shards_and_spread_over_those_that_are_left() -> None:
    random = Random(7)
    seats, live, newest = Seats(6), list(range(6)), 5
    assert [seats.home(client, live) for client in range(6)] == live
    for _ in range(50):
        before = {client: seats.home(client, live) for client in range(6)}
        newest += 1
        live = sorted([*live, newest])
        gone = random.choice(live[:-1])
        live.remove(gone)
        after = {client: seats.home(client, live) for client in range(6)}
        assert sorted(after.values()) == live
        assert {client for client in before if before[client] != after[client]} == {
            client for client, home in before.items() if home == gone
        }
