"""Tiny runs of the cluster's benches, with real servers: what is compared with what, and nothing left behind."""

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

import ithaca
from ithaca.bench.cluster.append import AppendSettings, run_append, run_latency
from ithaca.bench.cluster.memory import ClusterMemorySettings, run_cluster_memory
from ithaca.bench.cluster.read import ReadSettings, run_read, run_subscribe
from ithaca.bench.cluster.shards import run_compare_shards
from ithaca.bench.cluster.target import measured_cluster
from ithaca.bench.cluster.tls import run_compare_tls
from ithaca.bench.cluster.users import BESIDE, WITH, WITHOUT, run_compare_users
from ithaca.bench.profiles import find_py_spy
from ithaca.cluster.temporary import Shape, temporary_cluster
from ithaca.model.limits import KIB, MIB

SMALL = Shape(shards=1, replicas=2, orderers=1, segment_bytes=256 * KIB)
TWO_SHARDS = Shape(shards=2, replicas=1, orderers=1, segment_bytes=256 * KIB)


def quiet(text: str) -> None:
    """Progress that nobody looks at."""


def servers_in(directory: Path) -> list[str]:
    """The command lines of processes that have something to do with the directory."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if os.fsencode(directory) in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that runs already."""
    with temporary_cluster(tmp_path_factory.mktemp("running") / "cluster", TWO_SHARDS, quiet) as cluster:
        yield cluster.bootstrap


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Path]:
    """Where a bench works; afterwards nothing of it is there any more, and no process."""
    yield tmp_path / "bench"
    assert list(tmp_path.iterdir()) == []
    assert servers_in(tmp_path) == []
    assert multiprocessing.active_children() == []


def test_append_is_compared_with_both_kinds_of_file_within_the_run(parent: Path) -> None:
    settings = AppendSettings(SMALL, record_bytes=500, batch=8, window=2, seconds=0.3, rounds=2, producers=2)
    told: list[str] = []
    report = run_append(parent, settings, told.append)
    assert set(report["contenders"]) == {"ceiling, prewritten", "ceiling, append", "cluster"}
    for figures in report["contenders"].values():
        assert len(figures["rounds"]) == 2
        assert figures["records_per_s"] > 0
        assert figures["bytes_per_s"] == pytest.approx(500 * figures["records_per_s"], rel=0.01)
    shares = report["compared"]["cluster"]
    for ceiling, share in shares.items():
        for turn in range(2):
            ours = report["contenders"]["cluster"]["rounds"][turn]["bytes_per_s"]
            bare = report["contenders"][ceiling]["rounds"][turn]["bytes_per_s"]
            assert share["rounds"]["rate"][turn] == pytest.approx(ours / bare, rel=0.01)
    assert report["contenders"]["cluster"]["ratios"] == {"to": "ceiling, append", **shares["ceiling, append"]}
    assert report["records_per_s"] == report["contenders"]["cluster"]["records_per_s"]
    assert report["settings"]["cluster"]["replicas"] == 2
    assert "round 2 of 2: cluster" in told


def test_latency_is_that_of_lone_records(parent: Path, running: str) -> None:
    report = run_latency(parent, AppendSettings(running, record_bytes=100, seconds=0.3, rounds=1), quiet)
    assert (report["settings"]["batch"], report["settings"]["window"], report["settings"]["producers"]) == (1, 1, 1)
    latency = report["latency_ms"]
    assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    records = report["records_per_s"] * 0.3
    assert records / 2 * latency["p50"] <= 300, "half of them took at least the median, one after the other"


@pytest.mark.campaign
def test_a_recycling_cluster_is_compared_with_prewritten_files(parent: Path) -> None:
    settings = AppendSettings(SMALL, record_bytes=4 * KIB, batch=4, seconds=0.3, rounds=1, recycle=True)
    report = run_append(parent, settings, quiet)
    assert report["contenders"]["cluster"]["ratios"]["to"] == "ceiling, prewritten"


@pytest.mark.campaign
def test_two_shards_are_compared_with_one(parent: Path) -> None:
    settings = AppendSettings(TWO_SHARDS, record_bytes=500, batch=8, seconds=0.3, rounds=1, producers=2)
    report = run_compare_shards(parent, settings, quiet)
    assert set(report["contenders"]) == {"1 shard", "2 shards"}
    assert len(report["compared"]["2 shards"]["1 shard"]["rounds"]["rate"]) == 1


@pytest.mark.campaign
def test_tls_is_compared_with_none(parent: Path) -> None:
    settings = AppendSettings(SMALL, record_bytes=500, batch=8, seconds=0.3, rounds=1)
    report = run_compare_tls(parent, settings, quiet)
    assert set(report["contenders"]) == {"without TLS", "with TLS"}
    assert len(report["compared"]["with TLS"]["without TLS"]["rounds"]["rate"]) == 1


@pytest.mark.campaign
def test_users_are_compared_with_none(parent: Path) -> None:
    settings = AppendSettings(SMALL, record_bytes=500, batch=8, seconds=0.5, rounds=1)
    report = run_compare_users(parent, settings, quiet)
    assert set(report["contenders"]) == {WITHOUT, WITH, BESIDE}
    assert report["compared"][WITH][WITHOUT]["rate"] > 0
    assert report["compared"][BESIDE][WITH]["rate"] > 0
    (greed,) = report["greedy"]["rounds"]
    assert 0 < greed["batches"] < 100, "it appended, and was held back"


def test_a_running_cluster_has_no_ceiling_and_every_shard_is_loaded(parent: Path, running: str) -> None:
    with ithaca.connect(running) as log:
        before = log.tail()
        settings = AppendSettings(running, record_bytes=100, batch=4, seconds=0.3, rounds=1, producers=2)
        report = run_append(parent, settings, quiet)
        assert set(report["contenders"]) == {"cluster"}
        assert report["compared"] == {"cluster": {}}
        assert {record.shard for record in log.read_range(before)} == {0, 1}


def reading(cluster: str | Shape, **changes: Any) -> ReadSettings:
    settings: dict[str, Any] = {"bytes": 2 * MIB, "record_bytes": 4 * KIB, "batch": 8, "seconds": 0.2, "rounds": 1}
    return ReadSettings(cluster, **settings | changes)


@pytest.mark.campaign
def test_subscribing_is_compared_with_bare_sockets(parent: Path, running: str) -> None:
    report = run_subscribe(parent, reading(running), quiet)
    contenders = report["contenders"]
    assert list(contenders) == ["loopback, bytes", "loopback, records", "subscribe, batches", "subscribe, records"]
    for ours, bare in (("subscribe, batches", "loopback, bytes"), ("subscribe, records", "loopback, records")):
        assert contenders[ours]["ratios"]["to"] == bare
        assert contenders[ours]["records_per_s"] > 0
    assert report["records_per_s"] == contenders["subscribe, records"]["records_per_s"]


def test_reading_is_compared_with_bare_sockets(parent: Path, running: str) -> None:
    report = run_read(parent, reading(running), quiet)
    contenders = report["contenders"]
    assert contenders["read"]["ratios"]["to"] == "round trip"
    assert contenders["read"]["ratios"]["latency_p50"] > 0
    assert contenders["read_range"]["ratios"]["to"] == "loopback, records"


@pytest.mark.campaign
def test_the_memory_of_every_server_is_noted_while_a_follower_reads_along(parent: Path) -> None:
    settings = ClusterMemorySettings(
        SMALL, bytes=8 * MIB, baseline_bytes=MIB, record_bytes=4 * KIB, batch=8, kept_bytes=MIB
    )
    told: list[str] = []
    report = run_cluster_memory(parent, settings, told.append)
    assert set(report["servers"]) == {"orderer-1", "shard-0-replica-0", "shard-0-replica-1"}
    for held in report["servers"].values():
        assert 0 < held["early_peak_rss_anon_bytes"] <= held["peak_rss_anon_bytes"]
    assert report["end_at_bytes"] >= 8 * MIB
    assert report["records_followed"] * 4 * KIB >= 8 * MIB
    assert report["early_at_bytes"] < report["end_at_bytes"]
    assert any("have passed" in text for text in told)


@pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")
def test_every_process_is_profiled_on_request(parent: Path, running: str, tmp_path_factory: Any) -> None:
    flames = tmp_path_factory.mktemp("flames")
    settings = AppendSettings(running, record_bytes=100, batch=4, seconds=0.1, rounds=1)
    report = run_append(parent, settings, quiet, flames)
    assert {"orderer-1", "shard-0-replica-0", "shard-1-replica-0", "producer 1"} == set(report["profiles"])
    for name, outcome in report["profiles"].items():
        assert "skipped" in outcome or "<svg" in Path(outcome).read_text(), (name, outcome)


def test_a_cluster_is_gone_after_a_failure_inside(parent: Path) -> None:
    def fail_inside() -> None:
        with measured_cluster(parent, SMALL, quiet) as cluster:
            assert len(cluster.pids()) == 3
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert servers_in(parent) == []
    rmtree(parent)
