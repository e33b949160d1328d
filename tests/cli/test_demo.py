"""The demo with few records: every claim checked, nothing left behind, and its checks can fail."""

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import COMMAND, environment, ithaca

import ithaca as library
from ithaca.apps.demo import run_demo
from ithaca.apps.transactions import transaction

RECORDS = 3000
END_S = 30.0


def left_behind(group: int) -> list[int]:
    """The processes of a group that do not end by themselves now that its leader has."""
    left = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            pgrp = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[2])
            descriptor = os.pidfd_open(int(name)) if pgrp == group else -1
        except (FileNotFoundError, ProcessLookupError):
            continue
        if descriptor >= 0:
            ended, _, _ = select.select([descriptor], [], [], END_S)
            left += [] if ended else [int(name)]
            os.close(descriptor)
    return left


def start(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, "demo", "--dir", str(directory), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        start_new_session=True,
    )


def test_the_story_holds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with start(tmp_path, "--records", str(RECORDS)) as demo:
        output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 0, output
    assert "nothing acknowledged was lost" in output
    assert "same positions, nothing doubled" in output
    assert "both followers saw exactly what the log holds" in output
    assert f"{RECORDS:,}" in output
    assert left_behind(demo.pid) == []
    assert list(tmp_path.iterdir()) == []


def test_a_kept_log_holds_every_transaction_once(tmp_path: Path) -> None:
    ithaca("demo", "--dir", tmp_path, "--records", "1000", "--keep")
    (home,) = tmp_path.iterdir()
    with library.open(home / "log", mode="r") as log, log.read_range(1) as records:
        assert [(record.key, record.value) for record in records] == [transaction(n) for n in range(1, 1001)]


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    with start(tmp_path, "--records", "10000000") as demo:
        assert demo.stdout is not None
        assert "a producer appends" in demo.stdout.readline()
        os.killpg(demo.pid, signal.SIGINT)
        output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130, output
    assert "Traceback" not in output
    assert left_behind(demo.pid) == []
    assert list(tmp_path.iterdir()) == []


def test_a_checker_that_expects_other_transactions_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The processes are spawned and know nothing of this: they produce and follow what they always do.
    monkeypatch.setattr("ithaca.apps.demo.transaction", lambda number: (b"key", b"other"))
    assert run_demo(1000, tmp_path, keep=False) is False
    assert "FAILED: position 1 holds" in capsys.readouterr().out


@pytest.mark.parametrize("records", ["0", "999", "many"])
def test_wrong_usage(records: str) -> None:
    assert "--records" in ithaca("demo", "--records", records, status=2).stderr.decode()
