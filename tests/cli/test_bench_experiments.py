"""`ithaca bench reconfigure|failures`: the command line around the experiments."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca
from tests.cli.processes import left_behind

SMALL = [
    "--shards",
    "2",
    "--rounds",
    "1",
    "--record-bytes",
    "100",
    "--records-per-s",
    "100",
    "--batch",
    "2",
    "--no-plot",
]


@pytest.mark.campaign
def test_reconfigure_prints_a_table_and_says_what_the_figures_mean(tmp_path: Path) -> None:
    done = ithaca("bench", "reconfigure", "--dir", tmp_path / "b", *SMALL, "--seconds", "0.6", "--at", "0.2")
    text = done.stdout.decode()
    assert text.startswith("file system ")
    assert "2 shards of 2 replicas, 3 orderers; load: 100 records/s of 100 bytes" in text
    assert "reconfigured: longest gap beyond the undisturbed one" in text
    assert b"round 1 of 1: reconfigured" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_turn_that_ends_before_anything_happens_is_refused(tmp_path: Path) -> None:
    done = ithaca("bench", "failures", "--dir", tmp_path / "b", *SMALL, "--seconds", "1", "--at", "2", status=1)
    assert b"after 2 s of 1 s: choose one within" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    arguments = ["--dir", str(tmp_path / "b"), *SMALL, "--seconds", "600", "--at", "1"]
    with subprocess.Popen(
        [*COMMAND, "bench", "failures", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment() | {"BENCH_TEST": str(tmp_path)},
        start_new_session=True,
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if b"round 1 of 1: undisturbed" in line:
                break
        os.killpg(running.pid, signal.SIGINT)
        output = running.communicate(timeout=60)
    assert running.returncode == 130, output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
