"""`ithaca bench append|latency|subscribe|read|memory --cluster`: the command line around the measurements."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca, json_lines
from tests.cli.processes import left_behind

from ithaca.cluster.ports import free_ports
from ithaca.cluster.temporary import Shape, temporary_cluster

SMALL = ["--record-bytes", "100", "--batch", "4", "--rounds", "1"]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that runs already."""
    shape = Shape(shards=1, replicas=1, orderers=1)
    with temporary_cluster(tmp_path_factory.mktemp("running") / "cluster", shape, lambda text: None) as cluster:
        yield cluster.bootstrap


def test_append_prints_a_table_and_where_it_ran(tmp_path: Path, running: str) -> None:
    done = ithaca("bench", "append", "-b", running, "--dir", tmp_path / "b", *SMALL, "--seconds", "0.2")
    text = done.stdout.decode()
    assert text.startswith("file system ")
    assert "append: batches of 4 records of 100 bytes" in text
    assert "cluster" in text
    assert b"round 1 of 1: cluster" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_latency_prints_json(tmp_path: Path, running: str) -> None:
    arguments = ["-b", running, "--dir", str(tmp_path / "b"), "--rounds", "1", "--seconds", "0.2", "--json"]
    (report,) = json_lines(ithaca("bench", "latency", *arguments).stdout)
    assert report["bench"] == "latency"
    assert set(report["latency_ms"]) == {"p50", "p99", "max"}
    assert report["settings"]["cluster"] == running


@pytest.mark.parametrize(
    ("command", "contender"),
    [(["subscribe"], "subscribe, batches"), (["read", "--seconds", "0.1"], "read_range")],
    ids=["subscribe", "read"],
)
def test_reading_prints_a_table(tmp_path: Path, running: str, command: list[str], contender: str) -> None:
    arguments = ["-b", running, "--dir", str(tmp_path / "b"), *SMALL, "--bytes", "64K"]
    text = ithaca("bench", *command, *arguments).stdout.decode()
    assert contender in text
    assert "rate / ceiling" in text


def test_ctrl_c_takes_the_cluster_down(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "bench", "append", "--orderers", "1", "--dir", str(tmp_path / "b"), "--seconds", "600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {"BENCH_TEST": str(tmp_path)},
        start_new_session=True,
    ) as bench:
        assert bench.stdout is not None
        while "round 1 of 5: ceiling" not in bench.stdout.readline():
            assert bench.poll() is None
        os.killpg(bench.pid, signal.SIGINT)
        output, _ = bench.communicate(timeout=60)
    assert bench.returncode == 130, output
    assert "Traceback" not in output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["append", "-b", "127.0.0.1:1", "--shards", "2"], "leave --shards out"),
        (["latency", "-b", "127.0.0.1:1", "--durability", "os"], "leave --durability out"),
        (["append", "-b", "127.0.0.1:1", "--recycle"], "leave --bootstrap out"),
        (["append", "--compare-shards", "--shards", "1"], "--shards 2 or more"),
        (["append", "--compare-shards", "--profile", "flames"], "leave --compare-shards out"),
        (["append", "--compare-shards", "--compare-tls"], "one thing at a time"),
        (["append", "--compare-tls", "-b", "127.0.0.1:7600"], "leave --bootstrap out"),
        (["latency", "--compare-tls", "--profile", "flames"], "leave --compare-tls out"),
        (["latency", "--compare-tls", "--compare-users"], "one thing at a time"),
        (["append", "--compare-users", "-b", "127.0.0.1:7600"], "leave --bootstrap out"),
        (["append", "--window", "0"], "--window"),
        (["subscribe", "--bytes", "none"], "is not a size"),
    ],
    ids=str,
)
def test_wrong_usage_is_named(arguments: list[str], complaint: str) -> None:
    text = ithaca("bench", *arguments, status=2).stderr.decode()
    assert complaint in " ".join(text.replace("│", " ").split())


def test_a_cluster_that_cannot_be_is_refused(tmp_path: Path) -> None:
    done = ithaca("bench", "append", "--orderers", "2", "--dir", tmp_path / "b", status=1)
    assert b"there are 2 orderers" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bench", ["append", "smr", "store", "backup", "spark"])
def test_a_cluster_that_does_not_answer_is_waited_for_as_long_as_told(tmp_path: Path, bench: str) -> None:
    closed = f"127.0.0.1:{free_ports(1)[0]}"
    done = ithaca("bench", bench, "-b", closed, "--timeout", "200ms", "--dir", tmp_path / "b", status=1)
    assert "within 0.2 s" in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []
