"""`ithaca demo` as users run it: every claim holds, a picture is drawn, and no process is left, also after Ctrl-C."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, environment
from tests.cli.processes import left_behind

pytestmark = pytest.mark.timeout(300)


def start(directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, "demo", *arguments, "--dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment() | {"DEMO_TEST": str(directory)},
        start_new_session=True,
        cwd=directory,
    )


def test_the_pipeline_holds_and_leaves_nothing_but_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with start(tmp_path, "--records", "3000", "--seed", "2", "--plot", "out/payments.png") as demo:
        output, _ = demo.communicate(timeout=280)
    assert demo.returncode == 0, output
    for claim in [
        "judged 3,000 of 3,000",
        "checked: the log has all 3,000 records",
        "checked: the stream's alerts are those of plain Python",
        "checked: so are every user's running statistics",
        "(0, 1) are finalized",
        "by hour of",
        "no server is left",
        "every claim held",
        "  - the stream's alerts are those of plain Python",
    ]:
        assert claim in output
    assert left_behind(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "payments.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.campaign
def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    with start(tmp_path, "--records", "10000000", "--no-plot") as demo:
        assert demo.stdout is not None
        while "gateways append" not in (line := demo.stdout.readline()):
            assert line, "the demo ended"
        os.killpg(demo.pid, signal.SIGINT)
        output, _ = demo.communicate(timeout=120)
    assert demo.returncode == 130, output
    assert "Traceback" not in output
    assert left_behind(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
