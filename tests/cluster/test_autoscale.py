"""A real cluster under a small load gets a shard, and loses one when it is idle."""

import threading
from pathlib import Path
from typing import Any

import pytest

import ithaca
from ithaca.cluster.autoscaling.autoscale import Acting, autoscale
from ithaca.cluster.autoscaling.load_meter import Reading, load_of
from ithaca.cluster.autoscaling.policy import AutoscaleSettings, ShardLoad
from ithaca.cluster.temporary import Shape, temporary_cluster

SHAPE = Shape(shards=1, replicas=2, orderers=1)
SETTINGS = AutoscaleSettings(shards_max=2, records_per_s=5, hot_s=0.0, cold_s=0.2, cooldown_s=0.5)


class Enough(Exception):
    """What a test waited for has happened."""


def append_until(stop: threading.Event, bootstrap: str) -> None:
    with ithaca.connect(bootstrap, shard_policy="round_robin") as log:
        while not stop.is_set():
            log.append_many([b"a record"] * 20)


def test_a_shard_is_added_under_load_and_finalized_when_idle(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = []
    stop = threading.Event()

    def audit(entry: dict[str, Any]) -> None:
        entries.append(entry)
        if entry["decision"] == "add":
            stop.set()
        if entry["decision"] == "finalize":
            raise Enough

    with temporary_cluster(tmp_path / "cluster", SHAPE, lambda text: None) as cluster:
        load = threading.Thread(target=append_until, args=(stop, cluster.bootstrap))
        load.start()
        try:
            with pytest.raises(Enough):
                autoscale(
                    cluster.directory, SETTINGS, Acting(0.2, grace_s=0.1), audit, lambda text: None, samples_max=200
                )
        finally:
            stop.set()
            load.join()
        with ithaca.connect(cluster.bootstrap) as log:
            phases = {shard.shard: shard.phase for shard in log.admin.shards()}
            assert log.append(b"after all that").position > 1
    acts = [entry for entry in entries if entry["decision"] != "nothing"]
    assert [(entry["decision"], entry["outcome"]) for entry in acts] == [("add", "done"), ("finalize", "done")]
    assert acts[0]["shard"] == 1
    assert "records/s per shard" in acts[0]["reason"]
    assert acts[0]["loads"][0]["records_per_s"] > 5
    assert {phase for shard, phase in phases.items() if shard == acts[1]["shard"]} == {"finalized"}
    assert sorted(phases.values()) == ["finalized", "live"]
    assert entries[0]["reason"] == "shards that cannot be measured: 0", "one sample has no rates"


def test_a_dry_run_decides_and_changes_nothing(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = []
    settings = AutoscaleSettings(shards_min=2, shards_max=3)
    with temporary_cluster(tmp_path / "cluster", Shape(1, 1, 1), lambda text: None) as cluster:
        acting = Acting(0.05, dry_run=True)
        autoscale(cluster.directory, settings, acting, entries.append, lambda text: None, samples_max=3)
        with ithaca.connect(cluster.bootstrap) as log:
            assert [shard.shard for shard in log.admin.shards()] == [0]
    assert [(entry["decision"], entry["outcome"]) for entry in entries] == [
        ("nothing", "done"),
        ("add", "dry run"),
        ("nothing", "done"),
    ]
    assert entries[1]["reason"] == "1 shards are live, the least is 2"
    assert entries[1]["dry_run"] is True


def test_a_cluster_that_cannot_be_asked_is_told_and_asked_again(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = []
    with temporary_cluster(tmp_path / "cluster", Shape(1, 1, 1), lambda text: None) as cluster:
        directory = cluster.directory
    autoscale(directory, AutoscaleSettings(), Acting(0.01), entries.append, lambda text: None, samples_max=2)
    assert [entry["reason"] for entry in entries] == ["the load cannot be measured"] * 2
    assert "nobody answers" in entries[0]["outcome"]


def test_a_shard_has_the_rate_of_its_busiest_replica_and_the_lag_of_all_its_open_lanes() -> None:
    lanes = ("0-0-1", True, 100, 90), ("0-1-1", True, 50, 50), ("0-1-0", False, 7, 3)
    behind = ("0-0-1", True, 95, 80), ("0-1-1", True, 40, 45)
    one = Reading(0.0, 1, 1000, 10, 0, ()), Reading(2.0, 1, 3000, 30, 500, lanes)
    two = Reading(0.0, 2, 1000, 10, 0, ()), Reading(4.0, 2, 2000, 18, 250, behind)
    assert load_of(7, [one, two]) == ShardLoad(7, 1000, 10, 750, 10)
